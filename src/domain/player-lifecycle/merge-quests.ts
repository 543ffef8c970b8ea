import type { QuestState } from "../evaluation/player-state.ts";
import type { QuestRow, StoredState } from "../evaluation/quests/row.ts";
import type { Merging } from "./merge-holdings.ts";

const RANKS: Partial<Record<StoredState, number>> = { CLAIMED: 3, COMPLETED: 2, IN_PROGRESS: 1 };

/** Orders two rows by their cycle, then by how far they are. */
const further = (a: QuestRow, b: QuestRow): QuestRow => {
  if (a.cycleKey !== b.cycleKey) return b.startedMs > a.startedMs ? b : a;
  const [rankA, rankB] = [RANKS[a.state] ?? 0, RANKS[b.state] ?? 0];
  return rankB > rankA || (rankB === rankA && b.percent > a.percent) ? b : a;
};

const laterOf = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.max(a, b);

/** Of each cycle the row that is further; of these the latest, and earlier ones whose rewards wait. */
const joined = (mine: QuestState, theirs: QuestState): QuestState => {
  const byCycle = new Map<string, QuestRow>();
  for (const row of [mine.latest, ...mine.older, theirs.latest, ...theirs.older]) {
    const known = byCycle.get(row.cycleKey);
    byCycle.set(row.cycleKey, known ? further(known, row) : row);
  }
  const latest = [...byCycle.values()].reduce(further);
  const older = [...byCycle.values()].filter((row) => row !== latest);
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
