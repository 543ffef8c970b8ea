import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { metricPieces } from "../../src/domain/evaluation/metrics/compile.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import { countEvent } from "../../src/domain/evaluation/metrics/count.ts";
import type { BadgeState, PlayerState } from "../../src/domain/evaluation/player-state.ts";
import { CONDITION_TYPES } from "../../src/domain/evaluation/conditions/condition-kinds.ts";
import {
  compileGroup,
  type ConditionNode,
  explainGroup,
  type TraceNode,
} from "../../src/domain/evaluation/language/groups.ts";
import { advanceStreaks, streakMeasure } from "../../src/domain/evaluation/streaks/advance.ts";
import {
  actual,
  BADGES,
  leaf,
  metricsIn,
  SEGMENTS,
  tree,
  TYPES,
  word,
  ZONES,
} from "../support/rules/rule-arbitraries.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { holds, type PastEvent, type World } from "../support/rules/rule-reference.ts";
import { aBoard } from "../support/rules/turn.ts";
import { cases } from "../support/properties.ts";

const START = Date.parse("2026-06-01T12:00:00Z");
const NOW = Date.parse("2026-06-15T12:00:00Z");
const HOUR = 3_600_000;

const deep = fc.constantFrom<Json>(
  {},
  { a: { b: { c: 2 } } },
  { a: [{ x: 1 }] },
  JSON.parse('{"__proto__": {"x": 5}, "a": {"b": 7}}') as Json,
  { length: 3, toString: "text" },
);
const properties = fc
  .record(
    { p: actual, deep, v: fc.integer({ min: -3, max: 3 }), kind: fc.constantFrom("x", "y") },
    {
      requiredKeys: [],
    },
  )
  .map((value) => JSON.parse(JSON.stringify(value)) as Json);

const history = fc
  .array(fc.record({ type: fc.constantFrom(...TYPES), hours: fc.nat(48), properties }), {
    minLength: 1,
    maxLength: 12,
  })
  .map((steps) => {
    let at = START;
    return steps.map(({ type, hours, properties: props }): PastEvent => {
      at = Math.min(NOW, at + hours * HOUR);
      return { type, at, properties: props };
    });
  });

const balance = fc.option(
  fc.record({ balance: fc.nat(6), held: fc.nat(2), earned: fc.constant(0), spent: fc.constant(0) }),
  { nil: undefined },
);
const attributes = fc
  .record({ q: actual, deep }, { requiredKeys: [] })
  .map((value) => JSON.parse(JSON.stringify(value)) as Json);

/** A player by what conditions can see of one. */
const person = fc.record({
  xp: fc.nat(9),
  level: fc.integer({ min: 1, max: 4 }),
  status: fc.constantFrom<PlayerState["status"]>("ACTIVE", "SUSPENDED"),
  timezone: fc.constantFrom(null, ...ZONES),
  country: fc.constantFrom(null, "SE"),
  tags: fc.array(word, { maxLength: 3 }),
  lastSeenAt: fc.constantFrom(null, new Date(NOW - HOUR)),
  lives: fc.option(fc.nat(5), { nil: undefined }),
  attributes,
  gold: balance,
  tiers: fc.tuple(fc.nat(4), fc.nat(1)),
  segments: fc.subarray(SEGMENTS.slice(0, 2)),
  score: fc.option(fc.integer({ min: -3, max: 12 }), { nil: undefined }),
});
type Person = typeof person extends fc.Arbitrary<infer T> ? T : never;

const heldBadge = (tier: number): BadgeState => ({
  tier,
  progress: 0,
  timesAwarded: tier,
  serialNo: null,
  firstEarnedMs: null,
  lastEarnedMs: null,
  revokedMs: null,
});

const board = aBoard({ key: "board", periodId: "w1", sort: "DESC" });

const playerOf = (who: Person): PlayerState => {
  const { xp, level, status, timezone, country, tags, lastSeenAt, attributes: own } = who;
  const player = aPlayerState({ xp, level, status, timezone, country, tags, lastSeenAt, attributes: own });
  if (who.gold) player.balances.set("gold", { ...who.gold });
  who.tiers.forEach((tier, i) => player.badges.set(BADGES[i]!, heldBadge(tier)));
  for (const key of who.segments) player.segments.set(key, START);
  if (who.lives !== undefined) player.lives = { count: who.lives, anchorMs: NOW, unlimitedUntilMs: null };
  if (who.score !== undefined)
    player.entries.set("w1", { rankScore: -who.score, rankTie: 0, latestUs: 0, version: 1 });
  return player;
};

/** The same player, in words. */
const seenOf = (player: PlayerState, who: Person): Pick<World, "player" | "available"> => ({
  player: {
    xp: who.xp,
    level: who.level,
    lives: who.lives,
    status: who.status,
    tags: who.tags,
    createdAt: player.createdAt.toISOString(),
    ...(who.timezone === null ? {} : { timezone: who.timezone }),
    ...(who.country === null ? {} : { country: who.country }),
    ...(who.lastSeenAt === null ? {} : { lastSeenAt: who.lastSeenAt.toISOString() }),
  },
  available: { gold: who.gold ? who.gold.balance - who.gold.held : 7, silver: 0 },
});

