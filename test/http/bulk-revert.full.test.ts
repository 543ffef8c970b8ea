import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { emitted } from "../support/app/outbox.ts";
import { failed } from "../support/domain/domain.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { endedJob, jobResult } from "../support/app/processed.ts";

describe("taking many events back", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    must(await post("/currencies", { key: "coins", name: "Coins" }), 201);
    for (const [key, actions] of Object.entries({
      won: [
        { type: "grant_xp", amount: 10 },
        { type: "adjust_currency", currencyKey: "coins", amount: 5 },
      ],
      sold: [{ type: "grant_xp", amount: 1 }],
    })) {
      const triggers = [{ kind: "EVENT", eventTypes: [key] }];
      must(await post("/rules", { key, name: `Rule ${key}`, triggers, actions }), 201);
      must(await post(`/rules/${key}/publish`, {}), 200);
    }
  });

  const get = (path: string, key = tenant.key): Promise<Answer> => api.get(`/api/v1${path}`, { key });
  const post = (path: string, body: unknown, key = tenant.key): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key });
  type Sent = { externalUserId: string; eventType?: string; timestamp?: string };
  const send = async (...events: Sent[]): Promise<string[]> => {
    const body = { events: events.map((event) => ({ eventType: "won", properties: {}, ...event })) };
    const { results } = must(await post("/events/batch", body), 200);
    const ids = (results as { eventId: string }[]).map(({ eventId }) => eventId);
    for (const id of ids)
      await eventually(async () => (await get(`/events/${id}`)).body.status === "PROCESSED");
    return ids;
  };
  const ask = (filter: object, more: object = {}, key = tenant.key): Promise<Answer> =>
    post("/events/revert", { filter, reason: "a bad file", ...more }, key);
  const ended = async (filter: object, more: object = {}): Promise<Answer["body"]> => {
    const { id } = must(await ask(filter, more), 201);
    return endedJob(api, tenant, id);
  };
  const result = async (filter: object, more: object = {}): Promise<Answer["body"]> => {
    const job = await ended(filter, more);
    assert.deepEqual([job.kind, job.status, job.error], ["BULK_REVERT", "SUCCEEDED", null]);
    return (await get(`/jobs/${job.id}/result`)).body;
  };
  const xpOf = async (name: string): Promise<number> => (await get(`/players/ext:${name}`)).body.xp;
  const statusesOf = (ids: readonly string[]): Promise<string[]> =>
    Promise.all(ids.map(async (id) => (await get(`/events/${id}`)).body.status as string));
  const players = (...names: string[]): Sent[] => names.map((externalUserId) => ({ externalUserId }));

  it("reverts what the filter matches and nothing else, and tells of each event once", async () => {
    const other = await aTenant(api);
    const ids = await send(...players("ada", "ada", "bob"), { externalUserId: "ada", eventType: "sold" });
    const receivedFrom = new Date(Date.now() - 3_600_000).toISOString();
    const done = await result({ eventType: "won", receivedFrom });
    assert.deepEqual(
      [done.matched, done.reverted, done.players, done.skipped, done.reversed],
      [3, 3, 2, {}, { xp: 30, currencies: { coins: 15 }, badges: 0 }],
    );
    assert.deepEqual(await statusesOf(ids), ["REVERTED", "REVERTED", "REVERTED", "PROCESSED"]);
    assert.deepEqual([await xpOf("ada"), await xpOf("bob")], [1, 0]);
    const told = await emitted<{ eventId: string }>(api.app, tenant.projectId, "event.reverted");
    assert.deepEqual(told.map(({ eventId }) => eventId).toSorted(), ids.slice(0, 3).toSorted());
    assert.equal((await get("/players/ext:ada/ledger/verify")).body.valid, true);
    const again = await result({ eventType: "won", receivedFrom });
    assert.deepEqual([again.reverted, again.skipped], [0, { REVERTED: 3 }]);
    assert.equal((await get("/events", other.key)).body.data.length, 0);
  });

  it("filters by ids, player, type, own time and arrival, all of which must hold", async () => {
    const day = (n: number): string => new Date(Date.UTC(2026, 0, n)).toISOString();
    const ids = await send(
      ...[1, 2, 3].map((n) => ({ externalUserId: "ada", timestamp: day(n) })),
      { externalUserId: "bob", timestamp: day(2) },
      { externalUserId: "bob", timestamp: day(2), eventType: "sold" },
    );
    const matched = async (filter: object): Promise<string[]> =>
      (await result(filter, { dryRun: true })).firstEventIds;
    const at = (...places: number[]): string[] => places.map((i) => ids[i]!).toSorted();
    const same = async (filter: object, ...places: number[]): Promise<void> =>
      assert.deepEqual((await matched(filter)).toSorted(), at(...places), JSON.stringify(filter));
    await same({ from: day(2), to: day(3) }, 1, 3, 4);
    await same({ from: day(2), to: day(3), eventType: "won" }, 1, 3);
    await same({ playerId: "ext:bob" }, 3, 4);
    await same({ playerId: "ext:ada", from: day(2) }, 1, 2);
    await same({ eventIds: [ids[0]!.toUpperCase(), ids[4], ids[4], randomUUID()] }, 0, 4);
    await same({ eventIds: [ids[0], ids[4]], eventType: "sold" }, 4);
    const { body } = await get(`/events/${ids[0]}`);
    await same({ receivedFrom: "0000-01-01T00:00:00Z", receivedTo: body.receivedAt });
    await same({ receivedFrom: body.receivedAt }, 0, 1, 2, 3, 4);
    const [ada, bob] = await Promise.all(
      ["ada", "bob"].map(async (name) => (await get(`/players/ext:${name}`)).body.id as string),
    );
    must(await post(`/players/${ada}/merge`, { sourcePlayerId: bob }), 200);
    await same({ playerId: ada }, 0, 1, 2, 3, 4);
    const done = await result({ playerId: "ext:ada" });
    assert.deepEqual([done.reverted, done.players, await xpOf("ada")], [5, 2, 0]);
  });

  it("counts with dryRun what would happen, and changes nothing", async () => {
    const ids = await send(...players("ada", "ada", "bob", "cleo"));
    must(await post(`/events/${ids[0]}/revert`, { reason: "x" }), 200);
    await eventually(async () => (await statusesOf([ids[0]!]))[0] === "REVERTED");
    await failed(api.app, tenant.projectId, ids[3]!);
    const before = await emitted(api.app, tenant.projectId, "event.reverted");
    const seen = await result({ eventIds: ids }, { dryRun: true });
    assert.deepEqual(seen, {
      dryRun: true,
      matched: 4,
      players: 3,
      firstEventIds: [ids[1], ids[2]].toSorted(),
      waiting: 0,
      unknown: 0,
      revertible: 2,
      skipped: { REVERTED: 1, FAILED: 1 },
    });
    assert.deepEqual(await statusesOf(ids), ["REVERTED", "PROCESSED", "PROCESSED", "FAILED"]);
    assert.equal((await emitted(api.app, tenant.projectId, "event.reverted")).length, before.length);
    assert.equal(await xpOf("bob"), 10);
    const done = await result({ eventIds: ids });
    assert.deepEqual([done.reverted, done.skipped], [2, { REVERTED: 1, FAILED: 1 }]);
  });

  it("counts events of which only the ledger is still known", async () => {
    const ids = await send(...players("ada", "bob"));
    await api.sql`delete from outbox where project_id = ${tenant.projectId} and event_id = ${ids[0]}`;
    assert.equal((await result({ eventIds: ids }, { dryRun: true })).unknown, 1);
    const done = await result({ eventIds: ids });
    assert.deepEqual([done.reverted, done.unknown, done.left.length], [2, 1, 1]);
    assert.match(done.left[0], /no longer known/);
  });

  it("leaves with REJECT only the events whose amounts are missing, and names them", async () => {
    const ids = await send(...players("ada", "ada", "bob", "cleo"));
    must(await post("/players/ext:bob/balances/coins/spend", { amount: 4 }), 201);
    const done = await result({ eventIds: ids }, { onShortfall: "REJECT" });
    assert.deepEqual(
      [done.reverted, done.skipped, done.refused],
      [3, { SHORTFALL: 1 }, [{ eventId: ids[2], reason: "SHORTFALL" }]],
    );
    assert.deepEqual(await statusesOf(ids), ["REVERTED", "REVERTED", "PROCESSED", "REVERTED"]);
    assert.deepEqual([await xpOf("ada"), await xpOf("bob")], [0, 10]);
    const clamped = await result({ eventIds: ids });
    assert.deepEqual([clamped.reverted, clamped.shortfall], [1, { "currency:coins": 4 }]);
  });

  it("refuses players who are not there, and reaches no other tenant's events", async () => {
    assertError(await ask({ playerId: "ext:nobody" }), 404);
    const [id] = await send(...players("ada"));
    const other = await aTenant(api);
    const { id: job } = must(await ask({ eventIds: [id] }, {}, other.key), 201);
    assert.equal((await jobResult(api, other, job)).matched, 0);
    assert.deepEqual(await statusesOf([id!]), ["PROCESSED"]);
    assert.equal((await get(`/jobs/${job}`)).status, 404);
  });
});
