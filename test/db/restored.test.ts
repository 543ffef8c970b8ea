import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { openDomain } from "../support/domain/domain.ts";
import { type Services, startServices } from "../support/processes/services.ts";

describe("a database that was restored for another database user", () => {
  const [before, after] = [1, 2].map((n) => `laurel_test_user_${n}_${randomUUID().slice(0, 8)}`) as [
    string,
    string,
  ];
  let services: Services;
  let superuser: Database;

  const nameOf = (): string => new URL(services.databaseUrl).pathname.slice(1);
  const openAs = (user: string): Promise<Database> => {
    const url = new URL(services.databaseUrl);
    url.username = user;
    return openPostgres(url.href, 2);
  };
  const run = (text: string) => superuser.em.fork().getConnection().execute(text);

  beforeEach(async () => {
    services = await startServices("", { isEmpty: true });
    superuser = await openPostgres(services.databaseUrl, 1);
    for (const user of [before, after]) await run(`create role ${user} login createrole`);
    await run(`alter database ${nameOf()} owner to ${before}`);
    const first = await openAs(before);
    await first.migrateUp();
    await openDomain(first).addProject();
    await first.close();
    await run(`reassign owned by ${before} to ${after}`);
  });
  afterEach(async () => {
    await run(`alter database ${nameOf()} owner to current_user`);
    for (const user of [before, after]) await run(`drop owned by ${user} cascade; drop role ${user}`);
    await superuser.close();
    await services.remove();
  });

  /** The projects that a request sees. */
  const seen = async (database: Database): Promise<number> => {
    const { rows } = await sql<{
      id: string;
      tenant: string;
    }>`select id, tenant_id as tenant from projects`.execute(superuser.em.fork().getKysely());
    const { id, tenant: tenantId } = rows[0]!;
    const parts = {
      em: database.em,
      clock: () => new Date(),
      wakeUps: NO_WAKE_UPS,
      onError: (error: unknown) => assert.fail(String(error)),
    };
    const transact = createTransact(parts, { role: "web", tenantId, projectIds: [id] });
    return (await transact(({ db }) => sql`select from projects`.execute(db))).rows.length;
  };

  it("serves requests from the next start on", async () => {
    const restored = await openAs(after);
    try {
      await assert.rejects(seen(restored), /permission denied to set role/);
      await restored.migrateUp();
      assert.equal(await seen(restored), 1);
    } finally {
      await restored.close();
    }
  });

  it("does not start without its policies, which are lost where the roles were not there", async () => {
    await run(`do $$ declare one record; begin
      for one in select polname, polrelid::regclass as of from pg_policy loop
        execute format('drop policy %I on %s', one.polname, one.of);
      end loop; end $$`);
    const restored = await openAs(after);
    try {
      await assert.rejects(restored.migrateUp(), /no policies, as after a restore without roles/);
    } finally {
      await restored.close();
    }
  });
});
