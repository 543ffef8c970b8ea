import { post, type Site } from "./stage.ts";

export const PLAYERS = 2_000;
const TYPE = "level_completed";

/** The n-th event of a game; players take turns, and each has the same points every time. */
export const gameEvent = (n: number) => ({
  externalUserId: `player-${n % PLAYERS}`,
  eventType: TYPE,
  properties: { points: (n % 10) + 1, level: n % 40, world: "the-whispering-forest", difficulty: "hard" },
});

/** XP that a player has who took part in `events` events of a game. */
const xpAfter = (player: number, events: number): number => {
  const points = (player % 10) + 1;
  const times = Math.floor(events / PLAYERS) + (events % PLAYERS > player ? 1 : 0);
  return points <= PAID_UP_TO ? points * times : 0;
};

const PAID_UP_TO = 6;
const CHECKED = 20;

/** @throws Error unless players have the XP of so many events: what is wrong has no speed */
export const checkXp = async ({ url, key }: Site, events: number): Promise<void> => {
  for (let player = 0; player < CHECKED; player++) {
    const path = `${url}/api/v1/players/ext:player-${player}`;
    const { xp } = (await (await fetch(path, { headers: { "X-API-Key": key } })).json()) as { xp: number };
    const expected = xpAfter(player, events);
    if (xp !== expected) throw new Error(`player ${player} has ${xp} XP instead of ${expected}`);
  }
};

const triggers = [{ kind: "EVENT", eventTypes: [TYPE] }];

const publish = async (site: Site, kind: "rules" | "quests", definition: { key: string }): Promise<void> => {
  await post(site, `/${kind}`, { name: definition.key, ...definition });
  await post(site, `/${kind}/${definition.key}/publish`, {});
};

/** A rule with a counter that never gets so far. */
const counting = (key: string, metric: object) => ({
  key,
  triggers,
  conditions: {
    all: [
      { type: "event_aggregate", metric: { eventTypes: [TYPE], ...metric }, op: "gte", value: 1_000_000_000 },
    ],
  },
  actions: [{ type: "grant_xp", amount: 1 }],
});

/** Four counters, a daily streak, XP and coins for six events of ten, and two leaderboards. */
const economy = async (site: Site): Promise<void> => {
  await post(site, "/currencies", { key: "coins", name: "Coins" });
  const metric = { eventTypes: [TYPE], aggregate: "count" };
  const qualify = { mode: "ALL", parts: [{ metric, threshold: 1 }] };
  await post(site, "/streaks", { key: "daily", name: "Daily", period: "DAY", qualify });
  const sum = { source: "EVENT", event: { eventTypes: [TYPE] }, aggregate: "sum", property: "points" };
  await post(site, "/leaderboards", { key: "points", name: "Points", metric: sum });
  await post(site, "/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } });
  await publish(site, "rules", {
    key: "pay",
    triggers,
    conditions: { all: [{ type: "event_property", path: "points", op: "lte", value: PAID_UP_TO }] },
    actions: [
      { type: "grant_xp", amount: { ref: "event.properties.points" } },
      { type: "adjust_currency", currencyKey: "coins", amount: 2 },
    ],
  } as { key: string });
  await publish(site, "rules", counting("count", { aggregate: "count" }));
  await publish(site, "rules", counting("sum", { aggregate: "sum", property: "points" }));
  const today = { aggregate: "count", window: { type: "CALENDAR", unit: "DAY" } };
  await publish(site, "rules", counting("today", today));
  await publish(site, "rules", counting("best", { aggregate: "max", property: "level" }));
};

const [QUESTS, TOUCHED, STEPS] = [20, 4, 3];

/** The economy, and 20 quests of three steps in sequence, four of which each event touches. */
const quests = async (site: Site): Promise<void> => {
  await economy(site);
  for (let i = 0; i < QUESTS; i++) {
    const metric = { eventTypes: [i < TOUCHED ? TYPE : `other.event${i}`], aggregate: "count" };
    const step = (n: number) => ({ key: `step${n}`, name: `Step ${n}`, kind: "EVENT", metric, target: 100 });
    const steps = Array.from({ length: STEPS }, (_, n) => step(n));
    const quest = { key: `quest${i}`, steps, rewards: { currencies: { coins: 1 } } };
    await publish(site, "quests", quest);
  }
};

/** What the events of a project do; each prepares one. */
export const GAMES = { economy, quests } as const;
