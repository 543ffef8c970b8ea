import { badgesAlong, type PlayerBadge } from "../economy/badges/player-badges.ts";
import { BOOST_PARTS, shownBoosts } from "../economy/boosts/operations.ts";
import type { BoostView } from "../kernel/events/events.ts";
import { shownAdventures } from "../economy/adventures/player-adventures.ts";
import type { PlayerAdventure } from "../evaluation/adventures/show.ts";
import { includedQuests, placesOf, turnOf } from "../economy/quests/player-quests.ts";
import type { PlayerQuest } from "../evaluation/quests/show.ts";
import { shownStreaks } from "../economy/streaks/player-streaks.ts";
import type { PlayerStreak } from "../economy/streaks/show.ts";
import { HOLDING_NAMES, type HoldingName } from "../evaluation/player-state.ts";
import { HOLDING_LIFE } from "./holdings.ts";
import { includedMetrics, type PlayerMetric } from "./metrics.ts";
import type { Work } from "../kernel/work.ts";
import { type Identity, identitiesAlong } from "../progression/players/identities.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import { loadFirst, partsFor } from "../progression/load-states.ts";
import { sharedCountersAlong } from "../progression/lock-shared-counters.ts";
import { doc } from "../progression/parts/doc.ts";
import type { Loadable } from "../progression/parts/part.ts";
import { segments } from "../progression/parts/segments.ts";
import { streaks } from "../progression/parts/streaks.ts";
import { atClock } from "../progression/plan.ts";
import { stateOfPlayer } from "../progression/players/show.ts";
import type { Player } from "../players/player.ts";

type Life = typeof HOLDING_LIFE;
type IncludedHolding = {
  [Name in HoldingName]: Life[Name]["isIncluded"] extends true ? Name : never;
}[HoldingName];
export type Include = IncludedHolding | "identities" | "metrics";

/** Data that can be included with a player, besides ranks. */
export const INCLUDES: readonly Include[] = [
  ...HOLDING_NAMES.filter((name): name is IncludedHolding => HOLDING_LIFE[name].isIncluded),
  "identities",
  "metrics",
];

export type Included = {
  /** Those held and those in progress, 100 of each at most. */
  badges?: PlayerBadge[];
  streaks?: PlayerStreak[];
  /** Keys. */
  segments?: string[];
  boosts?: BoostView[];
  /** Those of the project that are shown to the player, 100 at most. */
  quests?: PlayerQuest[];
  /** Those of the project that run, or that the player has joined. */
  adventures?: PlayerAdventure[];
  identities?: Identity[];
  /** The first 100. */
  metrics?: PlayerMetric[];
};

/** What is loaded of a player for each; quests and adventures need all that evaluation may touch. */
const PARTS: Readonly<Partial<Record<Include, readonly Loadable[]>>> = {
  streaks: [streaks],
  segments: [segments],
  boosts: BOOST_PARTS,
  metrics: [doc],
};

/** One player alone is always loaded. */
const NO_LIMITS = { bytesMax: 0, rowsMax: 0 };

/**
 * Reads the requested data of a player by one statement.
 * @param plan of the definitions as they were a moment ago
 */
export const showIncluded = async (
  work: Work,
  player: Player,
  { names, plan: of }: { names: readonly Include[]; plan: ProjectPlan },
): Promise<Included> => {
  if (names.length === 0) return {};
  const plan = atClock(of, work.now.getTime() - work.serverNow.getTime());
  const wants = new Set(names);
  const hasGoals = wants.has("quests") || wants.has("adventures");
  const places = sharedCountersAlong(hasGoals ? placesOf(plan) : []);
  const [badges, identities] = [badgesAlong(work, player), identitiesAlong(player)];
  const parts = new Set([
    ...(hasGoals ? [...partsFor([plan]), ...places.parts] : []),
    ...INCLUDES.flatMap((name) => (wants.has(name) ? (PARTS[name] ?? []) : [])),
    ...(wants.has("badges") ? badges.parts : []),
    ...(wants.has("identities") ? identities.parts : []),
  ]);
  const state = stateOfPlayer(player);
  // Clients choose among many sets, each of which is a statement of its own.
  const isRare = wants.size > 1 && wants.size < INCLUDES.length;
  await loadFirst(work, [state], [plan], { ...NO_LIMITS, parts: [...parts], isRare });
  const nowMs = work.now.getTime();
  const turn = (): PlanTurn => turnOf(state, plan, { nowMs, shared: places.read() });
  const readers: { [Name in Include]: () => Included[Name] | Promise<Included[Name]> } = {
    badges: badges.read,
    streaks: () => shownStreaks({ player: state, project: plan }, nowMs),
    segments: () => [...state.segments.keys()].toSorted(),
    boosts: () => shownBoosts(state, plan, nowMs),
    quests: () => includedQuests(turn()),
    adventures: () => shownAdventures(turn()),
    identities: identities.read,
    metrics: () => includedMetrics(state, plan, nowMs),
  };
  const included: Included = {};
  for (const name of names) Object.assign(included, { [name]: await readers[name]() });
  return included;
};
