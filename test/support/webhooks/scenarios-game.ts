import assert from "node:assert/strict";
import { sql } from "kysely";
import { endBoosts, expireCurrencies, settleQuests, settleStreaks } from "../../../src/jobs/jobs.ts";
import { must } from "../http/client.ts";
import { ruleOn, type Scenario, type Stage } from "./scenarios-events.ts";
import { DAY_MS } from "../streaks/streaks.ts";
import { lateZone, momentAgo } from "../streaks/real-days.ts";
import { pastMidnight } from "../eventually.ts";

const profile: Scenario = {
  tells: ["player.created", "player.updated", "player.segment_entered", "player.segment_left"],
  play: async ({ api, game }) => {
    const { id } = await game.make("/players", {
      externalUserId: "ada",
      displayName: "Ada",
      attributes: { course: "latin" },
      tags: ["beta"],
    });
    must(
      await game.patch("/players/ext:ada", { displayName: "Ada L.", attributes: { course: "greek" } }),
      200,
    );
    await game.make("/segments", { key: "vips", name: "VIPs", kind: "STATIC" });
    must(await game.post("/segments/vips/members", { playerIds: [id] }), 200);
    const { key } = game.tenant;
    must(await api.delete("/api/v1/segments/vips/members", { key, body: { playerIds: [id] } }), 200);
  },
};

/** What a rule gives when a lesson is finished, and what is then paid. */
const lesson: Scenario = {
  tells: [
    "player.xp_granted",
    "player.level_up",
    "player.currency_granted",
    "player.currency_spent",
    "custom.*",
  ],
  play: async (stage) => {
    const { game } = stage;
    await game.make("/currencies", { key: "coins", name: "Coins" });
    await game.make("/currencies", { key: "tickets", name: "Tickets", expiryDays: 30 });
    await ruleOn(stage, "lesson_finished", {
      actions: [
        { type: "grant_xp", amount: 150 },
        { type: "adjust_currency", currencyKey: "coins", amount: 20 },
        {
          type: "emit_event",
          eventType: "lesson.praised",
          properties: { lesson: { $ref: "event.properties.lesson" } },
          channels: ["webhook"],
        },
      ],
    });
    await game.track("ada", "lesson_finished", { lesson: "ablative" });
    const order = { amount: 15, reason: "A hat", reference: "order-7" };
    await game.make("/players/ext:ada/balances/coins/spend", order);
  },
};

const purse: Scenario = {
  tells: ["player.currency_expired", "player.lives_changed", "player.reward_granted"],
  play: async ({ api, game, change }) => {
    const { projectId, token } = game.tenant;
    const ticket = { amount: 3, reason: "Welcome" };
    await game.make("/players/ext:ada/balances/tickets/grant", ticket);
    await change(sql`update currency_lots set expires_at = now() - interval '1 second'
      where project_id = ${projectId} and currency_key = 'tickets'`);
    await expireCurrencies.run(api.app, "*");

    const lives = { enabled: true, max: 5, refillSeconds: 1_800 };
    must(await api.patch(`/api/v1/projects/${projectId}`, { settings: { lives } }, { token }), 200);
    must(await game.post("/players/ext:ada/lives/consume", { amount: 1, reason: "level" }), 200);

    await game.make("/rewards", { key: "gift-card", name: "Gift card", kind: "PRIZE", fulfilment: "CODE" });
    must(await game.post("/rewards/gift-card/codes", { codes: ["GIFT-7421"] }), 200);
    await game.make("/rewards/gift-card/grant", { playerId: "ext:ada" });
    await game.make("/rewards", { key: "chest", name: "Chest", kind: "BUNDLE", bundle: { xp: 5 } });
    await game.make("/rewards/chest/grant", { playerId: "ext:ada" });
  },
};

const boosts: Scenario = {
  tells: ["player.boost_started", "player.boost_ended"],
  play: async ({ api, game, change }) => {
    const rush = { boostKey: "rush", applies: "xp", factor: 2, durationSeconds: 600 };
    const { id } = await game.make("/players/ext:ada/boosts", { ...rush, uses: 5 });
    await change(sql`update player_boosts set expires_at = now() - interval '1 second' where id = ${id}`);
    await endBoosts.run(api.app, "*");
  },
};

const badges: Scenario = {
  tells: ["player.badge_earned", "player.badge_revoked"],
  play: async ({ game }) => {
    await game.make("/badges", { key: "helper", name: "Helper" });
    await game.make("/players/ext:ada/badges/helper", {});
    must(await game.remove("/players/ext:ada/badges/helper"), 200);
  },
};

const identity: Scenario = {
  tells: ["player.merged", "player.erased"],
  play: async ({ api, game, heard }) => {
    const [target, source] = [await game.player("cleo"), await game.player("cleo-tablet")];
    await game.make(`/players/${source}/xp`, { amount: 40 });
    await game.make(`/players/${source}/balances/coins/grant`, { amount: 7, reason: "Found" });
    must(await game.post(`/players/${target}/merge`, { sourcePlayerId: source }), 200);
    const erased = await game.player("ben");
    await game.make(`/players/${erased}/erase`, { reason: "asked for" });
    await heard("player.erased");
    const shown = must(await api.get(`/api/v1/players/${erased}`, { key: game.tenant.key }), 200);
    assert.equal(shown.status, "ERASED");
  },
};

