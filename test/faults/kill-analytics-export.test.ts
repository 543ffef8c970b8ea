import assert from "node:assert/strict";
import { gunzipSync } from "node:zlib";
import { sql } from "kysely";
import { aTenant } from "../support/app/app.ts";
import { download, exported } from "../support/data/exports.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { endBackends } from "../support/processes/held-ledger.ts";
import { ownWeb } from "../support/processes/own-services.ts";

/** More than two steps take. */
const EVENTS = 45_000;
const KILLS = 2;
const PATH = "/api/v1/analytics/exports";

describe("kill -9 of a worker in the midst of an export", () => {
  const own = ownWeb({ poolMax: 4 });

  /** Events with ids of the past, many at one time, not in the order of their times. */
  const store = async (projectId: string, from: number, count: number): Promise<void> => {
    await sql`
      insert into players (project_id, id, external_user_id, created_at, updated_at)
      select ${projectId}::uuid, gen_random_uuid(), 'user-' || n, now(), now() from generate_series(0, 9) as n
      on conflict do nothing`.execute(own.db());
    await sql`
      insert into tracked_events
        (project_id, id, external_user_id, event_type, properties, occurred_at, received_at)
      select ${projectId}::uuid, ('019d08e8-c400-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
        'user-' || n % 10, 'quiz', jsonb_build_object('n', n),
        timestamptz '2026-03-01 12:00+00' + make_interval(mins => (n * 7919) % 9000), now()
      from generate_series(${from}::int, ${from + count - 1}::int) as n`.execute(own.db());
  };
  const pieces = async (id: string): Promise<number> => {
    const { rows } = await sql<{ n: string }>`
      select count(*) as n from analytics_export_pieces where export_id = ${id}::uuid`.execute(own.db());
    return Number(rows[0]!.n);
  };
  const waitingPids = (): Promise<number[]> =>
    eventually(
      async () => {
        const { rows } = await sql<{ pid: number }>`
          select pid from pg_locks where relation = 'analytics_export_pieces'::regclass and not granted
            and mode = 'RowExclusiveLock'`.execute(own.db());
        return rows.length > 0 && rows.map(({ pid }) => pid);
      },
      { timeoutMs: 60_000, label: "a step waits to store its rows" },
    );
  /** Lets nobody store anything. */
  const hold = async () => {
    const holder = await own.db().startTransaction().execute();
    await sql`lock table analytics_export_pieces in exclusive mode`.execute(holder);
    return holder;
  };

  it("leaves a file with each row once, and none that came meanwhile", async () => {
    const { api } = own;
    const tenant = await aTenant(api);
    const { key, tenantId, projectId } = tenant;
    await sql`
      update tenants set plan_overrides = plan_overrides || '{"analyticsHistoryDays": null}'
      where id = ${tenantId}::uuid`.execute(own.db());
    await store(projectId, 0, EVENTS);
    await sql`analyze tracked_events`.execute(own.db());
    const query = { report: "events", format: "ndjson", from: "2026-02-01", to: "2026-04-30" };
    const before = await exported(api, tenant, query);
    assert.equal(before.split("\n").length, EVENTS + 1);

    let holder = await hold();
    let id = "";
    try {
      ({ id } = must(await api.post(PATH, query, { key }), 201) as { id: string });
      await store(projectId, EVENTS, 500);
      const worker = own.startWorker();
      for (let kills = 0; kills < KILLS; kills++) {
        const pids = await waitingPids();
        const stored = await pieces(id);
        await worker.kill();
        await endBackends(own.db(), pids);
        // The lease of the step, whose process has died.
        await sql`update project_jobs set due_at = now() where id = ${id}::uuid`.execute(own.db());
        await waitingPids();
        assert.equal(await pieces(id), stored, "nothing of a step that has died");
        // The next holder waits behind the step, which is stored between the two.
        const next = hold();
        await eventually(async () => {
          const { rows } = await sql`
            select from pg_locks where relation = 'analytics_export_pieces'::regclass and not granted
              and mode = 'ExclusiveLock'`.execute(own.db());
          return rows.length > 0;
        });
        await holder.rollback().execute();
        holder = await next;
      }
    } finally {
      await holder.rollback().execute();
    }
    const read = async () => must(await api.get(`${PATH}/${id}`, { key }), 200);
    await eventually(async () => (await read()).status === "SUCCEEDED", { timeoutMs: 120_000 });
    const { rows, bytes } = await read();
    const file = await download(api, tenant, id);
    assert.deepEqual([rows, bytes], [EVENTS, file.bytes.length]);
    assert.equal(gunzipSync(file.bytes).toString(), before);
  });
});
