import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import type { Stored } from "../../src/domain/evaluation/live.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { LOOP_ROLES } from "../../src/domain/evaluation/causes.ts";
import { DERIVED_EVENT_TYPES } from "../../src/domain/kernel/events/event-types.ts";
import { HOLDINGS } from "../../src/domain/evaluation/player-state.ts";
import { DEFINITION_KINDS } from "../../src/domain/registries/definition-kinds.ts";
import { createCauses, directCauses } from "../../src/domain/economy/loops/causes.ts";
import {
  cycleThrough,
  cyclicComponents,
  GRAPH_EDGES_MAX,
  graphOf,
  type GraphRule,
} from "../../src/domain/economy/loops/graph.ts";
import { aDefinition } from "../support/rules/plan.ts";
import { aDocument } from "../support/rules/evaluation.ts";
import { cases } from "../support/properties.ts";

type Definitions = ReadonlyMap<string, readonly Stored[]>;

const on = (...eventTypes: string[]) => ({ triggers: [{ kind: "EVENT", eventTypes }] });
const emit = (...types: string[]) => ({
  actions: types.map((eventType) => ({ type: "emit_event", eventType, channels: ["rules"] })),
});
const none: Definitions = new Map();
const defined = (documents: Record<string, Json[]>): Definitions =>
  new Map(
    Object.entries(documents).map(([kind, items]) => [
      kind,
      items.map((item) => aDefinition(kind, { name: "A definition", ...item })),
    ]),
  );
const aNode = (key: string, ...parts: Json[]): GraphRule => ({
  id: randomUUID(),
  key,
  status: "ACTIVE",
  definition: aDocument({ key, ...Object.assign({}, ...parts) }),
});
const cyclesOf = (rules: readonly GraphRule[], definitions = none): string[] =>
  graphOf(rules, definitions).cycles.map(({ rules: members }) =>
    members
      .map(({ key }) => key)
      .toSorted()
      .join("+"),
  );
const causesOf = (actions: Json[], definitions = none): string[] =>
  [...createCauses(definitions)(directCauses(aDocument({ actions })))].toSorted();

/** Which nodes are on a cycle with which: by walking from each one, without any cleverness. */
const reachable = (edges: readonly (readonly number[])[], from: number): Set<number> => {
  const seen = new Set<number>();
  const waiting = [...edges[from]!];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (seen.has(node)) continue;
    seen.add(node);
    waiting.push(...edges[node]!);
  }
  return seen;
};

const graphs = fc
  .integer({ min: 1, max: 14 })
  .chain((n) => fc.array(fc.array(fc.nat(n - 1), { maxLength: 3 }), { minLength: n, maxLength: n }));

describe("cycles in a graph", () => {
  it("are the groups whose members reach one another, and no others", () => {
    fc.assert(
      fc.property(graphs, (edges) => {
        const reach = edges.map((_targets, node) => reachable(edges, node));
        const expected = new Map<number, string>();
        edges.forEach((_targets, node) => {
          if (!reach[node]!.has(node)) return;
          const group = edges.flatMap((_t, other) =>
            reach[node]!.has(other) && reach[other]!.has(node) ? [other] : [],
          );
          expected.set(node, group.join());
        });
        const found = cyclicComponents(edges).map((component) => component.toSorted((a, b) => a - b).join());
        assert.deepEqual(found.toSorted(), [...new Set(expected.values())].toSorted());
      }),
      { numRuns: cases(500) },
    );
  });

  it("are shown by a way round that follows edges and stays within the group", () => {
    fc.assert(
      fc.property(graphs, (edges) => {
        for (const component of cyclicComponents(edges)) {
          const way = cycleThrough(edges, component[0]!, new Set(component));
          assert.deepEqual([way[0], way.at(-1)], [component[0], component[0]]);
          way.slice(1).forEach((node, i) => assert.ok(edges[way[i]!]!.includes(node)));
          assert.ok(way.every((node) => component.includes(node)));
        }
      }),
      { numRuns: cases(300) },
    );
  });

  it("are found at the end of a chain of a hundred thousand", () => {
    const n = 100_000;
    const edges = Array.from({ length: n }, (_, i) => [i === n - 1 ? 0 : i + 1]);
    assert.equal(cyclicComponents(edges)[0]!.length, n);
  });
});

