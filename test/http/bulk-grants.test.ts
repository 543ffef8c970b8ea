import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aGame } from "../support/app/game.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { jobResult } from "../support/app/processed.ts";

describe("bulk grants", () => {
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));

  const start = (body: object, key?: string) =>
    game.post("/grants/bulk", { bundle: { xp: 5 }, reason: "thanks", ...body }, key);
  const resultOf = (id: string): Promise<Record<string, number>> => jobResult(api, game.tenant, id);
  /** Players made at once, by SQL: their ids. */
  const crowd = async (count: number): Promise<string[]> => {
    const rows = await api.sql<{ id: string }>`
      insert into players (project_id, id, external_user_id, created_at, updated_at)
      select ${game.tenant.projectId}, gen_random_uuid(), 'u' || n, now(), now()
      from generate_series(1, ${count}) as n returning id`;
    return rows.map(({ id }) => id);
  };
  const sums = async (): Promise<{ n: number; xp: number; keys: number }> => {
    const rows = await api.sql<{ n: number; xp: number; keys: number }>`
      select count(*)::int as n, sum(amount)::int as xp,
        count(distinct (player_id, idempotency_key))::int as keys
      from ledger_entries where project_id = ${game.tenant.projectId}`;
    return rows[0]!;
  };

  it("give everybody on a list once, over several pages, and count who was skipped", async () => {
    const ids = await crowd(450);
    await game.setStatus(ids[7]!, "BANNED");
    const playerIds = [...ids, ids[0]!, randomUUID()];
    const job = must(await start({ playerIds }), 201);
    assert.deepEqual([job.kind, job.status], ["BULK_GRANT", "QUEUED"]);
    assert.deepEqual(await resultOf(job.id), { granted: 449, skipped: 2, failed: 0 });
    const { n, xp, keys } = await sums();
    assert.deepEqual([n, xp, keys], [449, 449 * 5, 449]);
    const [type, data] = (await game.told(ids[0]!))[0]!;
    assert.equal(type, "player.xp_granted");
    const cause = data["cause"] as Record<string, string>;
    assert.deepEqual([cause["kind"], cause["refId"], cause["note"]], ["API", job.id, "thanks"]);
    assert.match(cause["actor"]!, /^key:/);
  });

  it("give the members of a segment", async () => {
    await game.make("/segments", { key: "vips", name: "VIPs", kind: "STATIC" });
    const ids = await crowd(3);
    const body = { playerIds: ids.slice(0, 2) };
    must(await game.post("/segments/vips/members", body), 200);
    const job = must(await start({ segmentKey: "vips" }), 201);
    assert.deepEqual(await resultOf(job.id), { granted: 2, skipped: 0, failed: 0 });
    assert.equal((await sums()).n, 2);
  });

  it("stop at what is limited over all players, and give the rest", async () => {
    await game.make("/badges", { key: "gold", name: "Gold", maxAwards: 2 });
    const ids = await crowd(5);
    const bundle = { xp: 5, badges: [{ badgeKey: "gold" }] };
    const job = must(await start({ playerIds: ids, bundle }), 201);
    assert.equal((await resultOf(job.id))["granted"], 5);
    const { data } = must(await game.get("/badges/gold/holders"), 200);
    assert.deepEqual(data.map((one: { serialNo: number }) => one.serialNo).toSorted(), [1, 2]);
    assert.equal((await sums()).xp, 25);
  });

  it("keep one player who cannot be given it from nobody else", async () => {
    const ids = await crowd(4);
    const job = must(await start({ playerIds: ids.slice(0, 2) }), 201);
    await resultOf(job.id);
    // As if the state of a job had been lost after its page: its keys are taken.
    await api.sql`update project_jobs set status = 'QUEUED', state = '{}', params = jsonb_set(params, '{playerIds}',
      ${JSON.stringify(ids)}::jsonb), due_at = now() where id = ${job.id}`;
    await eventually(async () => (await sums()).n === 4);
    assert.deepEqual(await resultOf(job.id), { granted: 2, skipped: 0, failed: 2 });
    assert.deepEqual(await sums(), { n: 4, xp: 20, keys: 4 });
  });

  it("are refused with nothing to give or what is not there", async () => {
    const [id] = await crowd(1);
    for (const [field, body] of [
      ["segmentKey", { segmentKey: "gone" }],
      ["bundle", { playerIds: [id], bundle: {} }],
      ["bundle.currencies.gone", { playerIds: [id], bundle: { currencies: { gone: 1 } } }],
    ] as const) {
      const answer = await start(body);
      assert.equal(answer.status, 400, field);
      assert.equal(answer.body.error.details[0].field, field);
    }
    assert.deepEqual((await game.get("/jobs")).body.data, []);
  });
});
