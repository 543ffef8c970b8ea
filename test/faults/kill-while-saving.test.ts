import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { rulesOf } from "../support/rules/rules-api.ts";
import { ownWeb } from "../support/processes/own-services.ts";

/** One more than an event has tries. */
const KILLS = 5;

describe("kill -9 of a worker whose only event waits to be saved", () => {
  const own = ownWeb({ poolMax: 3 });

  /** Connections that wait for the lock, of workers alive or dead. */
  const waitingPids = async (): Promise<number[]> => {
    const query = sql<{ pid: number }>`
      select pid from pg_locks where relation = 'ledger_entries'::regclass and not granted`;
    const { rows } = await query.execute(own.db());
    return rows.map(({ pid }) => pid);
  };
  const attempts = async (): Promise<number[]> => {
    const query = sql<{ attempts: number }>`
      select attempts from event_q union all select attempts from event_due`;
    return (await query.execute(own.db())).rows.map((row) => row.attempts);
  };

  it("counts no try, however often it happens", async () => {
    const { api } = own;
    const tenant = await aTenant(api);
    await rulesOf(api, tenant).publish({
      triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }],
    });
    const holder = await own.db().startTransaction().execute();
    await sql`lock table ledger_entries in exclusive mode`.execute(holder);
    const event = { externalUserId: "player", eventType: "lesson.completed" };
    const { eventId } = must(await api.post("/api/v1/events", event, { key: tenant.key }), 200);
    try {
      const worker = own.startWorker();
      for (let kills = 0; kills < KILLS; kills++) {
        const pids = await eventually(
          async () => {
            await sql`update event_due set due_at = now() - interval '1 minute'`.execute(own.db());
            const found = await waitingPids();
            return found.length > 0 && found;
          },
          { timeoutMs: 60_000, label: `the event waits to be saved after ${kills} kills` },
        );
        assert.deepEqual(await attempts(), [0], `after ${kills} kills`);
        await worker.kill();
        // A connection that waits for a lock does not notice that its client is gone.
        for (const pid of pids) await sql`select pg_terminate_backend(${pid})`.execute(own.db());
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