describe("the graph of rules that listen to many things", () => {
  const asks = (...value: string[]) => ({
    conditions: { all: [{ type: "event_property", path: "badgeKey", op: "in", value }] },
  });
  const award = (badgeKey: string) => ({ actions: [{ type: "update_badge", badgeKey, operation: "AWARD" }] });
  const numbers = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

  it("grows with what is written in them, not with keys times patterns times rules", () => {
    const patterns = numbers(5).map((i) => numbers(20).map((j) => `area${i}.part${j}.*`));
    const triggers = patterns.map((eventTypes) => ({ kind: "EVENT", eventTypes }));
    const keys = numbers(100);
    const rules = numbers(100).map((i) => {
      const own = asks(...keys.map((key) => `badge-${i}-${key}`));
      return aNode(`r${i}`, { triggers }, own, emit("area1.part1.a", "area2.part2.b"));
    });
    assert.equal(graphOf(rules, none).cycles.length, 1);
  });

  it("goes by the keys of the service's own events, by name and by pattern, and of no others", () => {
    const circle = (pattern: string, badgeKey: string) =>
      cyclesOf([aNode("r", on(pattern), asks("gold"), award(badgeKey))]);
    for (const pattern of ["player.badge_earned", "player.*"]) {
      assert.deepEqual(circle(pattern, "gold"), ["r"], pattern);
      assert.deepEqual(circle(pattern, "silver"), [], pattern);
    }
    for (const pattern of ["player.won", "player.*", "*"])
      assert.deepEqual(cyclesOf([aNode("r", on(pattern), asks("gold"), emit("player.won"))]), ["r"], pattern);
  });
});

describe("what rules bring about", () => {
  it("is told for each action", () => {
    const used = "player.boost_ended *";
    const xp = ["player.level_up", "player.xp_granted"];
    assert.deepEqual(causesOf([{ type: "grant_xp", amount: 1 }]), [used, ...xp]);
    assert.deepEqual(causesOf([{ type: "grant_xp", amount: -1 }]), [used, "player.updated"]);
    assert.deepEqual(
      causesOf([{ type: "grant_xp", amount: { ref: "event.properties.n" } }]),
      [used, ...xp, "player.updated"].toSorted(),
    );
    const change = (amount: unknown) => ({ type: "adjust_currency", currencyKey: "coins", amount });
    assert.deepEqual(causesOf([change(5)]), [used, "player.currency_granted coins"]);
    assert.deepEqual(causesOf([change(-5)]), [used, "player.currency_spent coins"]);
    assert.equal(causesOf([change({ $ref: "event.properties.n" })]).length, 3);
    assert.deepEqual(causesOf([{ type: "adjust_lives", amount: 1 }]), ["player.lives_changed"]);
    const badge = (operation: string) => ({ type: "update_badge", badgeKey: "gold", operation });
    assert.deepEqual(causesOf([badge("AWARD")]), ["player.badge_earned gold"]);
    assert.deepEqual(causesOf([badge("REVOKE")]), ["player.badge_revoked gold"]);
    assert.deepEqual(causesOf([{ type: "submit_score", leaderboardKey: "top", score: 1 }]), [used]);
    assert.deepEqual(causesOf([{ type: "update_player", addTags: ["a"] }]), ["player.updated"]);
    assert.deepEqual(causesOf([{ type: "update_player", addToSegments: ["vip"] }]), [
      "player.segment_entered vip",
      "player.segment_left vip",
      "player.updated",
    ]);
    assert.deepEqual(causesOf(emit("a.b").actions), ["a.b"]);
    assert.deepEqual(causesOf([{ ...emit("a.b").actions[0], channels: ["webhook"] }]), []);
  });

  it("goes on through rewards, levels, badges that follow a metric, streaks and segments", () => {
    const definitions = defined({
      reward: [{ key: "chest", kind: "BUNDLE", bundle: { badges: [{ badgeKey: "gold" }] } }],
      badge: [
        { key: "gold", tiers: [{ tier: 1, rewards: { lives: 1 } }] },
        {
          key: "counted",
          tiers: [{ tier: 1, threshold: 5, rewards: { addTags: ["x"] } }],
          progressMetric: { eventTypes: ["player.lives_changed"], aggregate: "count" },
        },
      ],
      segment: [
        {
          key: "alive",
          kind: "DYNAMIC",
          definition: { all: [{ type: "player_property", field: "lives", op: "gte", value: 1 }] },
        },
        {
          key: "rich",
          kind: "DYNAMIC",
          definition: { all: [{ type: "player_property", field: "currencies.coins", op: "gte", value: 1 }] },
        },
      ],
    });
    assert.deepEqual(causesOf([{ type: "grant_reward", rewardKey: "chest" }], definitions), [
      "player.badge_earned counted",
      "player.badge_earned gold",
      "player.lives_changed",
      "player.reward_granted chest",
      "player.segment_entered alive",
      "player.segment_left alive",
      "player.updated",
    ]);
  });
});

