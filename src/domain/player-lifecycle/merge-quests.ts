import type { QuestState } from "../evaluation/player-state.ts";
import type { QuestRow, StoredState } from "../evaluation/quests/row.ts";
import { withdrawDropped } from "../evaluation/quests/store.ts";
import type { Merging } from "./merge-holdings.ts";

const RANKS: Partial<Record<StoredState, number>> = { CLAIMED: 3, COMPLETED: 2, IN_PROGRESS: 1 };

/** How far a row is: by its state, its percent, and what waits for a review. */
const standOf = ({ state, percent, steps }: QuestRow): readonly number[] => [
  RANKS[state] ?? 0,
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
const joined = (mine: QuestState, theirs: QuestState): QuestState => {
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
export const mergeQuests = ({ target, source }: Merging): void => {
  for (const [key, theirs] of source.player.quests) {
    const mine = target.player.quests.get(key);
    const all = { latest: { ...theirs.latest, isChanged: true as const }, older: theirs.older };
    const state = mine ? joined(mine, theirs) : { ...all, older: theirs.older.map(asChanged) };
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
