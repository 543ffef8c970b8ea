import assert from "node:assert/strict";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTenant } from "../support/app/app.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { eventually } from "../support/eventually.ts";
import { clientOf, must } from "../support/http/client.ts";
import { freePort, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { supervise, type Supervised } from "../support/processes/supervised.ts";
import { rulesOf } from "../support/rules/rules-api.ts";

const PLAYERS = 30;
const EACH = 10;
/** Each in another step. */
const KILLS = 2;

describe("kill -9 of a worker in the midst of a bulk revert", function () {
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
    database = await openPostgres(services.databaseUrl, 4);
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

  const db = () => database.em.fork().getKysely();
  const numberOf = async (query: ReturnType<typeof sql<{ n: string | number }>>): Promise<number> =>
    Number((await query.execute(db())).rows[0]!.n);
  const reverted = () => numberOf(sql`select count(*) as n from event_results where status = 'REVERTED'`);
  /** Connections that wait for the lock: those of workers, or of the next holder. */
  const waitingPids = async (who: "WORKER" | "HOLDER"): Promise<number[]> => {
    const { rows } = await sql<{ pid: number; mode: string }>`
      select pid, mode from pg_locks
      where relation = 'ledger_entries'::regclass and not granted`.execute(db());
    return rows.filter(({ mode }) => (mode === "ExclusiveLock") === (who === "HOLDER")).map(({ pid }) => pid);
  };
  const someWaiting = (who: "WORKER" | "HOLDER"): Promise<number[]> =>
    eventually(
      async () => {
        const found = await waitingPids(who);
        return found.length > 0 && found;
      },
      { timeoutMs: 60_000, label: `${who} waits for the lock` },
    );
  /** Lets nobody save. */
  const hold = async () => {
    const holder = await db().startTransaction().execute();
    await sql`lock table ledger_entries in exclusive mode`.execute(holder);
    return holder;
  };

  it("takes everything back exactly once", async () => {
    const api = clientOf(`http://127.0.0.1:${env["PORT"]}`);
    const tenant = await aTenant(api);
    const { key } = tenant;
    await rulesOf(api, tenant).publish({ triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }] });
    const events = Array.from({ length: PLAYERS * EACH }, (_, i) => ({
      externalUserId: `player-${i % PLAYERS}`,
      eventType: "lesson.completed",
    }));
    worker = supervise(["worker"], env);
    const eventIds: string[] = [];
    for (let at = 0; at < events.length; at += 100) {
      const batch = { events: events.slice(at, at + 100) };
      const { results } = must(await api.post("/api/v1/events/batch", batch, { key }), 200);
      for (const { eventId } of results as { eventId: string }[]) eventIds.push(eventId);
    }
    const waiting = () => numberOf(sql`select count(*) as n from event_q`);
    await eventually(async () => (await waiting()) === 0, { timeoutMs: 60_000 });

    const body = { filter: { eventIds }, reason: "test" };
    const done: number[] = [];
    let holder = await hold();
    let id = "";
    try {
      ({ id } = must(await api.post("/api/v1/events/revert", body, { key }), 201) as { id: string });
      for (let kills = 0; kills < KILLS; kills++) {
        const pids = await someWaiting("WORKER");
        const before = await reverted();
        assert.ok(kills === 0 ? before === 0 : before > done.at(-1)!, `${before} after ${kills} kills`);
        done.push(before);
        await worker.kill();
        // A connection that waits for a lock does not notice that its client is gone.
        for (const pid of pids) await sql`select pg_terminate_backend(${pid})`.execute(db());
        // The lease of the step, whose process has died.
        await sql`update project_jobs set due_at = now() where id = ${id}`.execute(db());
        await someWaiting("WORKER");
        assert.equal(await reverted(), before, "nothing of a step that has died");
        // The next holder waits behind the step, which is saved between the two.
        const next = hold();
        await someWaiting("HOLDER");
        await holder.rollback().execute();
        holder = await next;
      }
    } finally {
      await holder.rollback().execute();
    }
    const statusOf = async () => must(await api.get(`/api/v1/jobs/${id}`, { key }), 200).status;
    await eventually(async () => (await statusOf()) === "SUCCEEDED", { timeoutMs: 120_000 });
    assert.equal(await reverted(), eventIds.length);
    assert.equal(await numberOf(sql`select sum(xp) as n from players`), 0);
    const told = await numberOf(sql`select count(*) as n from outbox where type = 'event.reverted'`);
    assert.equal(told, eventIds.length);
    await assertInvariants(database.em);
  });
});
