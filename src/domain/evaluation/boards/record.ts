import type { EntryState, PlayerState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import type { Board } from "./board.ts";
import type { List, NoList } from "./list.ts";
import { isPlain, openList, touchList } from "./lists.ts";
import { fromRankScore, nextEntry, type Operation } from "./scoring.ts";

/** Why a score did not count; what callers of the API are told as the reason. */
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
 * better off by the board's sort, or new. `score` is what stands now, `previous` what stood; null without an
 * entry. `listId`: the list in which it stands.
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

/** A value on its way to a list, and where the player stands there. */
export type Place = { list: List; old: EntryState | undefined };

const NO_LIST: Record<NoList, (board: Board) => Refusal> = {
  LATE: ({ key }) => ({
    reason: "LEADERBOARD_CLOSED",
    message: `late: the period of leaderboard ${key} is closed`,
  }),
  OUTSIDE: ({ key }) => ({
    reason: "LEADERBOARD_CLOSED",
    message: `leaderboard ${key} has no period at that time`,
  }),
  NO_VALUE: ({ key, breakdownAttribute }) => ({
    reason: "NOT_ELIGIBLE",
    message: `leaderboard ${key} needs the player's ${breakdownAttribute}`,
  }),
  FULL: ({ key, breakdownAttribute }) => ({
    reason: "LIMIT_REACHED",
    message: `leaderboard ${key} has as many values of ${breakdownAttribute} as it may have`,
  }),
};

/** Where a score of a time goes, or why it goes nowhere. */
export const placeAt = ({ player }: Turn, board: Board, atMs: number): Place | Refusal => {
  const list = openList(board, player, atMs);
  return typeof list === "string" ? NO_LIST[list](board) : { list, old: player.entries.get(list.id) };
};

export const isRefusal = (place: Place | Refusal): place is Refusal => "reason" in place;

/** Whether a board is for a player who is in these segments. */
export const isInAudience = (
  { audience }: Pick<Board, "audience">,
  segments: { has(key: string): boolean },
): boolean => {
  if (!audience) return true;
  const { segmentKeys, match } = audience;
  const isIn = (key: string): boolean => segments.has(key);
  if (match === "ALL") return segmentKeys.every(isIn);
  return segmentKeys.some(isIn) === (match === "ANY");
};

/** Why a player does not enter; the audience is asked on entry, and whoever is there stays. */
export const entryRefusal = (
  { player }: Turn,
  board: Board,
  { old }: Pick<Place, "old">,
): Refusal | undefined => {
  const refuse = (message: string): Refusal => ({ reason: "NOT_ELIGIBLE", message });
  if (player.doc.b?.includes(board.id)) return refuse(`the player is banned from leaderboard ${board.key}`);
  if (old || isInAudience(board, player.segments)) return undefined;
  return refuse(`the player is not in the audience of leaderboard ${board.key}`);
};

/** Whether a first value is good enough to enter with. */
export const isEnough = ({ minRankScore }: Board, rankScore: number): boolean =>
  minRankScore === undefined || rankScore <= minRankScore;

type Recording = Operation & {
  place: Place;
  /** Put on the entry together with the score. */
  more?: Pick<EntryState, "submissions" | "meta">;
};

/** Puts a value into a list. */
export const recordIn = (turn: Turn, board: Board, recording: Recording): Scored => {
  const { place, more = {}, ...operation } = recording;
  const { list, old } = place;
  const next = nextEntry(board, old, operation);
  if (!next || (!old && !isEnough(board, next.rankScore))) return standing(board, { listId: list.id, old });
  const entry = withMore(old ? next : comingBack(turn.player, list, next), old, more);
  if (entry !== old) setEntry(turn.player, list, entry);
  return {
    ...standing(board, { listId: list.id, old, entry }),
    accepted: true,
    improved: !old || entry.rankScore < old.rankScore,
  };
};

/** Whoever was removed goes on from the version of before, which the rank index remembers. */
const comingBack = ({ doc }: PlayerState, { id }: List, entry: EntryState): EntryState => {
  const before = doc.z?.[id];
  return before === undefined ? entry : { ...entry, version: before + 1 };
};

const setEntry = (player: PlayerState, list: List, entry: EntryState): void => {
  if (!isPlain(list.board)) touchList(player, list);
  player.entries.set(list.id, entry);
  player.dirty.entries.add(list.id);
};

/** What goes with a score is kept when that score stands; submissions are counted in any case. */
const withMore = (
  next: EntryState,
  old: EntryState | undefined,
  { submissions, meta }: Pick<EntryState, "submissions" | "meta">,
): EntryState => {
  const counted = submissions === undefined ? {} : { submissions };
  if (next !== old) return { ...next, ...counted, ...(meta === undefined ? {} : { meta }) };
  return submissions === undefined ? next : { ...next, ...counted };
};

type Standing = { listId?: string; old: EntryState | undefined; entry?: EntryState | undefined };

const standing = (board: Board, { listId, old, entry = old }: Standing): Scored => ({
  accepted: false,
  improved: false,
  score: entry ? fromRankScore(board, entry.rankScore) : null,
  previous: old ? fromRankScore(board, old.rankScore) : null,
  ...(listId === undefined ? {} : { listId }),
});

/** What stands where a score was refused. */
export const unchanged = (board: Board, { refusal, place }: Unchanged): Scored => ({
  ...standing(board, place ? { listId: place.list.id, old: place.old } : { old: undefined }),
  refusal,
});

type Unchanged = { refusal: Refusal; place?: Place };

/** Records a value of a time where it belongs; without a word where it is the player who may not enter. */
export const record = (turn: Turn, board: Board, operation: Operation & { atMs: number }): Scored => {
  const { atMs, ...given } = operation;
  const place = placeAt(turn, board, atMs);
  if (isRefusal(place)) {
    if (place.reason !== "NOT_ELIGIBLE") turn.warn(place.message);
    return unchanged(board, { refusal: place });
  }
  const refusal = entryRefusal(turn, board, place);
  if (refusal) return unchanged(board, { refusal, place });
  return recordIn(turn, board, { ...given, place });
};
