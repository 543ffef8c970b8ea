import assert from "node:assert/strict";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const rule = (more: Record<string, unknown> = {}) => ({
  key: "daily",
  name: "Daily lesson",
  triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }],
  conditions: {
    all: [
      { type: "event_property", path: "score", op: "gte", value: 60 },
      { type: "player_property", field: "level", op: "gte", value: 2 },
    ],
  },
  actions: [{ type: "grant_xp", amount: 50 }],
  ...more,
});
const event = { eventType: "lesson.completed", properties: { score: 80 }, timestamp: "2026-01-10T18:00:00Z" };

describe("simulation of rules", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const simulate = (body: Record<string, unknown>): Promise<Answer> =>
    api.post("/api/v1/rules/simulate", { event, player: { snapshot: {} }, ...body }, { key: tenant.key });
  const publish = async (more: Record<string, unknown> = {}): Promise<void> => {
    const { body } = await api.post("/api/v1/rules", rule(more), { key: tenant.key });
    assert.equal((await api.post(`/api/v1/rules/${body.id}/publish`, {}, { key: tenant.key })).status, 200);
  };

  it("shows every condition with what it saw, the effects and the resulting state", async () => {
    const missed = await simulate({ inline: [rule()] });
    assert.equal(missed.status, 200);
    const [trace] = missed.body.rules;
    assert.deepEqual([trace.fired, trace.reason, trace.effects], [false, "CONDITIONS_NOT_MET", []]);
    assert.deepEqual(trace.conditions.children, [
      { path: "conditions.all[0]", type: "event_property", op: "gte", expected: 60, actual: 80, pass: true },
      { path: "conditions.all[1]", type: "player_property", op: "gte", expected: 2, actual: 1, pass: false },
    ]);
    const met = await simulate({ inline: [rule()], player: { snapshot: { xp: 220 } } });
    assert.deepEqual(pluck(met.body.rules[0].effects, "type"), ["player.xp_granted", "player.level_up"]);
    assert.deepEqual(met.body.resultingState, {
      changed: ["xp", "level"],
      before: { xp: 220, level: 2 },
      after: { xp: 270, level: 3 },
    });
  });

  it("writes nothing", async () => {
    const always = rule({ conditions: { all: [] } });
    const result = await simulate({ inline: [always], player: { externalUserId: "ghost" } });
    assert.equal(result.body.resultingState.after.xp, 50);
    assert.equal(result.body.playerExists, false);
    assert.equal((await api.get("/api/v1/players/ext:ghost", { key: tenant.key })).status, 404);
    assert.equal((await api.get("/api/v1/rules", { key: tenant.key })).body.pagination.total, 0);
  });

  it("reads the player's own state and limits, which can be ignored", async () => {
    await publish({ conditions: { all: [] }, limits: { perPlayer: [{ max: 1, window: "DAY" }] } });
    const tracked = { externalUserId: "u1", ...event };
    await api.post("/api/v1/events?wait=true", tracked, { key: tenant.key });
    const player = { externalUserId: "u1" };
    const { playerExists, rules } = (await simulate({ player })).body;
    assert.equal(playerExists, true);
    const [limited] = rules;
    assert.deepEqual([limited.reason, limited.nextEligibleAt], ["LIMIT_REACHED", "2026-01-11T00:00:00.000Z"]);
    const [free] = (await simulate({ player, overrides: { limits: "IGNORE" } })).body.rules;
    assert.equal(free.reason, "MATCHED");
    assert.equal((await api.get("/api/v1/players/ext:u1", { key: tenant.key })).body.xp, 50);
  });

  it("puts drafts and inline rules in the place of what is published", async () => {
    await publish({ conditions: { all: [] } });
    const draft = { draftVersion: 1, actions: [{ type: "grant_xp", amount: 7 }] };
    await api.patch("/api/v1/rules/daily", draft, { key: tenant.key });
    const xp = async (body: Record<string, unknown>): Promise<number> =>
      (await simulate(body)).body.resultingState.after.xp as number;
    assert.equal(await xp({}), 50);
    assert.equal(await xp({ include: { drafts: ["daily"] } }), 7);
    assert.equal(
      await xp({ inline: [rule({ conditions: { all: [] }, actions: [{ type: "grant_xp", amount: 9 }] })] }),
      9,
    );
    assert.equal(await xp({ include: { published: false } }), undefined);
    assert.equal((await simulate({ include: { drafts: ["nope"] } })).status, 404);
  });

  it("shows leaderboard scores before and after", async () => {
    const made = await api.post(
      "/api/v1/leaderboards",
      { key: "xp", name: "XP", metric: { source: "XP" } },
      { key: tenant.key },
    );
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const result = await simulate({ inline: [rule({ conditions: { all: [] } })] });
    assert.deepEqual(result.body.leaderboards, [{ key: "xp", before: null, after: 50 }]);
  });

  it("refuses reserved event types, bad players and bad inline rules with the field", async () => {
    const field = async (body: Record<string, unknown>): Promise<[number, string]> => {
      const { status, body: answer } = await simulate(body);
      return [status, answer.error.details[0].field];
    };
    assert.deepEqual(await field({ event: { eventType: "player.erased" } }), [400, "event.eventType"]);
    assert.deepEqual(await field({ player: {} }), [400, "player"]);
    assert.deepEqual(await field({ inline: [rule({ rollout: { percent: 101 } })] }), [
      400,
      "inline.0.rollout.percent",
    ]);
  });

  it("takes no other times than events have", async () => {
    const at = (timestamp: string) => simulate({ event: { ...event, timestamp }, inline: [rule()] });
    const fieldOf = async (answer: Promise<Answer>): Promise<unknown> => {
      const { status, body } = await answer;
      return [status, body.error.details[0].field];
    };
    const ahead = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
    assert.deepEqual(await fieldOf(at("0050-01-01T00:00:00Z")), [400, "timestamp"]);
    assert.deepEqual(await fieldOf(at(ahead(25))), [400, "timestamp"]);
    assert.equal((await at(ahead(23))).status, 200);
    const settings = { maxEventAgeDays: 5 };
    await api.patch("/api/v1/project-settings", settings, { key: tenant.key });
    assert.deepEqual(await fieldOf(at(ahead(-6 * 24))), [400, "timestamp"]);
    assert.equal((await at(ahead(-4 * 24))).status, 200);
  });

  const define = async (plural: string, document: Record<string, unknown>): Promise<void> => {
    const made = await api.post(`/api/v1/${plural}`, { name: "One", ...document }, { key: tenant.key });
    assert.equal(made.status, 201, JSON.stringify(made.body));
  };

  it("follows what an event brings about through rules, levels and badges, each in its place", async () => {
    await define("currencies", { key: "coins" });
    await define("badges", { key: "risen", tiers: [{ tier: 1, rewards: { currencies: { coins: 7 } } }] });
    const inline = [
      rule({ conditions: { all: [] }, actions: [{ type: "grant_xp", amount: 150 }] }),
      rule({
        key: "level",
        triggers: [{ kind: "EVENT", eventTypes: ["player.level_up"] }],
        conditions: { all: [] },
        actions: [{ type: "update_badge", badgeKey: "risen", operation: "AWARD" }],
      }),
      rule({
        key: "badge",
        triggers: [{ kind: "EVENT", eventTypes: ["player.badge_earned"] }],
        conditions: { all: [{ type: "event_property", path: "badgeKey", op: "eq", value: "risen" }] },
        actions: [{ type: "update_player", addTags: ["risen"] }],
      }),
    ];
    const { status, body } = await simulate({ inline });
    assert.equal(status, 200, JSON.stringify(body));
    const [up] = body.derived;
    const [earned] = up.derived;
    assert.deepEqual([up.eventType, earned.eventType], ["player.level_up", "player.badge_earned"]);
    assert.deepEqual(
      [body, up, earned].map(({ rules: [{ ruleKey, fired }] }) => [ruleKey, fired]),
      [
        ["daily", true],
        ["level", true],
        ["badge", true],
      ],
    );
    const { changed, after } = body.resultingState;
    assert.deepEqual(changed.toSorted(), ["badges", "currencies", "level", "tags", "xp"]);
    assert.deepEqual([after.currencies, after.tags, after.badges.risen.tier], [{ coins: 7 }, ["risen"], 1]);
  });

  it("takes a player with balances, counters, streaks, badges and segments from the snapshot", async () => {
    await define("currencies", { key: "coins" });
    await define("badges", { key: "gold" });
    await define("segments", { key: "vip" });
    const lessons = { eventTypes: ["lesson.completed"], aggregate: "count" };
    await define("streaks", { key: "study", qualify: { parts: [{ metric: lessons }] } });
    const weekly = { ...lessons, window: { type: "CALENDAR", unit: "WEEK" } };
    const average = { eventTypes: ["lesson.completed"], aggregate: "avg", property: "score" };
    const conditions = {
      all: [
        { type: "player_property", field: "currencies.coins", op: "eq", value: 5 },
        { type: "progress_state", entity: "badge", key: "gold", states: ["HELD"] },
        { type: "segment", segmentKeys: ["vip"] },
        { type: "streak", streakKey: "study", op: "eq", value: 8 },
        { type: "event_aggregate", metric: lessons, op: "eq", value: 42 },
        { type: "event_aggregate", metric: weekly, op: "eq", value: 10 },
        { type: "event_aggregate", metric: average, op: "eq", value: 70 },
      ],
    };
    const snapshot = {
      currencies: { coins: 5 },
      badges: { gold: {} },
      segments: ["vip"],
      streaks: { study: { current: 7 } },
      counters: [
        { metric: lessons, value: 41 },
        { metric: weekly, value: 9 },
        { metric: average, value: 60 },
      ],
    };
    const { body } = await simulate({ player: { snapshot }, inline: [rule({ conditions })] });
    const seen = body.rules[0].conditions.children.map(({ type, actual, pass }: Answer["body"]) => [
      type,
      actual,
      pass,
    ]);
    assert.equal(body.rules[0].reason, "MATCHED", JSON.stringify(seen));
    assert.deepEqual(body.resultingState.after.streaks.study, { current: 8, longest: 8, freezes: 0 });
    const fresh = await simulate({ player: { snapshot: {} }, inline: [rule({ conditions })] });
    assert.equal(fresh.body.rules[0].reason, "CONDITIONS_NOT_MET");
  });

  it("reads limits over all players as they stand, and takes nothing from them", async () => {
    await publish({ conditions: { all: [] }, limits: { global: [{ max: 1, window: "LIFETIME" }] } });
    const reason = async (): Promise<string> => (await simulate({})).body.rules[0].reason;
    assert.deepEqual([await reason(), await reason()], ["MATCHED", "MATCHED"]);
    await api.post("/api/v1/events?wait=true", { externalUserId: "u1", ...event }, { key: tenant.key });
    assert.equal(await reason(), "LIMIT_REACHED");
  });

  it("runs a rule's trigger by time, and shows a rule in SHADOW as what it would do", async () => {
    const scheduled = rule({
      key: "nightly",
      triggers: [{ kind: "SCHEDULE", cron: "0 3 * * *" }],
      conditions: { all: [] },
    });
    const ring = (more: object) =>
      simulate({ inline: [scheduled], event: { eventType: "system.schedule", ...more } });
    assert.equal((await ring({ ruleKey: "nightly" })).body.resultingState.after.xp, 50);
    for (const more of [{}, { ruleKey: "nobody" }]) {
      const { status, body } = await ring(more);
      assert.deepEqual([status, body.error.details[0].field], [400, "event.ruleKey"]);
    }
    await publish({ conditions: { all: [] } });
    assert.equal((await api.post("/api/v1/rules/daily/shadow", {}, { key: tenant.key })).status, 200);
    const { rules, resultingState } = (await simulate({})).body;
    assert.deepEqual(
      [rules[0].shadow, rules[0].fired, rules[0].effects[0].type, resultingState.changed],
      [true, true, "player.xp_granted", []],
    );
  });

  it("answers a player who does not exist 404 where events may not make players", async () => {
    const settings = { autoCreatePlayers: false };
    await api.patch("/api/v1/project-settings", settings, { key: tenant.key });
    assert.equal((await simulate({ player: { externalUserId: "ghost" } })).status, 404);
    const other = await aTenant(api);
    const theirs = { externalUserId: "u1", ...event };
    await api.post("/api/v1/events?wait=true", theirs, { key: other.key });
    assert.equal((await simulate({ player: { externalUserId: "u1" } })).status, 404);
  });
});
