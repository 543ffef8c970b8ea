import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aKey, aTenant, startApp, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

const DAY_MS = 86_400_000;
/** The hour of the day at which everybody plays. */
const HOUR_MS = 10 * 3_600_000;

/** For each day, how often each of two players plays. */
const season = fc.array(fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 3 })), { minLength: 2, maxLength: 4 });

const counting = { metric: { eventTypes: ["played"], aggregate: "count" } };
const DAILY_GIFT = {
  key: "gift",
  name: "gift",
  triggers: [{ kind: "EVENT", eventTypes: ["played"] }],
  limits: { perPlayer: [{ max: 2, window: "DAY" }] },
  actions: [{ type: "adjust_currency", currencyKey: "coins", amount: 5 }],
};

/** A sandbox with a gift of coins, at most twice a day, and a daily streak. */
const aGame = async (api: TestApp) => {
  const tenant = await aTenant(api);
  const key = await aKey(api, { ...tenant, environment: "test" });
  const post = async (path: string, body: object, status = 201) =>
    must(await api.post(`/api/v1${path}`, body, { key }), status);
  const get = async (path: string) => must(await api.get(`/api/v1${path}`, { key }), 200);
  const users = [randomUUID(), randomUUID()];
  for (const externalUserId of users) await post("/players", { externalUserId });
  await post("/currencies", { key: "coins", name: "Coins" });
  await post("/rules", DAILY_GIFT);
  await post("/rules/gift/publish", {}, 200);
  await post("/streaks", { key: "days", name: "Days", qualify: { parts: [counting] }, period: "DAY" });
  const path = `/projects/${tenant.projectId}/sandbox/clock`;
  return {
    post,
    get,
    users,
    read: () => get(path),
    ask: (body: object) => api.put(`/api/v1${path}`, body, { key }),
    clock: async (body: object) => {
      const answer = must(await api.put(`/api/v1${path}`, body, { key }), 200);
      assert.equal(answer.lastAdvance.status, "SUCCEEDED");
      return answer.lastAdvance.happened.counts as Record<string, number>;
    },
    play: (user: string, more: object = {}) =>
      post("/events?wait=true", { externalUserId: user, eventType: "played", ...more }, 200),
    /** What depends on the times of events alone. */
    resultOf: async (user: string) => {
      const { currencies } = await get(`/players/ext:${user}`);
      const { longest } = (await get(`/players/ext:${user}/streaks`)).data[0];
      return { coins: currencies.coins as number, longest: longest as number };
    },
  };
};

type Game = Awaited<ReturnType<typeof aGame>>;

/** A daily quest of two plays for 10 XP, and a daily board with 100 XP for all who score. */
const withDueThings = async ({ post }: Game): Promise<void> => {
  await post("/quests", {
    key: "twice",
    name: "Twice",
    steps: [{ key: "s", name: "Plays", kind: "EVENT", target: 2, ...counting }],
    repeat: { mode: "DAILY" },
    rewards: { xp: 10 },
  });
  await post("/quests/twice/publish", {}, 200);
  await post("/leaderboards", {
    key: "day",
    name: "Day",
    metric: { source: "CUSTOM" },
    operator: "SUM",
    period: { kind: "DAILY" },
    prizes: [{ from: 1, to: 10, rewards: { xp: 100 } }],
  });
};

const longestRun = (days: readonly number[]): number => {
  let [longest, run] = [0, 0];
  for (const plays of days) {
    run = plays > 0 ? run + 1 : 0;
    longest = Math.max(longest, run);
  }
  return longest;
};

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

describe("a season in a sandbox", () => {
  const api = madeOnce(startApp);

  it("is as its events say when sent with their times, and as plain loops say of what falls due", () =>
    fc.assert(
      fc.asyncProperty(season, async (days) => {
        const [lived, told] = [await aGame(api), await aGame(api)];
        await withDueThings(lived);
        const first = (Math.floor(Date.now() / DAY_MS) + 1) * DAY_MS + HOUR_MS;
        const to = (day: number) => ({ to: new Date(first + day * DAY_MS).toISOString() });
        const counts: Record<string, number>[] = [];
        for (const [day, plays] of days.entries()) {
          counts.push(await lived.clock(to(day)));
          for (const [who, times] of plays.entries())
            for (let i = 0; i < times; i++) {
              await lived.play(lived.users[who]!);
              const score = { playerId: `ext:${lived.users[who]}`, score: 1 };
              await lived.post("/leaderboards/day/scores", score, 200);
            }
        }
        counts.push(await lived.clock(to(days.length)));

        await told.clock(to(days.length));
        for (const [day, plays] of days.entries())
          for (const [who, times] of plays.entries())
            for (let i = 0; i < times; i++) {
              const timestamp = new Date(first + day * DAY_MS + i * 1_000).toISOString();
              await told.play(told.users[who]!, { timestamp });
            }

        for (const who of [0, 1]) {
          const own = days.map((plays) => plays[who]!);
          const result = await lived.resultOf(lived.users[who]!);
          assert.deepEqual(result, await told.resultOf(told.users[who]!));
          const coins = 5 * sum(own.map((plays) => Math.min(plays, 2)));
          assert.deepEqual(result, { coins, longest: longestRun(own) });
          const xp = sum(own.map((plays) => (plays > 1 ? 10 : 0) + (plays > 0 ? 100 : 0)));
          assert.equal((await lived.get(`/players/ext:${lived.users[who]}`)).xp, xp);
        }
        const done = (name: string): number => sum(counts.slice(1).map((of) => of[name]!));
        const begun = days.flat().filter((plays) => plays === 1).length;
        assert.deepEqual([done("questsExpired"), done("periodsClosed")], [begun, days.length]);
      }),
      { numRuns: 3 },
    ));

  it("stays where it is when its advance is cancelled, and is not set back meanwhile", async () => {
    const { post, read, ask } = await aGame(api);
    const triggers = [{ kind: "SCHEDULE", cron: "0 * * * *" }];
    const actions = [{ type: "grant_xp", amount: 1 }];
    await post("/rules", { key: "hourly", name: "hourly", triggers, actions });
    await post("/rules/hourly/publish", {}, 200);
    const asked = ask({ advance: "P700D" });
    const moving = await eventually(async (): Promise<Json | false> => {
      const found = await read();
      return found.aheadSeconds > 0 && found;
    });
    assertError(await ask({ reset: true }), 409, "INVALID_STATE");
    const { jobId } = moving["lastAdvance"] as { jobId: string };
    await post(`/jobs/${jobId}/cancel`, {}, 200);
    const answer = must(await asked, 200);
    assert.equal(answer.lastAdvance.status, "CANCELLED");
    assert.ok(answer.aheadSeconds > 0 && answer.aheadSeconds < 700 * 86_400);
    assert.equal((await read()).aheadSeconds, answer.aheadSeconds);
    assert.equal(must(await ask({ reset: true }), 200).aheadSeconds, 0);
  });
});
