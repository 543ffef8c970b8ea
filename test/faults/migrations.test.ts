import assert from "node:assert/strict";
import { type Kysely, sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventually } from "../support/eventually.ts";
import { type Laurel, laurel, temporaryDir } from "../support/processes/process.ts";
import { startTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.ts";

/** The advisory lock of migrations. */
const LOCK = 7_740;
/** What is at once on an idle machine; less than the lock of a transaction that rests for ever is kept. */
const SOON_MS = 45_000;

describe("`laurel migrate up` whose connections are lost while it runs", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let proxy: TcpProxy;
  let database: Database;
  let db: Kysely<unknown>;
  beforeEach(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path, { isEmpty: true });
    const direct = new URL(services.databaseUrl);
    proxy = await startTcpProxy(direct.hostname, Number(direct.port || 5_432));
    database = await openPostgres(services.databaseUrl, 1);
    db = database.em.fork().getKysely() as unknown as Kysely<unknown>;
  });
  afterEach(async () => {
    await proxy.stop();
    await database.close();
    await services.remove();
    await dir.remove();
  });

  const isWaiting = async (): Promise<boolean> => {
    const waiting = await sql`
      select from pg_locks where locktype = 'advisory' and objid = ${LOCK} and not granted`.execute(db);
    return waiting.rows.length > 0;
  };

  /** A migration that waits for its turn when `lose` is called, and gets it then. */
  const migrateAndLose = async (lose: () => unknown): Promise<Laurel> => {
    await sql`select pg_advisory_lock(${LOCK}::bigint)`.execute(db);
    const url = new URL(services.databaseUrl);
    url.host = `127.0.0.1:${proxy.port}`;
    const migrating = laurel(["migrate", "up"], { ...services.env, DATABASE_URL: url.href });
    await eventually(isWaiting, { timeoutMs: SOON_MS, label: "it waits for its turn" });
    await lose();
    await sql`select pg_advisory_unlock(${LOCK}::bigint)`.execute(db);
    return migrating;
  };

  const endsWithAWord = async ({ child, ended, output }: Laurel, word: RegExp): Promise<void> => {
    await eventually(() => child.exitCode !== null, { timeoutMs: SOON_MS, label: "it ends" });
    assert.equal(await ended, 1, output());
    assert.match(output(), word);
  };

  /** The next one has its turn, and all that there is to do. */
  const isDoneByTheNext = async (): Promise<void> => {
    const next = laurel(["migrate", "up"], services.env);
    await eventually(() => next.child.exitCode !== null, { timeoutMs: SOON_MS, label: "the next one" });
    assert.equal(await next.ended, 0, next.output());
    assert.match(next.output(), /^up {2}\d+-baseline/);
  };

  it("ends with 1 and says so where they are cut, and the next one migrates", async () => {
    await endsWithAWord(await migrateAndLose(() => proxy.cut()), /^.*Connection terminated/);
    await isDoneByTheNext();
  });

  it("ends with 1 and says so where they were half-open for a while, and the next one migrates", async () => {
    const migrating = await migrateAndLose(() => proxy.halfOpen());
    await proxy.restore();
    await endsWithAWord(migrating, /PostgreSQL has not answered/);
    await isDoneByTheNext();
  });

  it("ends with 1 and says so where they stay half-open, and keeps no other from migrating", async () => {
    const migrating = await migrateAndLose(() => proxy.halfOpen());
    await isDoneByTheNext();
    await endsWithAWord(migrating, /PostgreSQL has not answered/);
  });
});
