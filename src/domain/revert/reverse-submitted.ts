import { leaveList } from "../evaluation/boards/leave.ts";
import type { EntryState } from "../evaluation/player-state.ts";
import type { Turn } from "../evaluation/turn.ts";
import { withoutParts } from "./read-submitted.ts";
import type { Reversal, SubmittedScores } from "./record.ts";
import { isFrom } from "./reverse-scores.ts";

/** Takes scores back that rules have submitted for the event. */
export const reverseSubmitted = (
  turn: Turn,
  submitted: readonly SubmittedScores[],
  reversal: Reversal,
): void => {
  for (const one of submitted) {
    const { listId, board } = one;
    const entry = turn.player.entries.get(listId);
    const status = turn.player.lists.get(listId)?.status ?? "OPEN";
    if (!board) reversal.left.add("a score submitted to a leaderboard that is not active");
    else if (status !== "OPEN") reversal.left.add(`leaderboard ${board.key}: its period is closed`);
    else if (entry) takeBack(turn, { ...one, board, entry }, reversal);
  }
};

type Standing = SubmittedScores & { board: NonNullable<SubmittedScores["board"]>; entry: EntryState };

const takeBack = (turn: Turn, standing: Standing, reversal: Reversal): void => {
  const { player } = turn;
  const { listId, board, other } = standing;
  const next = isLast(standing) ? null : nextOf(standing);
  if (next === undefined) reversal.left.add(`leaderboard ${board.key}: other scores than the one reverted`);
  else reversal.scores.add(board.key);
  if (next === null) return leaveList(player, listId);
  const entry = withoutCounts(next ?? standing.entry, standing);
  if (next?.rankScore === 0 && other === undefined && isAdding(standing))
    reversal.left.add(`leaderboard ${board.key}: a place with 0`);
  player.entries.set(listId, { ...entry, version: entry.version + 1 });
  player.dirty.entries.add(listId);
};

const isAdding = ({ board: { operator } }: Standing): boolean => operator === "SUM" || operator === "DECR";

/** Whether nothing has scored besides; on boards that add up, once all reverted events are taken back. */
const isLast = (standing: Standing): boolean =>
  standing.other === null && (!isAdding(standing) || standing.entry.recorded === standing.scores.length);

/** Returns the entry without the scores; undefined where it is one of them, and the others are not known. */
const nextOf = (standing: Standing): EntryState | undefined => {
  const { board, entry, scores, other } = standing;
  if (isAdding(standing)) return { ...entry, rankScore: withoutParts(board, entry.rankScore, scores) };
  if (other) return { ...entry, ...other };
  const stands = scores.some(([, rankScore, atUs]) => isFrom(board, entry, { rankScore, at: atUs / 1_000 }));
  return stands ? undefined : entry;
};

const withoutCounts = (entry: EntryState, { scores }: Standing): EntryState => {
  const { recorded, submissions } = entry;
  return {
    ...entry,
    ...(recorded === undefined ? {} : { recorded: Math.max(0, recorded - scores.length) }),
    ...(submissions === undefined ? {} : { submissions: Math.max(0, submissions - scores.length) }),
  };
};
