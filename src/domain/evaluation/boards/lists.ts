import type { EntryState, PlayerState } from "../player-state.ts";
import { compilePath } from "../language/paths.ts";
import type { Pieces } from "../../kernel/pace.ts";
import type { Board } from "./board.ts";
import { periodIdOf } from "./period-ids.ts";
import type { List, NoList } from "./list.ts";
import { type Window, windowAt } from "./windows.ts";

/** Values of a breakdown that one window may have, each with a ranking of its own. */
export const BREAKDOWN_VALUES_MAX = 1_000;
/** Longest value of a breakdown, in characters. */
export const BREAKDOWN_VALUE_MAX = 64;
/** Ids that are remembered of a board; they are hashes. */
const IDS_REMEMBERED_MAX = 2_000;

/** Boards of one window and one ranking, whose id is the board's own: they cost nothing to find. */
export const isPlain = ({ period, breakdownAttribute }: Board): boolean =>
  period.kind === "ALL_TIME" && breakdownAttribute === undefined;

const idsOf = new WeakMap<Board, Map<string, string>>();

/** The list of a window and a value. */
export const listOf = (board: Board, window: Window, value: string): List => {
  if (isPlain(board)) return { id: board.periodId, board, window, value };
  let ids = idsOf.get(board);
  if (!ids || ids.size >= IDS_REMEMBERED_MAX) idsOf.set(board, (ids = new Map()));
  const name = `${window.key}\0${value}`;
  let id = ids.get(name);
  if (id === undefined) ids.set(name, (id = periodIdOf(board, window.key, value)));
  return { id, board, window, value };
};

type Attributed = Pick<PlayerState, "attributes" | "firstAttributes">;

/**
 * The player's value of a board's breakdown, as it stood when the player was taken in hand; "" for a board
 * without one, undefined for a player without a value that can be one.
 */
export const breakdownOf = (
  { breakdownAttribute }: Pick<Board, "breakdownAttribute">,
  { attributes, firstAttributes = attributes }: Attributed,
): string | undefined => {
  if (breakdownAttribute === undefined) return "";
  const value = compilePath(breakdownAttribute)(firstAttributes);
  const isText = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  const text = isText ? String(value) : "";
  return text === "" || text.length > BREAKDOWN_VALUE_MAX ? undefined : text;
};

/** Where a player's score of a time belongs, whether or not that list still takes scores. */
export const findList = (board: Board, player: Attributed, atMs: number): List | NoList => {
  if (board.resetAtMs !== null && atMs < board.resetAtMs) return "LATE";
  const window = windowAt(board, atMs);
  if (!window) return "OUTSIDE";
  const value = breakdownOf(board, player);
  return value === undefined ? "NO_VALUE" : listOf(board, window, value);
};

/**
 * The list that a score of a time goes to, as it was loaded with the player. One that was not loaded counts
 * as open; what was scored there cannot be saved.
 */
export const openList = (board: Board, player: PlayerState, atMs: number): List | NoList => {
  const list = findList(board, player, atMs);
  if (typeof list === "string" || isPlain(board)) return list;
  const loaded = player.lists.get(list.id);
  if (!loaded) return list;
  if (loaded.status !== null && loaded.status !== "OPEN") return "LATE";
  return loaded.status === null && loaded.isFull ? "FULL" : loaded;
};

/** The player's entry on a board at a time. */
export const entryAt = (board: Board, player: PlayerState, atMs: number): EntryState | undefined => {
  const list = findList(board, player, atMs);
  return typeof list === "string" ? undefined : player.entries.get(list.id);
};

/** Steps of finding the list of a time. */
const FIND_STEPS = 20;

/**
 * Names the lists that evaluation at these times may touch, so that they are loaded with the player. Those of
 * boards with one ranking are loaded anyway. In pieces.
 */
export function* touchLists(
  boards: readonly Board[],
  player: PlayerState,
  { timesMs, nowMs }: { timesMs: readonly number[]; nowMs: number },
): Pieces<void> {
  player.firstAttributes ??= player.attributes;
  // What a player has is shown as of now also when a late event has changed it.
  const times = new Set([...timesMs, nowMs]);
  for (const board of boards) {
    yield isPlain(board) ? 1 : FIND_STEPS * times.size;
    if (isPlain(board)) continue;
    for (const atMs of times) touchList(player, findList(board, player, atMs));
  }
}

/** Names one list to be loaded with the player. */
export const touchList = (player: PlayerState, list: List | NoList): void => {
  if (typeof list === "string" || player.lists.has(list.id)) return;
  player.lists.set(list.id, {
    ...list,
    status: null,
    isLate: false,
    writtenMs: null,
    isFull: false,
    isLoaded: false,
  });
};
