import { randomUUID } from "node:crypto";
import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import type { Board } from "../../src/domain/evaluation/boards/board.ts";
import type { PlayerState } from "../../src/domain/evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../../src/domain/evaluation/project-plan.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import { noEffects } from "../../src/domain/evaluation/effects.ts";
import { evaluateEvent } from "../../src/domain/evaluation/evaluate.ts";
import type { Turn } from "../../src/domain/evaluation/turn.ts";
import { compileRules } from "../../src/domain/evaluation/running/compile.ts";
import {
  type LoggedAward,
  lostAwards,
  newReversal,
  type PlayerRecord,
} from "../../src/domain/revert/record.ts";
import {
  countersWithout,
  derivedOf,
  dueNow,
  followersOf,
  leastProgress,
} from "../../src/domain/revert/counters-without.ts";
import { reversePlayer } from "../../src/domain/revert/reverse.ts";
import { controlsOf, firingKey } from "../../src/domain/revert/reverse-scores.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { aRule } from "../support/rules/evaluation.ts";
import { aBoard } from "../support/rules/turn.ts";
import { cases } from "../support/properties.ts";

const NOW = Date.parse("2026-06-15T12:00:00Z");

const board = (key: string, metric: Board["metric"], operator: Board["operator"]): Board =>
  aBoard({ id: key, key, periodId: key, operator, metric });

const won = { eventTypes: ["won"], aggregate: "count" };
const summed = { eventTypes: ["won"], aggregate: "sum", property: "score" };

const rules = [
  {
    triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
    limits: { perPlayer: [{ max: 5, window: "DAY" }], cooldownSeconds: 10 },
    actions: [
      { type: "grant_xp", amount: { $ref: "event.properties.score" } },
      { type: "adjust_currency", currencyKey: "coins", amount: 7 },
    ],
  },
  {
    triggers: [{ kind: "EVENT", eventTypes: ["won", "bought"] }],
    conditions: { all: [{ type: "event_aggregate", metric: summed, op: "gte", value: 20 }] },
    limits: { perPlayer: [{ max: 3, window: "LIFETIME" }], global: [{ max: 50, window: "LIFETIME" }] },
    actions: [
      { type: "adjust_currency", currencyKey: "coins", amount: -3, onInsufficient: "SKIP" },
      { type: "update_badge", badgeKey: "hero", operation: "AWARD" },
    ],
  },
  {
    triggers: [{ kind: "EVENT", eventTypes: ["player.badge_earned"] }],
    actions: [{ type: "grant_xp", amount: 11 }],
  },
].map((document) => aRule(document));

const plan: ProjectPlan = aPlan({
  settings: { allowLevelDown: true },
  rules: compileRules(rules),
  boards: [
    board("xp", { source: "XP" }, "BEST"),
    board("earned", { source: "CURRENCY", currencyKey: "coins", mode: "EARNED" }, "SUM"),
    board(
      "wins",
      { source: "EVENT", event: { eventTypes: ["won"] }, aggregate: "sum", property: "score" },
      "SUM",
    ),
  ],
  define: {
    currency: [
      { key: "coins", name: "Coins", initialBalance: 5, expiryDays: 30 },
      { key: "gems", name: "Gems" },
    ],
    badge: [
      { key: "hero", name: "Hero", tiers: [{ tier: 1, rewards: { currencies: { gems: 2 } } }] },
      {
        key: "winner",
        name: "Winner",
        progressMetric: { ...won },
        tiers: [
          { tier: 1, threshold: 2, rewards: { xp: 5 } },
          { tier: 2, threshold: 4, rewards: { currencies: { gems: 1 } } },
        ],
      },
    ],
    level: [{ key: "2", name: "Second", rewards: { currencies: { gems: 9 } } }],
    streak: [
      {
        key: "daily",
        name: "Daily",
        qualify: { mode: "ALL", parts: [{ metric: won, threshold: 2 }] },
        milestones: [{ length: 2, rewards: { currencies: { gems: 4 } } }],
      },
    ],
    segment: [
      {
        key: "winners",
        name: "Winners",
        kind: "DYNAMIC",
        definition: { all: [{ type: "event_aggregate", metric: won, op: "gte", value: 3 }] },
      },
    ],
  },
});

type Sent = { type: string; at: number; properties: Json };

const apply = (player: PlayerState, sent: Sent, shared?: Turn["shared"]) => {
  const effects = noEffects();
  const { turn } = aPass({ plan, player, event: { id: randomUUID(), ...sent }, nowMs: NOW, effects });
  const passed = shared ? { ...turn, shared } : turn;
  evaluateEvent(passed);
  return { turn: passed, effects };
};

