import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const PATH = "/api/v1/leaderboards";
const AT_ONCE = 20;

describe("scores that are submitted", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  let key: string;

  beforeEach(async () => {
    key = tenant.key;
    for (const externalUserId of ["ann", "bob"]) await post("/players", { externalUserId });
  });

  const post = (path: string, body: unknown) => api.post(`/api/v1${path}`, body, { key });
  const addBoard = async (more: object) =>
    must(
      await post("/leaderboards", {
        key: "b",
        name: "B",
        metric: { source: "CUSTOM" },
        operator: "BEST",
        ...more,
      }),
      201,
    );
  const submit = (score: number, more: object = {}, playerId = "ext:ann") =>
    post("/leaderboards/b/scores", { playerId, score, ...more });
  const standings = async (query = "") =>
    (await api.get(`${PATH}/b/entries${query}`, { key })).body.data.map(
      (entry: { externalUserId: string; score: number }) => [entry.externalUserId, entry.score],
    );
  const balance = async () =>
    (await api.get("/api/v1/players/ext:ann/balances", { key })).body.data[0].balance;

  it("are refused out of bounds, naming the bound, and change nothing", async () => {
    const bounds = { min: 0, max: 100, maxDelta: 50, minIntervalSeconds: 10, maxPerMinute: 2 };
    await addBoard({ operator: "LATEST", bounds });
    const at = (second: number) => ({
      occurredAt: new Date(1_750_000_020_000 + second * 1_000).toISOString(),
    });
    const refused = async (score: number, second: number, bound: string) => {
      const answer = await submit(score, at(second));
      assertError(answer, 409, "SCORE_OUT_OF_BOUNDS");
      assert.match(answer.body.error.message, new RegExp(`^${bound}:`));
    };
    await refused(-1, 0, "min");
    await refused(101, 0, "max");
    assert.equal((await submit(10, at(0))).body.accepted, true);
    await refused(20, 9, "minIntervalSeconds");
    await refused(61, 30, "maxDelta");
    assert.equal((await submit(60, at(20))).body.accepted, true);
    await refused(61, 39, "maxPerMinute");
    assert.equal((await submit(61, at(60))).body.accepted, true);
    assert.deepEqual(await standings(), [["ann", 61]]);
  });

  it("wait for a review where the board holds them, which accepts them as of their time, once", async () => {
    await addBoard({ bounds: { max: 10, onViolation: "HOLD" }, period: { kind: "DAILY" } });
    const first = (await submit(50, { meta: { run: 7 } })).body;
    assert.deepEqual([first.accepted, first.held, first.score], [false, true, null]);
    const second = (await submit(60)).body;
    assert.deepEqual(await standings(), []);
    const { data } = (await api.get("/api/v1/score-reviews?status=OPEN&leaderboardId=b", { key })).body;
    assert.deepEqual(
      pluck(data, "id", "score", "violation"),
      [first, second].map(({ reviewId }, i) => [
        reviewId,
        50 + 10 * i,
        `max: the score ${50 + 10 * i} is above 10`,
      ]),
    );
    const reviewsOf = (player: string) => api.get(`/api/v1/score-reviews?playerId=${player}`, { key });
    assert.equal((await reviewsOf("ext:ann")).body.data.length, 2);
    assertError(await reviewsOf("ext:nobody"), 404);
    must(await api.post("/api/v1/players", { externalUserId: "zoe" }, { key }), 201);
    assert.deepEqual((await reviewsOf("ext:zoe")).body.data, []);
    const decide = (id: string, decision: string, as = key) =>
      api.post(`/api/v1/score-reviews/${id}`, { decision }, { key: as });
    assertError(await decide(first.reviewId, "ACCEPT", (await aTenant(api)).key), 404);
    assertError(await decide(first.reviewId, "MAYBE"), 400);
    const decided = await Promise.all([1, 2, 3].map(() => decide(first.reviewId, "ACCEPT")));
    assert.deepEqual(decided.map(({ status }) => status).toSorted(), [200, 409, 409]);
    assert.equal((await decide(second.reviewId, "REJECT")).body.status, "REJECTED");
    await eventuallyHolds(async () => assert.deepEqual(await standings(), [["ann", 50]]));
    const late = (await submit(70)).body;
    await close();
    assertError(await decide(late.reviewId, "ACCEPT"), 409, "LEADERBOARD_CLOSED");
    const left = (await api.get("/api/v1/score-reviews?status=OPEN", { key })).body.data;
    assert.deepEqual(pluck(left, "id"), [late.reviewId]);
  });

  const close = () =>
    api.sql`update leaderboard_periods set status = 'CLOSED' where project_id = ${tenant.projectId}`;

  it("count in the window of their time, and not at all once it is closed", async () => {
    await addBoard({ operator: "SUM", period: { kind: "MONTHLY", timezone: "Asia/Tokyo" } });
    const occurredAt = "2026-01-31T15:30:00Z";
    assert.equal((await submit(5, { occurredAt })).body.score, 5);
    assert.equal((await submit(7)).body.score, 7);
    assert.deepEqual(await standings(), [["ann", 7]]);
    assert.deepEqual(await standings("?period=2026-02"), [["ann", 5]]);
    await close();
    assertError(await submit(5, { occurredAt }), 409, "LEADERBOARD_CLOSED");
    assertError(await submit(5), 409, "LEADERBOARD_CLOSED");
    const tomorrow = new Date(Date.now() + 90_000_000).toISOString();
    assertError(await submit(5, { occurredAt: tomorrow }), 400);
  });

  const setAutoCreate = async (autoCreatePlayers: boolean) =>
    must(await api.patch("/api/v1/project-settings", { autoCreatePlayers }, { key }), 200);
  const playerNamed = (name: string) => api.get(`/api/v1/players/ext:${name}`, { key });

  it("create players by name as events do, unless the project creates none", async () => {
    await addBoard({ bounds: { max: 10 } });
    const both = await Promise.all([submit(5, {}, "ext:new"), submit(7, {}, "ext:new")]);
    assert.deepEqual(pluck(both, "status"), [200, 200]);
    assertError(await submit(11, {}, "ext:high"), 409, "SCORE_OUT_OF_BOUNDS");
    const batch = async (...ids: string[]) =>
      (
        await post("/leaderboards/b/scores/batch", {
          scores: ids.map((playerId) => ({ playerId, score: 3 })),
        })
      ).body.results.map((one: { error: { code: string } | null }) => one.error?.code ?? "");
    const unknown = [`ext:${"x".repeat(256)}`, "bare", crypto.randomUUID()];
    for (const playerId of unknown) assertError(await submit(1, {}, playerId), 404);
    const refused = unknown.map(() => "NOT_FOUND");
    assert.deepEqual(await batch("ext:two", "ext:two", "ext:ann", ...unknown), ["", "", "", ...refused]);
    await setAutoCreate(false);
    assertError(await submit(1, {}, "ext:none"), 404);
    assert.deepEqual(await batch("ext:none"), ["NOT_FOUND"]);
    for (const name of ["none", "high"]) assertError(await playerNamed(name), 404);
    const { data } = (await api.get("/api/v1/players/ext:new/activity", { key })).body;
    const told = data.filter(({ type }: { type: string }) => type === "player.created");
    assert.equal(told.length, 1);
    await eventuallyHolds(async () =>
      assert.deepEqual((await standings()).toSorted(), [
        ["ann", 3],
        ["new", 7],
        ["two", 3],
      ]),
    );
  });

  it("come in batches, one result each, and a bad one leaves the others as they are", async () => {
    await addBoard({ operator: "SUM", bounds: { max: 10 } });
    await setAutoCreate(false);
    const score = { playerId: "ext:ann", score: 1 };
    const scores = [
      score,
      { ...score, score: 11 },
      { ...score, playerId: "ext:nobody" },
      { ...score, score: "x" },
      { ...score, meta: { ["__proto__x".slice(0, 9)]: 1 } },
      { ...score, meta: { text: "x".repeat(1_100) } },
      { ...score, playerId: "ext:bob", score: 4 },
      { ...score, score: 2 },
    ];
    const { results } = must(await post("/leaderboards/b/scores/batch", { scores }), 200);
    assert.deepEqual(
      results.map((one: { score: number; error: { code: string; reason: string } | null }) =>
        one.error ? (one.error.reason ?? one.error.code) : one.score,
      ),
      [1, "SCORE_OUT_OF_BOUNDS", "NOT_FOUND", ...Array(3).fill("VALIDATION_ERROR"), 4, 3],
    );
    await eventuallyHolds(async () =>
      assert.deepEqual(await standings(), [
        ["bob", 4],
        ["ann", 3],
      ]),
    );
    const many = Array.from({ length: 501 }, () => score);
    assertError(await post("/leaderboards/b/scores/batch", { scores: many }), 400);
  });

  it("keep to their number and are paid for once, however many come at once", async () => {
    await post("/currencies", { key: "coins", name: "Coins" });
    await post("/players/ext:ann/balances/coins/grant", { amount: 15, reason: "test" });
    const entryCost = { currencyKey: "coins", amount: 10 };
    await addBoard({ operator: "SUM", maxSubmissionsPerPeriod: 5, entryCost });
    const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => submit(1)));
    assert.equal(answers.filter(({ status }) => status === 200).length, 5);
    for (const answer of answers.filter(({ status }) => status !== 200))
      assertError(answer, 409, "LIMIT_REACHED");
    assert.equal(await balance(), 5);
    await eventuallyHolds(async () => assert.deepEqual(await standings(), [["ann", 5]]));
    assertError(await submit(1, {}, "ext:bob"), 409, "INSUFFICIENT_FUNDS");
    assert.deepEqual(await standings(), [["ann", 5]]);
  });

  it("are for the audience and good enough to enter, and never from who is banned", async () => {
    await post("/segments", { key: "vip", name: "VIP", kind: "STATIC" });
    await addBoard({ audience: { segmentKeys: ["vip"], match: "NONE" }, minScoreToEnter: 10 });
    await post("/segments/vip/members", { playerIds: ["ext:bob"] });
    assertError(await submit(50, {}, "ext:bob"), 409, "NOT_ELIGIBLE");
    assert.deepEqual((await submit(9)).body.score, null);
    assert.equal((await submit(10)).body.rank, 1);
    const remove = (ban?: boolean) =>
      api.request("DELETE", `${PATH}/b/players/ext:ann`, { key, body: ban === undefined ? {} : { ban } });
    assert.deepEqual((await remove()).body, { deleted: true });
    await eventuallyHolds(async () => assert.deepEqual(await standings(), []));
    assert.equal((await submit(12)).body.rank, 1, "whoever was removed may come back");
    assert.deepEqual((await remove(true)).body, { deleted: true });
    assertError(await submit(99), 409, "NOT_ELIGIBLE");
    assert.deepEqual((await remove(false)).body, { deleted: false });
    assert.equal((await submit(11)).body.rank, 1);
    await eventuallyHolds(async () => assert.deepEqual(await standings(), [["ann", 11]]));
  });

  it("have their meta as long as they stand", async () => {
    await addBoard({});
    const metaOf = async () => (await api.get(`${PATH}/b/players/ext:ann`, { key })).body.meta ?? null;
    await submit(5, { meta: { level: 1 } });
    await eventuallyHolds(async () => assert.deepEqual(await metaOf(), { level: 1 }));
    await submit(4, { meta: { level: 2 } });
    assert.deepEqual(await metaOf(), { level: 1 });
    await submit(6);
    assert.equal(await metaOf(), null);
    assertError(await submit(7, { meta: { text: "x".repeat(1_100) } }), 400);
    assertError(await submit(7, { meta: { text: "\u0000" } }), 400);
  });
});
