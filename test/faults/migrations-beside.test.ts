import assert from "node:assert/strict";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { laurel, temporaryDir } from "../support/processes/process.ts";

/** These change the table of players, and that of mails that wait, in this order. */
const FIRST = "20261129000101-first-seen";
const MAILS = "20261129000102-mail-refusals";
const SOON = { timeoutMs: 60_000 };

describe("`laurel migrate up` beside others who use the tables", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  beforeEach(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path, { isEmpty: true });
    database = await openPostgres(services.databaseUrl, 4);
    await database.migrateUp();
    while (await isApplied(FIRST)) await database.migrateDown();
  });
  afterEach(async () => {
    await database.close();
    await services.remove();
    await dir.remove();
  });

  const isApplied = async (name: string): Promise<boolean> =>
    (await database.migrationStates()).some((state) => state.name === name && state.isApplied);

  const read = async (table: string): Promise<void> =>
    void (await sql`select from ${sql.table(table)}`.execute(database.em.fork().getKysely()));

  const isWaitedFor = async (table: string): Promise<boolean> => {
    const { rows } = await sql`
      select from pg_locks where relation = ${table}::regclass and not granted`.execute(
      database.em.fork().getKysely(),
    );
    return rows.length > 0;
  };

  /** Migrates while somebody has read a table and not ended yet, as a backup has; `check` runs meanwhile. */
  const migrateBesideReader = async (table: string, check: () => Promise<void>): Promise<void> => {
    const migrating = await database.em.fork().transactional(async (work) => {
      await sql`select from ${sql.table(table)}`.execute(work.getKysely());
      const started = laurel(["migrate", "up"], services.env);
      await eventually(() => isWaitedFor(table), { ...SOON, label: "it waits for the table" });
      await check();
      assert.equal(started.child.exitCode, null);
      return started;
    });
    await eventually(() => migrating.child.exitCode !== null, { ...SOON, label: "it ends" });
    assert.equal(await migrating.ended, 0, migrating.output());
    assert.ok((await database.migrationStates()).every((state) => state.isApplied));
  };

  it("keeps nobody from a table for which it waits itself", async () => {
    await migrateBesideReader("players", async () => {
      await eventuallyHolds(() => read("players"), SOON);
    });
  });

  it("has let go of what it changed before it begins with the next migration", async () => {
    await migrateBesideReader("email_outbox", async () => {
      await read("players");
      const pending = (await database.migrationStates()).filter((state) => !state.isApplied);
      assert.equal(pending[0]?.name, MAILS);
    });
  });
});
