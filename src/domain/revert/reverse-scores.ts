import type { Board } from "../evaluation/boards/board.ts";
import type { List } from "../evaluation/boards/list.ts";
import { entryAt, openList } from "../evaluation/boards/lists.ts";
import { RANK_MAX, toRankScore, toUs } from "../evaluation/boards/scoring.ts";
import type { PastEvent } from "../evaluation/metrics/count.ts";
import type { EntryState } from "../evaluation/player-state.ts";
import type { PlanTurn } from "../evaluation/project-plan.ts";
import type { Turn } from "../evaluation/turn.ts";
import type { Pieces } from "../kernel/pace.ts";
import type { OtherScores, Reversal } from "./record.ts";

/** When boards began, in ms, by id: earlier events are not counted in them. */
export type BoardStarts = ReadonlyMap<string, number>;

export type ScoreContext = {
  starts: BoardStarts;
  receivedMs: number;
  /** By list; for boards whose entry comes from a single event. */
  others: ReadonlyMap<string, OtherScores>;
  reversal: Reversal;
};

const clamp = (value: number): number => Math.max(-RANK_MAX, Math.min(RANK_MAX, value));

/** Whether the entry may come from this very event. */
export const isFrom = (
  board: Board,
  entry: EntryState,
  { rankScore, at }: { rankScore: number; at: number },
) => (board.operator === "LATEST" ? entry.latestUs === toUs(at) : entry.rankScore === rankScore);

/** Removes events from the boards that count them, in pieces. */
export function* reverseScores(
  turn: PlanTurn,
  events: readonly PastEvent[],
  context: ScoreContext,
): Pieces<void> {
  const { starts, receivedMs, reversal } = context;
  for (const { type, at, properties } of events) {
    const event = { id: turn.event.id, type, at, properties, depth: 0 };
    for (const { board, scoreOf, steps } of turn.project.boardIndex.forEvent(type)) {
      yield steps;
      const score = scoreOf({ event, root: turn.root });
      const list = openList(board, turn.player, at);
      const entry = entryAt(board, turn.player, at);
      if (score === undefined || !entry) continue;
      if (typeof list === "string") reversal.left.add(`leaderboard ${board.key}: its period is closed`);
      // It is not stored whether a board was filled with earlier events.
      else if (receivedMs < (starts.get(board.id) ?? -Infinity))
        reversal.left.add(`leaderboard ${board.key}`);
      else reverseScore(turn, list, { entry, rankScore: toRankScore(board, score), at, context });
    }
  }
}

type Scored = { entry: EntryState; rankScore: number; at: number; context: ScoreContext };

const reverseScore = (turn: Turn, list: List, { entry, rankScore, at, context }: Scored): void => {
  const { board, id } = list;
  const { others, reversal } = context;
  if (board.operator === "SUM") {
    setEntry(turn, id, { ...entry, rankScore: clamp(entry.rankScore - rankScore) });
    reversal.scores.add(board.key);
    return;
  }
  if (!isFrom(board, entry, { rankScore, at })) return;
  const other = others.get(id);
  if (!other) {
    reversal.left.add(`leaderboard ${board.key}`);
    return;
  }
  setEntry(turn, id, { ...entry, ...other });
  reversal.scores.add(board.key);
};

const setEntry = ({ player }: Turn, listId: string, entry: EntryState): void => {
  player.entries.set(listId, { ...entry, version: entry.version + 1 });
  player.dirty.entries.add(listId);
};