const COUNT_TRIED = { eventTypes: ["tried"], aggregate: "count" };

/** The conditions with everything that they look at, once for the closures and once for the plain reading. */
const sceneOf = (node: unknown, events: readonly PastEvent[], who: Person) => {
  const plan = aPlan({
    define: {
      currency: [
        { key: "gold", name: "Gold", initialBalance: 7 },
        { key: "silver", name: "Silver" },
      ],
      streak: [{ key: "daily", name: "Daily", qualify: { parts: [{ metric: COUNT_TRIED }] } }],
    },
    metrics: atOnce(metricPieces(metricsIn(node))),
    boards: [board],
    timezone: "America/Sao_Paulo",
  });
  plan.settings.lives = { ...plan.settings.lives, enabled: who.lives !== undefined, max: 5 };
  const player = playerOf(who);
  for (const event of events) {
    const { turn: pass } = aPass({ plan, player, event, nowMs: NOW });
    countEvent(pass);
    advanceStreaks(pass);
  }
  const { turn } = aPass({ plan, player, event: events.at(-1)!, nowMs: NOW });
  const measures = (key: string) =>
    Object.fromEntries(
      (["current", "longest", "freezes"] as const).flatMap((name) => {
        const value = streakMeasure(turn, key, name);
        return value === undefined ? [] : [[name, value]];
      }),
    );
  const world: World = {
    event: events.at(-1)!,
    nowMs: NOW,
    history: events,
    ...seenOf(player, who),
    attributes: who.attributes,
    badges: Object.fromEntries(who.tiers.map((tier, i) => [BADGES[i]!, tier])),
    segments: who.segments,
    scores: who.score === undefined ? {} : { board: who.score },
    streaks: { daily: measures("daily"), other: measures("other") },
    playerZone: who.timezone ?? undefined,
    projectZone: "America/Sao_Paulo",
  };
  return { turn, world };
};

const leavesOf = (node: TraceNode): TraceNode[] => node.children?.flatMap(leavesOf) ?? [node];

describe("rule conditions, compiled, traced and read word by word", () => {
  it("agree on any tree of all eight kinds, for any player and any history of events", () => {
    fc.assert(
      fc.property(tree, history, person, (node, events, who) => {
        const { turn, world } = sceneOf(node, events, who);
        const expected = holds(world, node);
        assert.equal(compileGroup(node as ConditionNode)(turn), expected, "compiled");
        assert.equal(explainGroup(node as ConditionNode, turn).pass, expected, "traced");
      }),
      { numRuns: cases(1_000) },
    );
  });

  it("agree on every single condition, and change nothing by being asked", () => {
    const met = new Map<string, Set<boolean>>();
    fc.assert(
      fc.property(leaf, history, person, (condition, events, who) => {
        const { turn, world } = sceneOf(condition, events, who);
        const before = structuredClone({ ...turn.player, dirty: undefined });
        const test = compileGroup(condition as ConditionNode);
        const expected = holds(world, condition);
        assert.equal(test(turn), expected);
        assert.equal(test(turn), expected, "a second time");
        assert.deepEqual({ ...turn.player, dirty: undefined }, before);
        const { type } = condition as { type: string };
        met.set(type, (met.get(type) ?? new Set()).add(expected));
      }),
      { numRuns: cases(2_000) },
    );
    const decided = [...met].filter(([, answers]) => answers.size === 2).map(([type]) => type);
    assert.deepEqual(
      decided.toSorted(),
      CONDITION_TYPES.toSorted(),
      "both answers were met of all eight kinds",
    );
  });

  it("show in a trace every leaf of the tree, in its order, whatever is asked first", () => {
    fc.assert(
      fc.property(tree, history, person, (node, events, who) => {
        const { turn } = sceneOf(node, events, who);
        const trace = explainGroup(node as ConditionNode, turn);
        const paths = leavesOf(trace).map(({ path }) => path);
        assert.deepEqual(paths, paths.toSorted(new Intl.Collator("en", { numeric: true }).compare));
        for (const shown of leavesOf(trace)) {
          if (shown.children) continue;
          const test = compileGroup(nodeAt(node, shown.path) as ConditionNode);
          assert.equal(test(turn), shown.pass, shown.path);
        }
      }),
      { numRuns: cases(200) },
    );
  });
});

/** Follows a path such as `conditions.all[0].any[1]`. */
const nodeAt = (root: unknown, path: string): unknown =>
  [...path.matchAll(/\.(\w+)\[(\d+)\]/g)].reduce<unknown>(
    (node, [, key, i]) => (node as Record<string, unknown[]>)[key!]![Number(i)],
    root,
  );
