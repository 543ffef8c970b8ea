import { removedVersion } from "./leave.ts";
import type { EntryState, PlayerState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import type { Board } from "./board.ts";
import type { List, Moment, NoList } from "./list.ts";
import { breakdownNameOf, isPlain, openList, markList } from "./lists.ts";
import { fromRankScore, nextEntry, type Operation } from "./scoring.ts";
import { isInAudience } from "../segments/audience.ts";

/** Why a score did not count; part of API responses. */
export type RefusalReason =
  | "LEADERBOARD_CLOSED"
  | "LEADERBOARD_DERIVED"
  | "NOT_ELIGIBLE"
  | "LIMIT_REACHED"
  | "SCORE_OUT_OF_BOUNDS"
  | "INSUFFICIENT_FUNDS";
export type Refusal = { reason: RefusalReason; message: string };

/**
 * `accepted`: the value took part (false: it was refused, or a newer value stands). `improved`: the player is
 * better off by the board's sort, or new. `score` is the resulting score, `previous` the one before; null
 * without an entry. `listId`: the list of the entry.
 */
export type Scored = {
  accepted: boolean;
  improved: boolean;
  score: number | null;
  previous: number | null;
  listId?: string;
  refusal?: Refusal;
  /** The score waits for a review. */
  held?: { reviewId: string; violation: string };
};

/** The target list of a value, and the player's entry there. */
export type ScoreTarget = { list: List; old: EntryState | undefined };

const NO_LIST: Record<NoList, (board: Board) => Refusal> = {
  LATE: ({ key }) => ({
    reason: "LEADERBOARD_CLOSED",
    message: `late: the period of leaderboard ${key} is closed`,
  }),
  OUTSIDE: ({ key }) => ({
    reason: "LEADERBOARD_CLOSED",
    message: `leaderboard ${key} has no period at that time`,
  }),
  NO_VALUE: (board) => ({
    reason: "NOT_ELIGIBLE",
    message: `leaderboard ${board.key} needs a value of ${breakdownNameOf(board)}`,
  }),
  FULL: (board) => ({
    reason: "LIMIT_REACHED",
    message: `leaderboard ${board.key} has as many values of ${breakdownNameOf(board)} as it may have`,
  }),
};

/** Returns the target list of a score of a moment, or the reason why there is none. */
export const targetAt = ({ player }: Turn, board: Board, moment: Moment): ScoreTarget | Refusal => {
  const list = openList(board, player, moment);
  return typeof list === "string" ? NO_LIST[list](board) : { list, old: player.entries.get(list.id) };
};

export const isRefusal = (target: ScoreTarget | Refusal): target is Refusal => "reason" in target;

/** Returns why a player may not enter; the audience is checked on entry only, and existing entries stay. */
export const entryRefusal = (
  { player }: Turn,
  board: Board,
  { old }: Pick<ScoreTarget, "old">,
): Refusal | undefined => {
  const refuse = (message: string): Refusal => ({ reason: "NOT_ELIGIBLE", message });
  if (player.doc.b?.includes(board.id)) return refuse(`the player is banned from leaderboard ${board.key}`);
  if (old || isInAudience(board.audience, player.segments)) return undefined;
  return refuse(`the player is not in the audience of leaderboard ${board.key}`);
};

/** Returns whether a first value is good enough to enter with. */
export const isEnough = ({ minRankScore }: Board, rankScore: number): boolean =>
  minRankScore === undefined || rankScore <= minRankScore;

type More = Pick<EntryState, "submissions" | "recorded" | "meta">;
type Recording = Operation & {
  target: ScoreTarget;
  /** Stored on the entry together with the score. */
  more?: More;
};

/** Records a value in a list. */
export const recordIn = (turn: Turn, board: Board, recording: Recording): Scored => {
  const { target, more = {}, ...operation } = recording;
  const { list, old } = target;
  const next = nextEntry(board, old, operation);
  if (!next || (!old && !isEnough(board, next.rankScore))) {
    // A score that is older than the latest one is counted, since it may be the next one after a revert.
    if (old && more.recorded !== old.recorded) setEntry(turn.player, list, withRecorded(old, more.recorded));
    return standing(board, { listId: list.id, old });
  }
  const entry = withMore(old ? next : comingBack(turn.player, list, next), old, more);
  if (entry !== old) setEntry(turn.player, list, entry);
  return {
    ...standing(board, { listId: list.id, old, entry }),
    accepted: true,
    improved: !old || entry.rankScore < old.rankScore,
  };
};

/** An entry that is added again continues from its previous version, which the rank index remembers. */
const comingBack = ({ doc }: PlayerState, { id }: List, entry: EntryState): EntryState => {
  const before = removedVersion(doc, id);
  return before === undefined ? entry : { ...entry, version: before + 1 };
};

const setEntry = (player: PlayerState, list: List, entry: EntryState): void => {
  if (!isPlain(list.board)) markList(player, list);
  player.entries.set(list.id, entry);
  player.dirty.entries.add(list.id);
};

/** Data of a score is kept when that score stands; submissions are counted in any case. */
const withMore = (
  next: EntryState,
  old: EntryState | undefined,
  { submissions, recorded, meta }: More,
): EntryState => {
  const counted = submissions === undefined ? {} : { submissions };
  if (next !== old)
    return withRecorded({ ...next, ...counted, ...(meta === undefined ? {} : { meta }) }, recorded);
  if (submissions === undefined && recorded === next.recorded) return next;
  return withRecorded({ ...next, ...counted }, recorded);
};

const withRecorded = (
  { recorded: _before, ...entry }: EntryState,
  recorded: number | undefined,
): EntryState => (recorded === undefined ? entry : { ...entry, recorded });

type Standing = { listId?: string; old: EntryState | undefined; entry?: EntryState | undefined };

const standing = (board: Board, { listId, old, entry = old }: Standing): Scored => ({
  accepted: false,
  improved: false,
  score: entry ? fromRankScore(board, entry.rankScore) : null,
  previous: old ? fromRankScore(board, old.rankScore) : null,
  ...(listId === undefined ? {} : { listId }),
});

/** Builds the result of a refused score. */
export const unchanged = (board: Board, { refusal, target }: Unchanged): Scored => ({
  ...standing(board, target ? { listId: target.list.id, old: target.old } : { old: undefined }),
  refusal,
});

type Unchanged = { refusal: Refusal; target?: ScoreTarget };

/** Records a value of a moment in its list; without a warning if the player may not enter. */
export const record = (turn: Turn, board: Board, operation: Operation & { moment: Moment }): Scored => {
  const { moment, ...given } = operation;
  const target = targetAt(turn, board, moment);
  if (isRefusal(target)) {
    if (target.reason !== "NOT_ELIGIBLE") turn.warn(target.message);
    return unchanged(board, { refusal: target });
  }
  const refusal = entryRefusal(turn, board, target);
  if (refusal) return unchanged(board, { refusal, target });
  return recordIn(turn, board, { ...given, target });
};
