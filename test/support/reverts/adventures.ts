import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { aSeason } from "../quests/adventure-game.ts";

const quest = (key: string, types: Record<string, number>, more: Json = {}): Json => ({
  key,
  name: key,
  stepMode: "PARALLEL",
  steps: Object.entries(types).map(([type, target]) => ({
    key: `step-${type}`,
    name: type,
    kind: "EVENT",
    metric: { eventTypes: [type], aggregate: "count" },
    target,
  })),
  ...more,
});

/** Quests of adventures, whose outcome follows from events alone. */
export const QUESTS_OF_ADVENTURES: readonly Json[] = [
  quest("daily", { a: 2 }, { repeat: { mode: "DAILY" }, rewards: { xp: 10 } }),
  quest("often", { b: 1 }, { repeat: { mode: "UNLIMITED" } }),
  quest("both", { a: 2, b: 1 }, { rewards: { xp: 100 } }),
  quest("hidden", { hide: 1 }),
];

const points = (type: string, more: Json = {}) => ({ eventTypes: [type], aggregate: "count", ...more });

/** One that gives its rewards by itself, and one of which rewards are claimed. */
export const ADVENTURES: readonly Json[] = [
  {
    key: "season",
    name: "Season",
    ...aSeason(),
    items: [
      { questKey: "daily", order: 1, points: 10 },
      { questKey: "often", order: 2, points: 3, optional: true },
      { questKey: "both", order: 3, points: 7 },
    ],
    pointsFrom: [
      { metric: points("p"), pointsPerUnit: 0.5 },
      { metric: points("a", { aggregate: "sum", property: "score" }), pointsPerUnit: 0.1 },
    ],
    tiers: [
      { tier: 1, points: 1, free: { currencies: { stars: 1 } } },
      { tier: 2, points: 10, free: { currencies: { stars: 10 } } },
      { tier: 3, points: 20, free: { xp: 1_000 }, premium: { xp: 1 } },
    ],
    rewards: { xp: 10_000 },
  },
  {
    key: "by-hand",
    name: "By hand",
    ...aSeason(),
    items: [{ questKey: "hidden", order: 1, unlock: { mode: "POINTS", points: 3 } }],
    pointsFrom: [{ metric: points("h"), pointsPerUnit: 1 }],
    tiers: [
      { tier: 1, points: 2, free: { currencies: { stars: 1 } }, premium: { currencies: { stars: 10 } } },
    ],
    claim: "MANUAL",
  },
];