/** Scenarios about single players, in their order: the later ones need the earlier. */
export const PLAYER_SCENARIOS: readonly Scenario[] = [profile, lesson, purse, boosts, badges, identity];

const CUSTOM = { metric: { source: "CUSTOM" }, operator: "BEST" };

/** Gus leads until Ida passes him. */
const places: Scenario = {
  tells: [
    "leaderboard.period_started",
    "leaderboard.new_leader",
    "leaderboard.rank_changed",
    "leaderboard.period_closed",
  ],
  play: async ({ game, heard }) => {
    const prizes = [{ from: 1, to: 1, rewards: { xp: 25 } }];
    await game.make("/leaderboards", {
      key: "daily",
      name: "Daily",
      ...CUSTOM,
      period: { kind: "DAILY" },
      prizes,
      rankChange: { bands: [1], debounceSeconds: 0 },
    });
    await heard("leaderboard.period_started");
    for (const [externalUserId, displayName] of [
      ["gus", "Gus"],
      ["ida", "Ida"],
    ])
      await game.make("/players", { externalUserId, displayName });
    const score = async (user: string, points: number): Promise<void> =>
      void must(
        await game.post("/leaderboards/daily/scores", { playerId: `ext:${user}`, score: points }),
        200,
      );
    await score("gus", 70);
    await heard("leaderboard.new_leader");
    await score("ida", 50);
    await heard("leaderboard.rank_changed", 2);
    await score("ida", 90);
    await heard("leaderboard.new_leader", 2);
    must(await game.post("/leaderboards/daily/reset", { awardPrizes: true }), 200);
    await heard("leaderboard.period_closed");
  },
};

const held: Scenario = {
  tells: ["leaderboard.score_held"],
  play: async ({ game }) => {
    const bounds = { max: 100, onViolation: "HOLD" };
    await game.make("/leaderboards", { key: "guarded", name: "Guarded", ...CUSTOM, bounds });
    must(await game.post("/leaderboards/guarded/scores", { playerId: "ext:gus", score: 5_000 }), 200);
  },
};

/** Two teams, whose season ends. */
const teams: Scenario = {
  tells: ["leaderboard.values_ranked"],
  play: async ({ game, heard }) => {
    const metric = {
      source: "EVENT",
      event: { eventTypes: ["goal.scored"] },
      aggregate: "sum",
      property: "points",
    };
    await game.make("/leaderboards", { key: "teams", name: "Teams", metric, breakdownProperty: "team" });
    for (const [user, points, team] of [
      ["gus", 3, "red"],
      ["ida", 2, "red"],
      ["gus", 4, "blue"],
    ] as const)
      await game.track(user, "goal.scored", { points, team });
    must(await game.post("/leaderboards/teams/reset"), 200);
    await heard("leaderboard.values_ranked");
  },
};

/** Scenarios about leaderboards. */
export const BOARD_SCENARIOS: readonly Scenario[] = [places, held, teams];

const publish = async ({ game }: Stage, key: string, more: object = {}): Promise<void> => {
  const step = (name: string, target: number) => ({
    key: name,
    name,
    kind: "EVENT",
    metric: { eventTypes: [`${key}.${name}`], aggregate: "count" },
    target,
    rewards: { xp: 5 },
  });
  await game.make("/quests", { key, name: key, steps: [step("read", 2), step("quiz", 1)], ...more });
  must(await game.post(`/quests/${key}/publish`), 200);
};

/** A quest from its start to its rewards. */
const done: Scenario = {
  tells: ["quest.started", "quest.progress", "quest.step_completed", "quest.completed", "quest.claimed"],
  play: async (stage) => {
    const { game } = stage;
    const id = await game.player("gita");
    await publish(stage, "story", {
      claim: "MANUAL",
      claimWindowSeconds: 86_400,
      timeLimitSeconds: 86_400,
      rewards: { xp: 50 },
    });
    for (const eventType of ["story.read", "story.read", "story.quiz"])
      must(await game.post("/events?wait=true", { externalUserId: "gita", eventType }), 200);
    must(await game.post(`/players/${id}/quests/story/claim`), 200);
  },
};

const over: Scenario = {
  tells: ["quest.expired", "quest.failed"],
  play: async (stage) => {
    const { api, game, change } = stage;
    await publish(stage, "race", { timeLimitSeconds: 3_600 });
    const [late, lost] = [await game.player("hugo"), await game.player("ines")];
    for (const id of [late, lost]) must(await game.post(`/players/${id}/quests/race/start`), 200);
    await change(sql`update player_quests set due_at = now() - interval '1 s',
      expires_at = now() - interval '1 s' where player_id = ${late}`);
    await settleQuests.run(api.app, "*");
    must(await game.post(`/players/${lost}/quests/race/fail`, { reason: "Found cheating" }), 200);
  },
};