/** What the database keeps of an event that was applied. */
const recordOf = ({ turn, effects }: ReturnType<typeof apply>, before: PlayerState): PlayerRecord => {
  const { id, type, at, properties } = turn.event;
  const followed = followedBy(turn);
  const awards: LoggedAward[] = [
    // What the player held before rests on other awards.
    ...[...before.badges].flatMap(([badgeKey, { tier }]) =>
      Array.from({ length: tier }, (_, i) => ({
        eventId: null,
        badgeKey,
        tier: i + 1,
        action: "AWARDED" as const,
        serialNo: null,
        key: `before:${i}`,
        isOfEvent: false,
        isByCounter: badgeKey === "winner",
        isReversal: false,
        others: tier,
      })),
    ),
    ...effects.badgeAwards.map((award) => ({
      ...award,
      serialNo: null,
      isOfEvent: true,
      isByCounter: award.cause.refKey === award.badgeKey,
      isReversal: false,
      others: 0,
    })),
  ];
  return {
    event: {
      id,
      rootId: id,
      type,
      at,
      properties,
      receivedMs: NOW,
      externalUserId: turn.player.externalUserId,
    },
    ledger: effects.ledger.filter(({ eventId }) => eventId === id),
    awards,
    grants: [],
    firings: effects.executions.map(({ ruleId, ruleVersion }) => ({ ruleId, ruleVersion, scores: null })),
    emitted: effects.outbox.map((row) => ({ type: row.type, data: row.data as Json })),
    hasOtherXp: before.xp > 0,
    recounted: new Map(),
    followed,
    longestRuns: new Map(),
    days: new Map(),
    lost: [],
    together: togetherOf(awards, followed),
    submitted: [],
    scores: new Map([["wins", null]]),
    goals: { outcomes: [], known: new Set(), keys: new Map(), adventures: [], lost: new Set() },
    isOwn: true,
  };
};

/** What an event shares with others that are reverted with it, where there are none. */
const togetherOf = (
  awards: readonly LoggedAward[],
  followed: PlayerRecord["followed"],
): PlayerRecord["together"] => {
  const byBadge = Map.groupBy(awards, ({ badgeKey }) => badgeKey);
  const lost = [...byBadge].flatMap(([key, log]) => [
    ...lostAwards(log, { followed: followed.get(key), held: 0 }).lost,
  ]);
  return { awards: [], taken: new Set(), lost: new Set(lost), followed };
};

/** What the badge that follows the counter of wins has without the turn's event. */
const followedBy = ({ project, player, event }: PlanTurn): PlayerRecord["followed"] => {
  const owner = { project, player };
  const { id } = event;
  const touched = countersWithout(owner, [{ id, receivedMs: NOW, past: [event] }], new Map());
  return new Map(
    touched.flatMap((one) =>
      followersOf(owner, one.metric).map((follower) => [
        follower.badge.definition.key,
        { ...dueNow(one, follower)!, progress: leastProgress(one) },
      ]),
    ),
  );
};

const revert = (turn: Turn, record: PlayerRecord) => {
  const reversal = newReversal(record.event, { reason: "test", actor: "nobody" });
  const fired = rules.map(
    ({ id, key, definition }) =>
      [firingKey({ ruleId: id, ruleVersion: 1 }), controlsOf(id, key, definition)] as const,
  );
  const effects = noEffects();
  const { turn: opened } = aPass({ plan, player: turn.player, event: turn.event, nowMs: NOW, effects });
  const reversed = reversePlayer({ ...opened, shared: turn.shared }, record, {
    rules: new Map(fired),
    counterStarts: new Map(),
    boardStarts: new Map(),
    reversal,
  });
  atOnce(reversed);
  return { reversal, effects };
};

/** Nothing and a counter at 0 are one. */
const counters = ({ doc }: PlayerState): Json =>
  Object.fromEntries(Object.entries(doc.c ?? {}).filter(([, value]) => value !== 0));

const holdings = (player: PlayerState) => ({
  xp: player.xp,
  level: player.level,
  balances: Object.fromEntries(player.balances),
  badges: [...player.badges]
    .map(([key, { tier, progress }]) => [key, tier, progress])
    .filter(([, tier, progress]) => tier !== 0 || progress !== 0),
  counters: counters(player),
  limits: Object.fromEntries(Object.entries(player.doc.l ?? {})),
  scores: [...player.entries]
    .map(([key, { rankScore }]) => [key, rankScore])
    .filter(([, score]) => score !== 0),
  segments: [...player.segments.keys()],
  streaks: [...player.streaks]
    .map(([key, { current, longest }]) => [key, current, longest])
    .filter(([, , longest]) => longest !== 0),
});

const copyOf = (player: PlayerState): PlayerState => ({
  ...player,
  badges: new Map(player.badges),
  streaks: new Map(player.streaks),
});

const anEvent = fc.record({
  type: fc.constantFrom("won", "won", "bought"),
  at: fc.integer({ min: 0, max: 3 }).map((hours) => NOW - hours * 3_600_000),
  properties: fc.record({ score: fc.integer({ min: 1, max: 60 }) }),
});

