import { post, type Site } from "./setup.ts";

const TYPES = ["level_completed"];
const trigger = { triggers: [{ kind: "EVENT", eventTypes: TYPES }] };
const points = { ref: "event.properties.points" };

const publish = async (site: Site, rule: { key: string } & Record<string, unknown>): Promise<void> => {
  await post(site, "/rules", rule);
  await post(site, `/rules/${rule.key}/publish`, {});
};

/** What events do to a project's players. `xpOf` is SQL over tracked_events that says what XP one gives. */
export type Game = { name: string; xpOf: string; prepare(site: Site): Promise<void> };

/** One rule that gives XP, and a leaderboard. */
const simple: Game = {
  name: "simple",
  xpOf: "(properties->>'points')::int",
  prepare: async (site) => {
    const metric = {
      source: "EVENT",
      event: { eventTypes: TYPES },
      aggregate: "sum",
      property: "points",
    };
    await post(site, "/leaderboards", {
      key: "points",
      name: "Points",
      metric,
      sort: "DESC",
      ties: "SHARED",
    });
    await publish(site, {
      key: "points",
      name: "Points",
      ...trigger,
      conditions: { all: [{ type: "event_property", path: "points", op: "gt", value: 0 }] },
      actions: [{ type: "grant_xp", amount: points }],
    });
  },
};

/** Counters that no rule's outcome turns on, each with another window. */
const counting = (key: string, metric: Record<string, unknown>) => ({
  key,
  name: key,
  ...trigger,
  conditions: {
    all: [
      {
        type: "event_aggregate",
        metric: { eventTypes: TYPES, ...metric },
        op: "gte",
        value: 1_000_000_000,
      },
    ],
  },
  actions: [{ type: "grant_xp", amount: 1 }],
});

/** Four counters, a streak, XP and coins for six events of ten, and two leaderboards. */
const economy: Game = {
  name: "economy",
  xpOf: "case when (properties->>'points')::int <= 6 then (properties->>'points')::int else 0 end",
  prepare: async (site) => {
    await post(site, "/currencies", { key: "coins", name: "Coins" });
    const metric = { eventTypes: TYPES, aggregate: "count" };
    const qualify = { mode: "ALL", parts: [{ metric, threshold: 1 }] };
    await post(site, "/streaks", { key: "daily", name: "Daily", period: "DAY", qualify });
    const sum = { source: "EVENT", event: { eventTypes: TYPES }, aggregate: "sum", property: "points" };
    await post(site, "/leaderboards", { key: "points", name: "Points", metric: sum });
    await post(site, "/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } });
    await publish(site, {
      key: "pay",
      name: "Pay",
      ...trigger,
      conditions: { all: [{ type: "event_property", path: "points", op: "lte", value: 6 }] },
      actions: [
        { type: "grant_xp", amount: points },
        { type: "adjust_currency", currencyKey: "coins", amount: 2 },
      ],
    });
    const day = { type: "CALENDAR", unit: "DAY" };
    await publish(site, counting("count", { aggregate: "count" }));
    await publish(site, counting("sum", { aggregate: "sum", property: "points" }));
    await publish(site, counting("today", { aggregate: "count", window: day }));
    await publish(site, counting("best", { aggregate: "max", property: "level" }));
  },
};

const STEPS = 3;

/** A quest of steps in sequence; each counts events of a type. */
const quest = async (site: Site, key: string, eventType: string): Promise<void> => {
  const steps = Array.from({ length: STEPS }, (_, i) => ({
    key: `step${i}`,
    name: `Step ${i}`,
    kind: "EVENT",
    metric: { eventTypes: [eventType], aggregate: "count" },
    target: 100,
  }));
  await post(site, "/quests", { key, name: key, steps, rewards: { currencies: { coins: 1 } } });
  await post(site, `/quests/${key}/publish`, {});
};

const TOUCHED = 4;

/** The economy, with quests: an event touches four of them. */
const withQuests = (name: string, quests: number): Game => ({
  name,
  xpOf: economy.xpOf,
  prepare: async (site) => {
    await economy.prepare(site);
    for (let i = 0; i < quests; i++)
      await quest(site, `quest${i}`, i < TOUCHED ? TYPES[0]! : `other.event${i}`);
  },
});

/** `many-quests`: as many as a project may have. */
export const GAMES: readonly Game[] = [
  simple,
  economy,
  withQuests("quests", 20),
  withQuests("many-quests", 500),
];
