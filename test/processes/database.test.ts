import assert from "node:assert/strict";
import { sql } from "kysely";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { outageError } from "../../src/domain/kernel/outages.ts";
import { WEB } from "../../src/domain/kernel/timeouts.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { clientOf } from "../support/http/client.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, laurel, startProcess, temporaryDir } from "../support/processes/process.ts";

describe("the database of a cluster", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  beforeEach(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path, { isEmpty: true });
  });
  afterEach(async () => {
    await services.remove();
    await dir.remove();
  });
  const migrate = async (...args: string[]): Promise<string> => {
    const run = laurel(["migrate", ...args], services.env);
    assert.equal(await run.ended, 0, run.output());
    return run.output();
  };

  it("is migrated up, shown, taken back a step and up again", async () => {
    assert.match(await migrate("status"), /pending {2}\d+-baseline/);
    assert.match(await migrate("up"), /^up {2}\d+-baseline\nup {2}/);
    assert.doesNotMatch(await migrate("status"), /pending/);
    assert.equal(await migrate("up"), "nothing to do\n");
    const newest = /down {2}(\S+)/.exec(await migrate("down", "--yes"))?.[1];
    assert.match(await migrate("status"), new RegExp(`pending {2}${newest}`));
    assert.equal(await migrate("up"), `up  ${newest}\n`);
  });

  it("is migrated once when several processes start on it at once", async () => {
    const started = await Promise.all(
      [1, 2, 3].map(async () => startProcess(["serve"], { ...services.env, PORT: String(await freePort()) })),
    );
    for (const { child } of started) child.kill("SIGTERM");
    assert.deepEqual(await Promise.all(started.map(({ ended }) => ended)), [0, 0, 0]);
    const database = await openPostgres(services.databaseUrl, 1);
    const states = await database.migrationStates();
    await database.close();
    assert.ok(states.every(({ isApplied }) => isApplied));
  });

  it("refuses requests as busy while all connections are in use", async () => {
    const { databaseUrl } = services;
    const database = await openPostgres(databaseUrl, 1, { isWatched: true, timeouts: WEB });
    const em = database.em.fork();
    const held = Promise.withResolvers<void>();
    const holding = em.transactional(async (tx) => {
      await sql`select 1`.execute(tx.getKysely());
      const other = database.em.fork().transactional((second) => sql`select 1`.execute(second.getKysely()));
      await other.then(() => held.reject(new Error("there was a second connection")), held.reject);
    });
    await assert.rejects(held.promise, (error) => {
      const refusal = outageError(error) ?? error;
      assert.ok(refusal instanceof DomainError);
      assert.deepEqual([refusal.code, refusal.reason], ["SERVICE_UNAVAILABLE", "SERVER_BUSY"]);
      assert.ok(refusal.retryAfterSeconds! >= 1);
      return true;
    });
    await holding.catch(() => undefined);
    await database.close();
  });

  it("may cut every connection: the process goes on, and is ready again", async () => {
    const env = { ...services.env, PORT: String(await freePort()) };
    const server = await startProcess(["serve"], env);
    const api = clientOf(`http://127.0.0.1:${env.PORT}`);
    const database = await openPostgres(services.databaseUrl, 1);
    const cut = await cutOthers(database);
    assert.ok(cut > 0);
    await eventually(async () => (await api.get("/health/ready")).status === 200);
    const registration = {
      email: "owner@example.com",
      password: "Correct-horse-7",
      name: "Owner",
      tenantName: "Studio",
    };
    // Connections of before may still be found to be dead: who is told to come back does.
    await eventually(async () => (await api.post("/api/v1/auth/register", registration)).status === 201);
    await database.close();
    server.child.kill("SIGTERM");
    assert.equal(await server.ended, 0, server.output());
  });
});

describe("connections that die under a transaction", () => {
  it("do not use up the pool: there is a next transaction however many were cut", async () => {
    const dir = await temporaryDir();
    const services = await startServices(dir.path, { isEmpty: true });
    const database = await openPostgres(services.databaseUrl, 2);
    const admin = await openPostgres(services.databaseUrl, 1);
    try {
      for (let cuts = 0; cuts < 5; cuts++) {
        const held = database.em.fork().transactional(async (em) => {
          await sql`select 1`.execute(em.getKysely());
          await cutOthers(admin);
          await eventually(async () => (await connections(admin)) === 1);
        });
        await assert.rejects(held);
      }
      await database.ping();
    } finally {
      await database.close();
      await admin.close();
      await services.remove();
      await dir.remove();
    }
  });
});

const connections = async ({ em }: Database): Promise<number> => {
  const counted = await sql<{ n: number }>`
    select count(*) as n from pg_stat_activity where datname = current_database()`.execute(
    em.fork().getKysely(),
  );
  return counted.rows[0]!.n;
};

/** Ends every other connection to the database, as a restart of the server would. */
const cutOthers = async ({ em }: Database): Promise<number> => {
  const cut = await sql<{ n: number }>`
    select count(pg_terminate_backend(pid)) as n from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`.execute(em.fork().getKysely());
  return cut.rows[0]!.n;
};
