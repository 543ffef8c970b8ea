import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { IDEMPOTENCY_HOURS } from "../../src/domain/kernel/idempotency.ts";
import { aKey, type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { boardDefinition, unique } from "../support/operations/bodies.ts";
import { madeOnce } from "../support/made.ts";

describe("a POST with X-Idempotency-Key", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const post = (path: string, body: unknown, key: string, credentials: object = { key: tenant.key }) =>
    api.post(`/api/v1${path}`, body, { ...credentials, headers: { "X-Idempotency-Key": key } });
  const grant = (player: string, body: object, key: string) => post(`/players/${player}/xp`, body, key);
  const aPlayer = async (): Promise<string> =>
    (await api.post("/api/v1/players", { externalUserId: unique("user") }, { key: tenant.key })).body.id;
  const xpOf = async (player: string): Promise<number> =>
    (await api.get(`/api/v1/players/${player}`, { key: tenant.key })).body.xp;
  const isReplay = ({ headers }: Answer) => headers.get("x-idempotent-replayed") === "true";

  it("has one effect and one answer, however often it is sent", async () => {
    const [player, key] = [await aPlayer(), randomUUID()];
    const first = await grant(player, { amount: 7 }, key);
    const again = await grant(player, { amount: 7 }, key);
    assert.equal(first.status, 201);
    assert.deepEqual([again.status, again.body], [201, first.body]);
    assert.deepEqual([isReplay(first), isReplay(again)], [false, true]);
    assert.equal(await xpOf(player), 7);
  });

  it("is the same request with its fields in another order or another prefix, and no other", async () => {
    const [player, key] = [await aPlayer(), randomUUID()];
    const body = { amount: 5, reason: "won", reference: "r1" };
    const first = await grant(player, body, key);
    const swapped = await grant(player, { reference: "r1", reason: "won", amount: 5 }, key);
    assert.deepEqual(swapped.body, first.body);
    const bare = await api.post(`/players/${player}/xp`, body, {
      key: tenant.key,
      headers: { "X-Idempotency-Key": key },
    });
    assert.deepEqual(bare.body, first.body);
    assertError(await grant(player, { ...body, amount: 6 }, key), 422, "IDEMPOTENCY_KEY_REUSED");
    assertError(await grant(await aPlayer(), body, key), 422, "IDEMPOTENCY_KEY_REUSED");
    assertError(await post("/players", { externalUserId: "x" }, key), 422, "IDEMPOTENCY_KEY_REUSED");
    assert.equal(await xpOf(player), 5);
  });

  it("is told apart by project, by user and by sandbox, and not by the API key", async () => {
    const [other, key] = [await aTenant(api), randomUUID()];
    const body = { externalUserId: "same" };
    const mine = await post("/players", body, key);
    const theirs = await post("/players", body, key, { key: other.key });
    assert.notEqual(theirs.body.id, mine.body.id);
    const test = await aKey(api, { ...tenant, environment: "test" });
    assert.notEqual((await post("/players", body, key, { key: test })).body.id, mine.body.id);
    const second = await aKey(api, tenant);
    const rotated = await post("/players", body, key, { key: second });
    assert.deepEqual([isReplay(rotated), rotated.body], [true, mine.body]);
    const user = await post("/players", { externalUserId: "theirs" }, key, { token: tenant.token });
    assert.equal(user.status, 201);
    assert.equal(isReplay(user), false);
  });

  it("gives again what was refused for good, and tries again what may succeed later", async () => {
    const key = randomUUID();
    const missing = await grant(randomUUID(), { amount: 1 }, key);
    const again = await grant(randomUUID(), { amount: 1 }, key);
    assertError(missing, 404);
    assertError(again, 422, "IDEMPOTENCY_KEY_REUSED");
    const board = { ...boardDefinition(), key: unique("board") };
    await post("/leaderboards", board, randomUUID());
    const taken = randomUUID();
    const conflict = await post("/leaderboards", board, taken);
    const replayed = await post("/leaderboards", board, taken);
    assertError(conflict, 409, "KEY_TAKEN");
    assert.deepEqual([replayed.body, isReplay(replayed)], [conflict.body, true]);
    const invalid = randomUUID();
    assertError(await post("/players", { externalUserId: "" }, invalid), 400);
    assert.equal((await post("/players", { externalUserId: unique("user") }, invalid)).status, 201);
  });

  it("does not freeze a fault: what was undone may be tried again with the same key", async () => {
    const key = randomUUID();
    const read = await aKey(api, { ...tenant, scopes: ["players:read"] });
    const body = { externalUserId: unique("user") };
    assertError(await post("/players", body, key, { key: read }), 403, "INSUFFICIENT_SCOPE");
    assert.equal((await post("/players", body, key)).status, 201);
  });

  it("stores secrets sealed, and still gives them again", async () => {
    const [key, path] = [randomUUID(), `/projects/${tenant.projectId}/api-keys`];
    const token = { token: tenant.token };
    const first = await post(path, { name: "Once" }, key, token);
    const again = await post(path, { name: "Once" }, key, token);
    assert.equal(again.body.key, first.body.key);
    const rows = await api.sql<{ row: string }>`
      select to_jsonb(k)::text as row from idempotency_keys k where key = ${key}`;
    assert.equal(rows.length, 1);
    assert.ok(!rows[0]!.row.includes(first.body.key.slice(20)), "the secret is readable");
    assert.ok(!rows[0]!.row.includes("Once"));
  });

  it("refuses what is no key", async () => {
    for (const key of ["a b", "x".repeat(256), "ü"]) {
      const headers = { "X-Idempotency-Key": Buffer.from(key).toString("latin1") };
      const answer = await api.post("/api/v1/players", { externalUserId: "u" }, { key: tenant.key, headers });
      assertError(answer, 400, "IDEMPOTENCY_KEY_INVALID");
    }
    assert.equal((await post("/players", { externalUserId: "u" }, "x".repeat(255))).status, 201);
  });

  it("ends after 24 hours", async () => {
    const [player, key] = [await aPlayer(), randomUUID()];
    await grant(player, { amount: 2 }, key);
    const hours = (count: number) =>
      api.sql`update idempotency_keys set created_at = now() - make_interval(hours => ${count}::int)
        + interval '1 minute' where key = ${key}`;
    await hours(IDEMPOTENCY_HOURS);
    await grant(player, { amount: 2 }, key);
    assert.equal(await xpOf(player), 2);
    await hours(IDEMPOTENCY_HOURS + 1);
    assert.equal(isReplay(await grant(player, { amount: 2 }, key)), false);
    assert.equal(await xpOf(player), 4);
    assert.equal(isReplay(await grant(player, { amount: 2 }, key)), true);
  });

  it("stores events and the answer together, also a batch and one that waits for its outcome", async () => {
    const one = { externalUserId: unique("user"), eventType: "seen" };
    const key = randomUUID();
    const first = await post("/events?wait=true", one, key);
    const again = await post("/events?wait=true", one, key);
    assert.equal(first.body.status, "PROCESSED");
    assert.deepEqual(again.body, first.body);
    const batch = { events: [one, { ...one, eventType: "" }, one] };
    const sent = await post("/events/batch", batch, randomUUID());
    assert.deepEqual([sent.body.accepted, sent.body.rejected], [2, 1]);
    const user = { token: tenant.token };
    const byUser = await post("/events", { ...one, projectId: tenant.projectId }, key, user);
    assert.equal(byUser.body.status, "PENDING");
    const events = await api.get(`/api/v1/events?externalUserId=${one.externalUserId}`, { key: tenant.key });
    assert.equal(events.body.data.length, 4);
  });

  it("tells the rank of a score as without a key", async () => {
    const board = (await post("/leaderboards", boardDefinition(), randomUUID())).body.id;
    const [player, key] = [await aPlayer(), randomUUID()];
    const body = { playerId: player, score: 5 };
    const first = await post(`/leaderboards/${board}/scores`, body, key);
    assert.deepEqual([first.status, first.body.rank], [200, 1]);
    assert.deepEqual((await post(`/leaderboards/${board}/scores`, body, key)).body, first.body);
  });

  it("is finished by a repetition when nobody else does, with one answer for all", async () => {
    const board = (await post("/leaderboards", boardDefinition(), randomUUID())).body.id;
    const [player, key] = [await aPlayer(), randomUUID()];
    const body = { playerId: player, score: 5 };
    const { rankMoves } = api.app;
    const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow: typeof rankMoves = async (move) => {
      reached.resolve();
      await released.promise;
      return rankMoves(move);
    };
    Object.assign(api.app, { rankMoves: slow });
    const first = post(`/leaderboards/${board}/scores`, body, key);
    await reached.promise;
    Object.assign(api.app, { rankMoves });
    const again = await post(`/leaderboards/${board}/scores`, body, key);
    assert.deepEqual([again.status, again.body.rank, isReplay(again)], [200, 1, true]);
    await post(`/leaderboards/${board}/scores`, { playerId: await aPlayer(), score: 9 }, randomUUID());
    released.resolve();
    assert.deepEqual((await first).body, again.body);
    assert.deepEqual((await post(`/leaderboards/${board}/scores`, body, key)).body, again.body);
  });
});
