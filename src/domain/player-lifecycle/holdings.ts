import type {
  AdventureRow,
  ItemDone,
  StoredAdventureState,
  TierReached,
} from "../evaluation/adventures/row.ts";
import type { HoldingName, QuestState } from "../evaluation/player-state.ts";
import type { QuestRow, StoredState } from "../evaluation/quests/row.ts";
import { withdrawDropped } from "../evaluation/quests/store.ts";
import type { Steps } from "../kernel/slices.ts";
import { mergeBadges, mergeCurrencies, type Merging } from "./merge-holdings.ts";
import { mergeBoosts, mergeEntries, mergeSegments, mergeStreaks } from "./merge-progress.ts";
import { inLists, ofPlayer, type PersonalTable } from "./personal-table.ts";

const RANKS: Readonly<Record<StoredAdventureState, number>> = {
  CLAIMED: 4,
  COMPLETED: 3,
  IN_PROGRESS: 2,
  EXPIRED: 1,
  WAITING: 0,
};

const earlier = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b);

const earliest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);

/** Joins two records; `both` joins the values of names that are in both. */
const joinedBy = <V>(
  mine: Readonly<Record<string, V>>,
  theirs: Readonly<Record<string, V>>,
  both: (a: V, b: V) => V,
): Record<string, V> => {
  const all: Record<string, V> = { ...mine };
  for (const [name, value] of Object.entries(theirs))
    all[name] = mine[name] === undefined ? value : both(mine[name], value);
  return all;
};

const furtherItem = (a: ItemDone, b: ItemDone): ItemDone => {
  const more = b.times > a.times ? b : a;
  return { ...more, doneMs: Math.min(a.doneMs, b.doneMs) };
};

/** Who got the rewards of a tier as either of them does not get them again. */
const joinedTier = (a: TierReached, b: TierReached): TierReached => {
  const freeMs = earliest(a.freeMs, b.freeMs);
  const premiumMs = earliest(a.premiumMs, b.premiumMs);
  return {
    reachedMs: Math.min(a.reachedMs, b.reachedMs),
    ...(freeMs === undefined ? {} : { freeMs }),
    ...(premiumMs === undefined ? {} : { premiumMs }),
  };
};

const joined = (mine: AdventureRow, theirs: AdventureRow): AdventureRow => {
  const row = joinedFields(mine, theirs);
  // One of both has completed it, and it is too late to claim that.
  return row.state === "IN_PROGRESS" && row.completedMs !== null ? { ...row, state: "EXPIRED" } : row;
};

const joinedFields = (mine: AdventureRow, theirs: AdventureRow): AdventureRow => ({
  ...(RANKS[theirs.state] > RANKS[mine.state] ? theirs : mine),
  points: Math.max(mine.points, theirs.points),
  startedMs: earlier(mine.startedMs, theirs.startedMs),
  completedMs: earlier(mine.completedMs, theirs.completedMs),
  claimedMs: earlier(mine.claimedMs, theirs.claimedMs),
  premiumMs: earlier(mine.premiumMs, theirs.premiumMs),
  dueMs: earlier(mine.dueMs, theirs.dueMs),
  items: joinedBy(mine.items, theirs.items, furtherItem),
  unlocked: [...new Set([...mine.unlocked, ...theirs.unlocked])],
  tiers: joinedBy(mine.tiers, theirs.tiers, joinedTier),
});

/**
 * Merges the adventures of both: the state that is further, the greater number of points, and what either has
 * done, reached or claimed. Nothing is granted.
 */
const mergeAdventures = ({ target, source }: Merging): void => {
  for (const [key, theirs] of source.player.adventures) {
    const mine = target.player.adventures.get(key);
    const row = mine ? joined(mine, theirs) : theirs;
    target.player.adventures.set(key, { ...row, isChanged: true });
    target.player.dirty.adventures.add(key);
  }
};

const QUEST_RANKS: Partial<Record<StoredState, number>> = { CLAIMED: 3, COMPLETED: 2, IN_PROGRESS: 1 };

/** How far a row is: by its state, its percent, and what waits for a review. */
const standOf = ({ state, percent, steps }: QuestRow): readonly number[] => [
  QUEST_RANKS[state] ?? 0,
  percent,
  Object.values(steps).reduce((sum, { pending = [] }) => sum + pending.length, 0),
];

/** Orders two rows by their cycle, then by how far they are. */
const further = (a: QuestRow, b: QuestRow): QuestRow => {
  if (a.cycleKey !== b.cycleKey) return b.startedMs > a.startedMs ? b : a;
  const [mine, theirs] = [standOf(a), standOf(b)];
  const place = mine.findIndex((value, i) => value !== theirs[i]);
  return place !== -1 && theirs[place]! > mine[place]! ? b : a;
};

const laterOf = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.max(a, b);

const rowsOf = ({ latest, older }: QuestState): QuestRow[] => [latest, ...older];

/** Of each cycle the row that is further; the latest of them is the last. */
const byCycle = (rows: readonly QuestRow[]): QuestRow[] => {
  const furthest = new Map<string, QuestRow>();
  for (const row of rows) {
    const known = furthest.get(row.cycleKey);
    furthest.set(row.cycleKey, known ? further(known, row) : row);
  }
  const found = [...furthest.values()];
  const latest = found.reduce(further);
  return [...found.filter((row) => row !== latest), latest];
};

/** Whether it is a cycle of a quest that repeats UNLIMITED: these are numbered, for each player apart. */
const isNumbered = ({ cycleKey }: QuestRow): boolean => /^\d+$/.test(cycleKey);

