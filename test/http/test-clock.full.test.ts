import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { pastMidnight } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const DAY_MS = 86_400_000;
/** Of a quest: doing it twice. */
const metric = { eventTypes: ["did"], aggregate: "count" };
const steps = [{ key: "s", name: "s", kind: "EVENT", target: 2, metric }];
const iso = (ms: number): string => new Date(ms).toISOString();

describe("the clock of a sandbox", () => {
  let key: string;

  const path = (id = tenant.projectId): string => `/api/v1/projects/${id}/sandbox/clock`;
  const put = (body: unknown, as: object = { key }) => api.put(path(), body, as);
  const clock = async () => must(await api.get(path(), { key }), 200);
  const advance = async (body: object) => {
    const answer = must(await put(body), 200);
    assert.equal(answer.lastAdvance.status, "SUCCEEDED", JSON.stringify(answer));
    return answer;
  };
  const get = async (where: string, as = key) => must(await api.get(`/api/v1${where}`, { key: as }), 200);
  const post = async (where: string, body: object, status = 200, as = key) =>
    must(await api.post(`/api/v1${where}`, body, { key: as }), status);
  const define = async (where: string, body: object, as = key): Promise<void> => {
    await post(where, { name: "name", ...body }, 201, as);
  };
  const publish = async (where: string, body: Json & { key: string }, as = key): Promise<void> => {
    await define(where, body, as);
    await post(`${where}/${body.key}/publish`, {}, 200, as);
  };
  const player = async (as = key): Promise<string> => {
    const externalUserId = randomUUID();
    await post("/players", { externalUserId }, 201, as);
    return externalUserId;
  };
  const track = (user: string, eventType: string, more: object = {}, as = key) =>
    post("/events?wait=true", { externalUserId: user, eventType, ...more }, 200, as);

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    key = await aKey(api, { ...tenant, environment: "test" });
  });

  it("is the server's until it is advanced, and again after a reset", async () => {
    const before = await clock();
    assert.deepEqual([before.aheadSeconds, before.lastAdvance], [0, null]);
    const after = await advance({ advance: "P1D" });
    assert.equal(after.aheadSeconds, 86_400);
    assert.equal(Date.parse(after.now) - Date.parse(after.serverNow), DAY_MS);
    const to = iso(Date.parse(after.now) + 5 * DAY_MS);
    const there = await advance({ to });
    assert.ok(Math.abs(Date.parse(there.now) - Date.parse(to)) < 20_000);
    assert.equal(must(await put({ reset: true }), 200).aheadSeconds, 0);
    assert.equal((await clock()).aheadSeconds, 0);
  });

  it("dates events, and everything that they give", async () => {
    const user = await player();
    await publish("/rules", {
      key: "r",
      triggers: [{ kind: "EVENT", eventTypes: ["hit"] }],
      actions: [{ type: "grant_xp", amount: 5 }],
    });
    await advance({ advance: "P10D" });
    const { eventId } = await track(user, "hit");
    const event = await get(`/events/${eventId}`);
    assert.ok(Date.parse(event.timestamp) > Date.now() + 9 * DAY_MS, event.timestamp);
    const { data } = await get(`/players/ext:${user}/ledger`);
    assert.ok(Date.parse(data[0].createdAt) > Date.now() + 9 * DAY_MS, data[0].createdAt);
  });

  it("closes periods of boards with their prizes, in their order and once each", async () => {
    await pastMidnight();
    const [ann, bob] = [await player(), await player()];
    await define("/leaderboards", {
      key: "daily",
      metric: { source: "CUSTOM" },
      operator: "BEST",
      period: { kind: "DAILY" },
      prizes: [{ from: 1, to: 1, rewards: { xp: 25 } }],
    });
    const score = (user: string, points: number) =>
      post("/leaderboards/daily/scores", { playerId: `ext:${user}`, score: points });
    await score(ann, 5);
    await score(bob, 9);
    const days = await advance({ advance: "P1D" });
    assert.deepEqual(pluck(days.lastAdvance.happened.first, "what", "count"), [
      ["periodsOpened", 1],
      ["periodsClosed", 1],
    ]);
    assert.equal((await get(`/players/ext:${bob}`)).xp, 25);
    await score(ann, 3);
    const three = await advance({ advance: "P3D" });
    assert.deepEqual(
      [three.lastAdvance.happened.counts.periodsClosed, three.lastAdvance.happened.counts.periodsOpened],
      [3, 3],
    );
    assert.equal((await get(`/players/ext:${ann}`)).xp, 25);
    const periods = (await get("/leaderboards/daily/periods")).data;
    assert.deepEqual(pluck(periods, "status"), ["OPEN", "CLOSED", "CLOSED", "CLOSED", "CLOSED"]);
    const closedAt = Date.parse(periods.at(-1).closedAt);
    assert.ok(closedAt - Date.parse(periods.at(-1).endsAt) < 600_000, "closed when it ended");
  });

  it("breaks streaks, and expires currency, boosts, holds and rewards", async () => {
    const user = await player();
    await define("/streaks", {
      key: "visit",
      qualify: { parts: [{ metric: { eventTypes: ["visit"], aggregate: "count" } }] },
      period: "DAY",
    });
    await define("/currencies", { key: "gems", expiryDays: 2 });
    await track(user, "visit");
    await post(`/players/ext:${user}/balances/gems/grant`, { amount: 10 }, 201);
    const streak = async () => (await get(`/players/ext:${user}/streaks`)).data[0];
    const gems = async () => (await get(`/players/ext:${user}`)).currencies.gems;
    assert.deepEqual([(await streak()).current, await gems()], [1, 10]);
    await advance({ advance: "P1D" });
    await track(user, "visit");
    assert.deepEqual([(await streak()).current, await gems()], [2, 10]);
    const { lastAdvance } = await advance({ advance: "P4D" });
    assert.deepEqual([(await streak()).current, await gems()], [0, 0]);
    assert.equal(lastAdvance.happened.counts.lotsExpired, 1);
  });

  it("releases holds, ends boosts, refills lives and lets delayed events come", async () => {
    const user = await player();
    await define("/currencies", { key: "gems", initialBalance: 10 });
    must(await api.patch("/api/v1/project-settings", { lives: { enabled: true } }, { key }), 200);
    await publish("/rules", {
      key: "later",
      triggers: [{ kind: "EVENT", eventTypes: ["sown"] }],
      actions: [
        { type: "emit_event", eventType: "ripe", channels: ["rules"], delaySeconds: 3 * 86_400 },
        { type: "apply_boost", boostKey: "b", applies: "xp", factor: 2, durationSeconds: 3_600 },
      ],
    });
    await publish("/rules", {
      key: "ripe",
      triggers: [{ kind: "EVENT", eventTypes: ["ripe"] }],
      actions: [{ type: "grant_xp", amount: 8 }],
    });
    await track(user, "sown");
    await post(`/players/ext:${user}/balances/gems/holds`, { amount: 4, expiresInSeconds: 3_600 }, 201);
    await post(`/players/ext:${user}/lives/consume`, { amount: 5 });
    const { lastAdvance } = await advance({ advance: "P2D" });
    const { counts } = lastAdvance.happened;
    assert.deepEqual([counts.holdsReleased, counts.boostsEnded, counts.eventsDelayed], [1, 1, 0]);
    const then = await get(`/players/ext:${user}`);
    assert.deepEqual([then.lives.current, then.xp], [5, 0]);
    const balances = (await get(`/players/ext:${user}/balances`)).data;
    assert.equal(balances[0].available, 10);
    const last = await advance({ advance: "P1DT1M" });
    assert.equal(last.lastAdvance.happened.counts.eventsDelayed, 1);
    assert.equal((await get(`/players/ext:${user}`)).xp, 8, "the boost is over");
  });

  it("is not that of the project beside it", async () => {
    const as = tenant.key;
    const user = await player(as);
    await publish("/quests", { key: "daily", steps, repeat: { mode: "DAILY" } }, as);
    await track(user, "did", {}, as);
    const before = await get(`/players/ext:${user}/quests/daily`, as);
    await advance({ advance: "P30D" });
    assert.deepEqual(await get(`/players/ext:${user}/quests/daily`, as), before);
    const { eventId } = await track(user, "did", {}, as);
    const { timestamp } = await get(`/events/${eventId}`, as);
    assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 20_000);
    const answer = must(await api.get(path(), { key: as }), 200);
    assert.equal(answer.aheadSeconds, 30 * 86_400, "a live key moves the clock of the sandbox alone");
  });

  it("goes forward alone, by at most two years, and by one wish at a time", async () => {
    for (const body of [
      {},
      { advance: "P1D", reset: true },
      { advance: "P1M" },
      { advance: "1 day" },
      { advance: "P4000D" },
      { to: iso(Date.now() - DAY_MS) },
      { to: iso(Date.now() + 800 * DAY_MS) },
      { to: "tomorrow" },
      { reset: false },
      { advance: "P1D", by: 1 },
    ])
      assertError(await put(body), 400);
    assert.equal((await clock()).aheadSeconds, 0);
    await advance({ advance: "P2D" });
    assertError(await put({ to: iso(Date.now() + DAY_MS) }), 400);
  });

  it("is there with the sandbox", async () => {
    const other = await aTenant(api);
    assertError(await api.get(path(other.projectId), { token: other.token }), 404);
    assertError(await api.get(path(other.projectId), { key }), 404);
    assertError(await api.put(path(tenant.projectId), { advance: "P1D" }, { token: other.token }), 404);
  });
});