describe("the graph of rules", () => {
  it("joins rules over exact types, prefixes and the star, which hears custom events alone", () => {
    const rules = [
      aNode("a", on("start"), emit("order.paid.card")),
      aNode("exact", on("order.paid.card")),
      aNode("prefix", on("order.*")),
      aNode("star", on("*")),
      aNode("xp", on("player.xp_granted"), { actions: [{ type: "update_player", addTags: ["a"] }] }),
    ];
    const { edges } = graphOf(rules, none);
    const keyOf = new Map(rules.map(({ id, key }) => [id, key]));
    const drawn = edges
      .map(({ from, to, via }) => `${keyOf.get(from)} ${keyOf.get(to)} ${via.join()}`)
      .toSorted();
    assert.deepEqual(drawn, [
      "a exact order.paid.card",
      "a prefix order.paid.card",
      "a star order.paid.card",
      "exact xp player.xp_granted",
      "prefix xp player.xp_granted",
      "star xp player.xp_granted",
    ]);
  });

  it("has the circles of rules over any number of steps, each once, and says which one ends", () => {
    const rules = [
      aNode("a", on("x"), emit("y")),
      aNode("b", on("y"), emit("z")),
      aNode("c", on("z"), emit("x"), { limits: { cooldownSeconds: 5 } }),
      aNode("out", on("z"), emit("nowhere")),
      aNode("self", on("s.*"), emit("s.t")),
    ];
    assert.deepEqual(cyclesOf(rules).toSorted(), ["a+b+c", "self"]);
    const { cycles } = graphOf(rules, none);
    assert.deepEqual(cycles.map(({ isBounded, path }) => [isBounded, path.length]).toSorted(), [
      [false, 3],
      [true, 7],
    ]);
  });

  it("takes a limit, a budget, a cooldown or stopOnMatch for an end, and nothing else", () => {
    const isBounded = (part: Json): boolean =>
      graphOf([aNode("self", on("s"), emit("s"), part)], none).cycles[0]!.isBounded;
    const perPlayer = [{ max: 1, window: "DAY" }];
    assert.equal(isBounded({ limits: { perPlayer } }), true);
    assert.equal(isBounded({ limits: { global: perPlayer } }), true);
    assert.equal(isBounded({ limits: { cooldownSeconds: 1 } }), true);
    assert.equal(isBounded({ limits: { budgets: [{ asset: "xp", max: 1, window: "DAY" }] } }), true);
    assert.equal(isBounded({ stopOnMatch: true }), true);
    assert.equal(isBounded({ limits: {} }), false);
    assert.equal(isBounded({ limits: { caps: [{ asset: "xp", max: 1, window: "DAY" }] } }), false);
    assert.equal(isBounded({ reentrant: true }), false);
  });

  it("leaves out what a rule does not ask for: other badges, other currencies", () => {
    const asks = (path: string, ...values: string[]) => ({
      conditions: { all: [{ type: "event_property", path, op: "in", value: values }] },
    });
    const award = (badgeKey: string) => ({
      actions: [{ type: "update_badge", badgeKey, operation: "AWARD" }],
    });
    const earned = on("player.badge_earned");
    assert.deepEqual(cyclesOf([aNode("a", earned, asks("badgeKey", "gold"), award("silver"))]), []);
    assert.deepEqual(cyclesOf([aNode("a", earned, asks("badgeKey", "gold", "silver"), award("silver"))]), [
      "a",
    ]);
    assert.deepEqual(cyclesOf([aNode("a", earned, award("silver"))]), ["a"]);
    // Of one's own events nobody knows what the property holds.
    const own = aNode("a", on("own"), asks("badgeKey", "gold"), emit("own"));
    assert.deepEqual(cyclesOf([own]), ["a"]);
  });

  it("of a thousand rules on every event is cut, and keeps its cycle", () => {
    const rules = Array.from({ length: 1_000 }, (_, i) => aNode(`r${i}`, on("*"), emit(`e${i}`)));
    const graph = graphOf(rules, none);
    assert.deepEqual([graph.edges.length, graph.truncated], [GRAPH_EDGES_MAX, true]);
    assert.equal(graph.cycles[0]!.rules.length, 1_000);
  });

  it("knows the part of every kind of definition, and events for every input that they change", () => {
    const kinds = DEFINITION_KINDS.map(({ kind }) => kind);
    assert.deepEqual(Object.keys(LOOP_ROLES).toSorted(), kinds.toSorted());
    for (const start of Object.values(HOLDINGS).flatMap(({ changedBy }) => Object.keys(changedBy)))
      assert.ok(
        [...DERIVED_EVENT_TYPES].some((type) => type.startsWith(start)),
        start,
      );
  });
});
