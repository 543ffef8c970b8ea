import { existsSync, readFileSync } from "node:fs";
import { type Client, must } from "../http/client.ts";
import { type Line, linesIn } from "./data.ts";

const DATA = new URL("../../../../shared/data/", import.meta.url).pathname;

export const WORLDCUP = `${DATA}worldcup.ndjson.gz`;
export const hasRealData = existsSync(WORLDCUP);

export type Standing = { rank: number; player: string; value: number };
export type Truth = {
  events: number;
  players: number;
  leaderboards: {
    goalsAll: Standing[];
    goalsMen: Standing[];
    goalsWomen: Standing[];
    goalsByTournamentTop3: Record<string, Standing[]>;
    cards: Standing[];
    xp: { top: Standing[] };
  };
};

export const worldcupTruth = (): Truth =>
  JSON.parse(readFileSync(`${DATA}worldcup.truth.json`, "utf8")) as Truth;

/** A line as the batch endpoint takes it. */
export type WorldcupEvent = Line;

/** Every line of the file, in its order. */
export const worldcupLines = (): AsyncGenerator<WorldcupEvent> => linesIn(WORLDCUP);

/** What the rules of `defineWorldcup` give for one event. */
const xpOf = ({ eventType, properties }: Line): number => {
  switch (eventType) {
    case "goal_scored":
      return properties["penalty"] === true ? 75 : 100;
    case "shootout_penalty":
      return properties["converted"] === true ? 25 : 0;
    case "substituted_on":
      return 10;
    case "squad_selected":
      return 5;
    case "award_won":
      return 200;
    default:
      return 0;
  }
};

/** XP of every player, by plain loops over the file. */
export const expectedXp = async (): Promise<Map<string, number>> => {
  const xp = new Map<string, number>();
  for await (const line of worldcupLines()) {
    xp.set(line.externalUserId, (xp.get(line.externalUserId) ?? 0) + xpOf(line));
  }
  return xp;
};

const goals = (key: string, filter?: object, breakdown?: object) => ({
  key,
  name: key,
  metric: {
    source: "EVENT",
    event: { eventTypes: ["goal_scored"], ...(filter ? { filter } : {}) },
    aggregate: "count",
  },
  sort: "DESC",
  ties: "SHARED",
  ...breakdown,
});

const custom = (key: string) => ({
  key,
  name: key,
  metric: { source: "CUSTOM" },
  operator: "SUM",
  sort: "DESC",
  ties: "SHARED",
});

type Amounts = { amount: number; cards?: number };

const grant = (
  key: string,
  eventType: string,
  { amount, cards = 0 }: Amounts,
  conditions: object[] = [],
) => ({
  key,
  name: key,
  triggers: [{ kind: "EVENT", eventTypes: [eventType] }],
  conditions: { all: conditions },
  actions: [
    { type: "submit_score", leaderboardKey: "points", score: amount },
    ...(cards > 0 ? [{ type: "submit_score", leaderboardKey: "cards", score: cards }] : []),
    ...(amount > 0 ? [{ type: "grant_xp", amount }] : []),
  ],
});

export const is = (path: string, value: unknown) => ({ type: "event_property", path, op: "eq", value });

/**
 * Defines over REST: goals of all, men and women, and by tournament; XP; points, which cards take away too; and
 * cards.
 */
export const defineWorldcup = async (api: Client, key: string): Promise<void> => {
  const boards = [
    goals("goals"),
    goals("goals-men", { path: "competition", op: "eq", value: "men" }),
    goals("goals-women", { path: "competition", op: "eq", value: "women" }),
    { key: "xp", name: "XP", metric: { source: "XP" }, sort: "DESC", ties: "SHARED" },
    goals("goals-by-tournament", undefined, { breakdownProperty: "tournament" }),
    custom("points"),
    custom("cards"),
  ];
  for (const board of boards) must(await api.post("/api/v1/leaderboards", board, { key }), 201);
  const rules = [
    grant("goal", "goal_scored", { amount: 100 }, [is("penalty", false)]),
    grant("penalty-goal", "goal_scored", { amount: 75 }, [is("penalty", true)]),
    grant("shootout", "shootout_penalty", { amount: 25 }, [is("converted", true)]),
    grant("substitute", "substituted_on", { amount: 10 }),
    grant("squad", "squad_selected", { amount: 5 }),
    grant("award", "award_won", { amount: 200 }),
    grant("yellow", "yellow_card", { amount: -20, cards: 1 }),
    grant("red", "red_card", { amount: -60, cards: 3 }),
  ];
  for (const rule of rules) {
    const { id } = must(await api.post("/api/v1/rules", rule, { key }), 201);
    must(await api.post(`/api/v1/rules/${id}/publish`, {}, { key }), 200);
  }
};

/** A board's first places as the truth file writes them: everybody at rank `most` or better. */
export const topTwenty = async (
  api: Client,
  key: string,
  board: string,
  { most = 20, value }: { most?: number; value?: string } = {},
): Promise<Standing[]> => {
  const of = value === undefined ? "" : `&board=${value}`;
  const { data } = must(await api.get(`/api/v1/leaderboards/${board}/entries?limit=100${of}`, { key }), 200);
  return data
    .filter(({ rank }: { rank: number }) => rank <= most)
    .map((entry: { rank: number; externalUserId: string; score: number }) => ({
      rank: entry.rank,
      player: entry.externalUserId,
      value: entry.score,
    }));
};

/** In one order whatever the tie break, for comparison. */
export const sorted = (standings: readonly Standing[]): Standing[] =>
  standings
    .map(({ rank, player, value }) => ({ rank, player, value }))
    .toSorted((a, b) => a.rank - b.rank || (a.player < b.player ? -1 : 1));