const submitted: Scenario = {
  tells: ["quest.approval_requested", "quest.submission_approved", "quest.submission_rejected"],
  play: async ({ game }) => {
    const id = await game.player("nora");
    const step = { key: "photo", name: "photo", kind: "MANUAL", evidence: "URL", requiresApproval: true };
    await game.make("/quests", { key: "tree", name: "tree", steps: [step] });
    must(await game.post("/quests/tree/publish"), 200);
    const evidence = "https://example.com/tree.jpg";
    for (const review of [
      { decision: "REJECT", note: "Too dark" },
      { decision: "APPROVE", note: "Well done" },
    ]) {
      must(await game.post(`/players/${id}/quests/tree/steps/photo/submit`, { evidence }), 200);
      must(await game.post(`/players/${id}/quests/tree/steps/photo/review`, review), 200);
    }
  },
};

/** Scenarios about quests. */
export const QUEST_SCENARIOS: readonly Scenario[] = [done, over, submitted];

const quest = (key: string) => ({
  key,
  name: key,
  steps: [
    {
      key: "do",
      name: "Do",
      kind: "EVENT",
      metric: { eventTypes: [`${key}.done`], aggregate: "count" },
      target: 1,
    },
  ],
});

/** A season from the first quest to the rewards of its tiers and of the whole. */
const season: Scenario = {
  tells: [
    "adventure.started",
    "adventure.quest_unlocked",
    "adventure.tier_reached",
    "adventure.completed",
    "adventure.claimed",
  ],
  play: async ({ game }) => {
    await game.player("jana");
    for (const key of ["market", "harbour"]) {
      await game.make("/quests", quest(key));
      must(await game.post(`/quests/${key}/publish`), 200);
    }
    await game.make("/adventures", {
      key: "voyage",
      name: "A voyage",
      season: "2026",
      startsAt: "2026-01-01T00:00:00Z",
      endsAt: "2126-01-01T00:00:00Z",
      items: [
        { questKey: "market", order: 1, points: 10 },
        { questKey: "harbour", order: 2, points: 10, unlock: { mode: "AFTER_PREVIOUS" } },
      ],
      tiers: [{ tier: 1, points: 10, free: { xp: 5 } }],
      rewards: { xp: 50 },
    });
    must(await game.post("/adventures/voyage/publish"), 200);
    for (const eventType of ["market.done", "harbour.done"])
      must(await game.post("/events?wait=true", { externalUserId: "jana", eventType }), 200);
  },
};

/** Scenarios about adventures. */
export const ADVENTURE_SCENARIOS: readonly Scenario[] = [season];

const define = async ({ game }: Stage, key: string, more: object = {}): Promise<void> => {
  const qualify = { parts: [{ metric: { eventTypes: [key], aggregate: "count" } }] };
  await game.make("/streaks", { key, name: key, qualify, ...more });
};

/** The player does what counts, so many days ago at noon; today in the first moment of the day. */
const didAgo = async ({ game }: Stage, externalUserId: string, eventType: string, days: number) => {
  const event = { externalUserId, eventType, timestamp: momentAgo(days) };
  const { body } = await game.post("/events?wait=true", event);
  assert.equal(body.status, "PROCESSED");
};

/** A gap that a freeze covers, and a milestone. */
const kept: Scenario = {
  tells: ["player.streak_extended", "player.streak_frozen"],
  play: async (stage) => {
    await pastMidnight();
    await stage.game.player("dora");
    await define(stage, "practised", {
      freeze: { initial: 2, max: 3 },
      milestones: [{ length: 2, rewards: { xp: 10 } }],
    });
    for (const days of [3, 1, 0]) await didAgo(stage, "dora", "practised", days);
  },
};

const broken: Scenario = {
  tells: ["player.streak_broken", "player.streak_repaired"],
  play: async (stage) => {
    const { api, game, change } = stage;
    await pastMidnight();
    const id = await game.player("emil");
    await define(stage, "walked", { repairWindowHours: 72 });
    for (const days of [4, 3]) await didAgo(stage, "emil", "walked", days);
    // The time in which more history might come is over.
    await change(sql`update player_streaks set due_at = now() - interval '1 s', doc = doc || '{"dueMs": 1}'
      where player_id = ${id}`);
    await settleStreaks.run(api.app, "*");
    must(await game.post(`/players/${id}/streaks/walked/repair`), 200);
  },
};

const atRisk: Scenario = {
  tells: ["player.streak_at_risk"],
  play: async (stage) => {
    const { api, game } = stage;
    await define(stage, "read");
    await game.make("/players", { externalUserId: "finn", timezone: lateZone() });
    const timestamp = new Date(Date.now() - DAY_MS).toISOString();
    await game.post("/events?wait=true", { externalUserId: "finn", eventType: "read", timestamp });
    await settleStreaks.run(api.app, "*");
  },
};

/** Scenarios about streaks. */
export const STREAK_SCENARIOS: readonly Scenario[] = [kept, broken, atRisk];
