import assert from "node:assert/strict";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { clientOf, must } from "../support/http/client.ts";
import { freePort, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { supervise, type Supervised } from "../support/processes/supervised.ts";
import { rulesOf } from "../support/rules/rules-api.ts";

/** One more than an event has tries. */
const KILLS = 5;

describe("kill -9 of a worker whose only event waits to be saved", function () {
  this.timeout(300_000);
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let web: Laurel;
  let worker: Supervised | undefined;
  let env: Record<string, string>;

  before(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path);
    database = await openPostgres(services.databaseUrl, 3);
    env = { ...services.env, PORT: String(await freePort()) };
    web = await startProcess(["serve"], { ...env, ROLES: "web" });
  });
  after(async () => {
    await worker?.stop();
    web?.child.kill("SIGTERM");
    await web?.ended;
    await database?.close();
    await services?.remove();
    await dir?.remove();
  });

  /** Connections that wait for the lock, of workers alive or dead. */
  const waitingPids = async (): Promise<number[]> => {
    const query = sql<{ pid: number }>`
      select pid from pg_locks where relation = 'ledger_entries'::regclass and not granted`;
    const { rows } = await query.execute(database.em.fork().getKysely());
    return rows.map(({ pid }) => pid);
  };
  const attempts = async (): Promise<number[]> => {
    const query = sql<{ attempts: number }>`
      select attempts from event_q union all select attempts from event_due`;
    return (await query.execute(database.em.fork().getKysely())).rows.map((row) => row.attempts);
  };

  it("counts no try, however often it happens", async () => {
    const api = clientOf(`http://127.0.0.1:${env["PORT"]}`);
    const tenant = await aTenant(api);
    await rulesOf(api, tenant).publish({
      triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }],
    });
    const holder = await database.em.fork().getKysely().startTransaction().execute();
    await sql`lock table ledger_entries in exclusive mode`.execute(holder);
    const event = { externalUserId: "player", eventType: "lesson.completed" };
    const { eventId } = must(await api.post("/api/v1/events", event, { key: tenant.key }), 200);
    try {
      worker = supervise(["worker"], env);
      for (let kills = 0; kills < KILLS; kills++) {
        const pids = await eventually(
          async () => {
            await sql`update event_due set due_at = now() - interval '1 minute'`.execute(
              database.em.fork().getKysely(),
            );
            const found = await waitingPids();
            return found.length > 0 && found;
          },
          { timeoutMs: 60_000, label: `the event waits to be saved after ${kills} kills` },
        );
        assert.deepEqual(await attempts(), [0], `after ${kills} kills`);
        await worker.kill();
        // A connection that waits for a lock does not notice that its client is gone.
        for (const pid of pids)
          await sql`select pg_terminate_backend(${pid})`.execute(database.em.fork().getKysely());
      }
    } finally {
      await holder.rollback().execute();
    }
    const statusOf = async () =>
      must(await api.get(`/api/v1/events/${eventId}`, { key: tenant.key }), 200).status;
    await eventually(async () => (await statusOf()) !== "PENDING", { timeoutMs: 60_000 });
    assert.equal(await statusOf(), "PROCESSED");
  });
});