/**
 * Gives numbered cycles of two players numbers of one: equal ones are not the same cycle. Each place of the
 * target's is taken, others follow the highest number, and the last one, which the next start goes on from,
 * has the highest of all: the cycle in progress, or else the one that began last.
 */
const renumbered = (mine: readonly QuestRow[], theirs: readonly QuestRow[]): QuestRow[] => {
  const number = ({ cycleKey }: QuestRow): number => Number(cycleKey);
  const highest = Math.max(...[...mine, ...theirs].map(number));
  const numbers = [...mine.map(number).toSorted((a, b) => a - b), ...theirs.map((_, n) => highest + 1 + n)];
  const isOpen = ({ state }: QuestRow): number => Number(state === "IN_PROGRESS");
  return [...mine, ...theirs]
    .toSorted((a, b) => isOpen(a) - isOpen(b) || a.startedMs - b.startedMs)
    .map((row, n) => ({ ...row, cycleKey: String(numbers[n]) }));
};

/** An earlier cycle in progress ends: nothing would ever settle it. What waits for a review is withdrawn. */
const ended = (row: QuestRow): QuestRow => {
  if (row.state !== "IN_PROGRESS") return row;
  const steps = Object.entries(row.steps).map(
    ([key, { pending: _pending, ...step }]) => [key, step] as const,
  );
  return { ...row, state: "EXPIRED", steps: Object.fromEntries(steps) };
};

/** The rows of both players: the latest, and earlier ones whose rewards wait. */
const joinedQuest = (mine: QuestState, theirs: QuestState): QuestState => {
  const [own, others] = [rowsOf(mine), rowsOf(theirs)];
  const areNumbered = [...own, ...others].every(isNumbered);
  const rows = areNumbered ? renumbered(own, others) : byCycle([...own, ...others]);
  const latest = rows.at(-1)!;
  const older = rows.slice(0, -1).map(ended);
  const completions = Math.max(mine.latest.completions, theirs.latest.completions);
  const lastCompletedMs = laterOf(mine.latest.lastCompletedMs, theirs.latest.lastCompletedMs);
  return {
    latest: { ...latest, completions, lastCompletedMs, isChanged: true },
    older: older.map((row) => ({ ...row, isChanged: true as const })),
  };
};

/**
 * Merges the quests of both, of each cycle the one that is further, with what its steps have counted. Nothing
 * is granted: each has its rewards already, or waits to be claimed.
 */
const mergeQuests = ({ target, source }: Merging): void => {
  for (const [key, theirs] of source.player.quests) {
    const mine = target.player.quests.get(key);
    const all = { latest: { ...theirs.latest, isChanged: true as const }, older: theirs.older };
    const state = mine ? joinedQuest(mine, theirs) : { ...all, older: theirs.older.map(asChanged) };
    withdrawDropped(target, mine, state);
    withdrawDropped(source, theirs, state);
    target.player.quests.set(key, state);
    target.player.dirty.quests.add(key);
    moveCounts({ target, source }, state, mine);
  }
};

const asChanged = (row: QuestRow): QuestRow => ({ ...row, isChanged: true });

const moveCounts = (
  { target, source }: Pick<Merging, "target" | "source">,
  { latest }: QuestState,
  mine: QuestState | undefined,
): void => {
  if (mine && mine.latest.id !== latest.id && target.player.doc.q) delete target.player.doc.q[mine.latest.id];
  const counts = source.player.doc.q?.[latest.id];
  if (counts) (target.player.doc.q ??= {})[latest.id] = counts;
  target.player.dirty.doc = true;
};

/** Handling of a kind of holdings when players are merged, shown, exported and erased. */
export type HoldingLife = {
  /** How the source's holdings are merged; null: with another kind. */
  merge: ((merging: Merging) => Steps<void>) | null;
  /** The table that stores it. */
  table: PersonalTable;
  /** Whether the source's rows are deleted after the merge. */
  isLeftBehind: boolean;
  /** Whether it can be included when a player is read. */
  isIncluded: boolean;
};

/** Merges holdings at once. */
const byRow = (merge: (merging: Merging) => void) =>
  function* (merging: Merging): Steps<void> {
    yield;
    merge(merging);
  };

/** By kind, in the order in which they are merged. */
export const HOLDING_LIFE = {
  badges: {
    merge: mergeBadges,
    table: ofPlayer("player_badges", "badge_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
  streaks: {
    merge: mergeStreaks,
    table: ofPlayer("player_streaks", "streak_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
  boosts: {
    merge: byRow(mergeBoosts),
    table: ofPlayer("player_boosts", "id"),
    isLeftBehind: true,
    isIncluded: true,
  },
  entries: {
    merge: byRow(mergeEntries),
    table: { table: "leaderboard_entries", orderBy: "period_id", onErase: "DELETED", isOf: inLists },
    // Those of open lists are deleted, and others move along; see merge-holdings.ts.
    isLeftBehind: false,
    // Ranks are not in the database.
    isIncluded: false,
  },
  balances: {
    merge: mergeCurrencies,
    table: ofPlayer("player_balances", "currency_key", "KEPT"),
    isLeftBehind: true,
    // Always included.
    isIncluded: false,
  },
  lots: { merge: null, table: ofPlayer("currency_lots", "id"), isLeftBehind: true, isIncluded: false },
  segments: {
    merge: byRow(mergeSegments),
    table: ofPlayer("player_segments", "segment_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
  quests: {
    merge: byRow(mergeQuests),
    table: ofPlayer("player_quests", "quest_key, cycle_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
  adventures: {
    merge: byRow(mergeAdventures),
    table: ofPlayer("player_adventures", "adventure_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
} as const satisfies Record<HoldingName, HoldingLife>;
