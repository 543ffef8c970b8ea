import type { Board } from "../evaluation/boards/board.ts";
import type { List } from "../evaluation/boards/list.ts";
import { leaveList } from "../evaluation/boards/leave.ts";
import { entryAt, findList, openList } from "../evaluation/boards/lists.ts";
import { RANK_MAX, toRankScore, toUs } from "../evaluation/boards/scoring.ts";
import type { PastEvent } from "../evaluation/metrics/count.ts";
import type { EntryState } from "../evaluation/player-state.ts";
import type { PlanTurn } from "../evaluation/project-plan.ts";
import type { Turn } from "../evaluation/turn.ts";
import type { Pieces } from "../kernel/pace.ts";
import type { OtherScores, PlayerRecord, Reversal } from "./record.ts";

/** When boards began, in ms, by id: earlier events are not counted in them. */
export type BoardStarts = ReadonlyMap<string, number>;

export type ScoreContext = {
  starts: BoardStarts;
  receivedMs: number;
  /** By list; for boards whose entry comes from a single event. */
  others: ReadonlyMap<string, OtherScores>;
  reversal: Reversal;
};

/** Limits a score to what boards keep. */
export const clamp = (value: number): number => Math.max(-RANK_MAX, Math.min(RANK_MAX, value));

/** Whether a board counts events, so that nobody on it has 0. */
export const countsEvents = ({ metric }: Board): boolean =>
  metric.source === "EVENT" && metric.aggregate === "count";

/** Whether the entry may come from this very event alone. */
export const isFrom = (
  board: Board,
  entry: EntryState,
  { rankScore, at }: { rankScore: number; at: number },
): boolean => (board.operator === "LATEST" ? entry.latestUs === toUs(at) : entry.rankScore === rankScore);

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
      const list = openList(board, turn.player, event);
      const entry = entryAt(board, turn.player, event);
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
  const isSum = board.operator === "SUM";
  const rest = clamp(entry.rankScore - rankScore);
  const other = others.get(id);
  if (isSum && rest !== 0) setEntry(turn, id, { ...entry, rankScore: rest });
  else if (isSum && countsEvents(board)) leaveList(turn.player, id);
  else if (!isFrom(board, entry, { rankScore, at })) return;
  else if (other === null) leaveList(turn.player, id);
  else if (isSum) {
    setEntry(turn, id, { ...entry, rankScore: 0 });
    if (!other) reversal.left.add(`leaderboard ${board.key}: a place with 0`);
  } else if (other) setEntry(turn, id, { ...entry, ...other });
  else {
    reversal.left.add(`leaderboard ${board.key}`);
    return;
  }
  reversal.scores.add(board.key);
};

const setEntry = ({ player }: Turn, listId: string, entry: EntryState): void => {
  player.entries.set(listId, { ...entry, version: entry.version + 1 });
  player.dirty.entries.add(listId);
};

/**
 * Removes the player from boards of XP and of gains on which the reversal has left nothing, since nothing
 * else has scored there.
 * @param before the player's entries before the reversal
 */
export const leaveEmptied = (
  turn: PlanTurn,
  before: ReadonlyMap<string, EntryState>,
  { hasOtherXp, lost }: Pick<PlayerRecord, "hasOtherXp" | "lost">,
): void => {
  const { player, project, event, nowMs } = turn;
  const { xp, gains } = project.boardIndex;
  const emptied = [
    ...[event.at, ...lost.map(({ atMs }) => atMs)].flatMap((at) =>
      gains.map(({ board }) => findList(board, player, { at })),
    ),
    ...(hasOtherXp ? [] : xp.map((board) => findList(board, player, { at: nowMs }))),
  ];
  for (const list of emptied) {
    if (typeof list === "string") continue;
    const entry = player.entries.get(list.id);
    if (entry?.rankScore === 0 && entry !== before.get(list.id)) leaveList(player, list.id);
  }
};