describe("the revert of an event", () => {
  it("knows the types of events that a rule has emitted, also where their data were erased", () => {
    const emitted = [
      { type: "custom.lost", data: { eventType: "lost", properties: { level: 3 } } },
      { type: "custom.lost", data: {} },
      { type: "player.level_up", data: {} },
    ];
    assert.deepEqual(derivedOf(emitted, NOW), [
      { type: "lost", at: NOW, properties: { level: 3 } },
      { type: "lost", at: NOW, properties: {} },
      { type: "player.level_up", at: NOW, properties: {} },
    ]);
  });

  it("gives back exactly what the event has changed, when nothing of it was spent", () => {
    fc.assert(
      fc.property(fc.array(anEvent, { maxLength: 8 }), anEvent, (past, last) => {
        const player = aPlayerState({ seq: 1 });
        // Whoever has had nothing to do with the currency has its initial balance without a line.
        player.balances.set("coins", { balance: 5, held: 0, earned: 5, spent: 0 });
        player.balances.set("gems", { balance: 0, held: 0, earned: 0, spent: 0 });
        let shared: Turn["shared"] | undefined;
        for (const sent of past) ({ shared } = apply(player, sent, shared).turn);
        const before = holdings(player);
        const known = copyOf(player);
        const firings = shared?.changes();
        const applied = apply(player, last, shared);
        const { reversal, effects } = revert(applied.turn, recordOf(applied, known));
        const after = holdings(player);
        // A streak's longest run stays where an earlier one may have been as long.
        assert.deepEqual(after, before);
        // What was spent and comes back expires anew, so lots may hold more of the balance than before.
        const inLots = (player.lots.get("coins") ?? []).reduce((sum, { remaining }) => sum + remaining, 0);
        assert.ok(inLots <= player.balances.get("coins")!.balance);
        assert.deepEqual(reversal.shortfall, {});
        for (const { amount, reverses, key } of effects.ledger) {
          const line = applied.effects.ledger.find(({ id }) => id === reverses)!;
          assert.equal(amount, -line.amount);
          assert.equal(key, `rev:${line.id}`);
        }
        const zero = (changes: ReturnType<Turn["shared"]["changes"]> = []) =>
          changes.filter(({ u }) => u !== 0).map(({ s, u }) => [s, u]);
        assert.deepEqual(zero(applied.turn.shared.changes()), zero(firings));
      }),
      { numRuns: cases(500) },
    );
  });

  it("takes the whole gain off boards of gains, also what was spent", () => {
    const player = aPlayerState({ seq: 1 });
    player.balances.set("coins", { balance: 5, held: 0, earned: 5, spent: 0 });
    const applied = apply(player, { type: "won", at: NOW, properties: { score: 30 } });
    const record = recordOf(applied, aPlayerState());
    assert.equal(player.entries.get("earned")?.rankScore, -7);
    player.balances.set("coins", { balance: 0, held: 0, earned: 12, spent: 12 });
    const { reversal } = revert(applied.turn, record);
    assert.equal(reversal.shortfall["currency:coins"], 4);
    assert.equal(player.entries.has("earned"), false);
  });

  it("lets a level that stays keep its reward, and gives a level that fell its reward again", () => {
    const stays = aPlayerState({ seq: 1 });
    const kept = { ...plan, settings: { ...plan.settings, allowLevelDown: false } };
    const effects = noEffects();
    const event = { id: randomUUID(), type: "won", at: NOW, properties: { score: 150 } };
    const { turn } = aPass({ plan: kept, player: stays, event, nowMs: NOW, effects });
    evaluateEvent(turn);
    const record = recordOf({ turn, effects }, aPlayerState());
    const reversal = newReversal(record.event, { reason: "test", actor: "nobody" });
    const context = { rules: new Map(), counterStarts: new Map(), boardStarts: new Map(), reversal };
    atOnce(reversePlayer(aPass({ plan: kept, player: stays, event, nowMs: NOW }).turn, record, context));
    assert.deepEqual([stays.xp, stays.level, stays.balances.get("gems")!.balance], [0, 2, 9]);
    assert.deepEqual([...reversal.left], ["level 2, with what it gave"]);

    const falls = aPlayerState({ seq: 1 });
    const first = apply(falls, { type: "won", at: NOW, properties: { score: 150 } });
    revert(first.turn, recordOf(first, aPlayerState()));
    assert.deepEqual([falls.level, falls.balances.get("gems")!.balance], [1, 0]);
    const again = apply(falls, { type: "won", at: NOW - 60_000, properties: { score: 150 } });
    assert.deepEqual([falls.level, falls.balances.get("gems")!.balance], [2, 11]);
    const keys = [...first.effects.ledger, ...again.effects.ledger].map(({ key }) => key);
    assert.equal(new Set(keys).size, keys.length, "no line of the ledger has the key of another");
  });
});
