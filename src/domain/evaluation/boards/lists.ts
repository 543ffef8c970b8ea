import type { EntryState, PlayerState } from "../player-state.ts";
import { compilePath } from "../language/paths.ts";
import type { Pieces } from "../../kernel/pace.ts";
import type { Board } from "./board.ts";
import { periodIdOf } from "./period-ids.ts";
import type { List, NoList } from "./list.ts";
import { type Window, windowAt } from "./windows.ts";

/** Maximum values of a breakdown in one window, each with its own ranking. */
export const BREAKDOWN_VALUES_MAX = 1_000;
/** Maximum length of a breakdown value, in characters. */
export const BREAKDOWN_VALUE_MAX = 64;
/** Maximum ids cached per board, since computing them takes a hash. */
const IDS_REMEMBERED_MAX = 2_000;

/**
 * Returns whether a board has one window and one ranking, whose id is the board's own and needs no look-up.
 */
export const isPlain = ({ period, breakdownAttribute }: Board): boolean =>
  period.kind === "ALL_TIME" && breakdownAttribute === undefined;

const idsOf = new WeakMap<Board, Map<string, string>>();

/** Returns the list of a window and a value. */
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
 * Returns the player's value of a board's breakdown as of when the player was loaded; "" for a board without
 * one, undefined for a player without a valid value.
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

/** Returns the list for a player's score of a time, whether or not it still takes scores. */
export const findList = (board: Board, player: Attributed, atMs: number): List | NoList => {
  if (board.resetAtMs !== null && atMs < board.resetAtMs) return "LATE";
  const window = windowAt(board, atMs);
  if (!window) return "OUTSIDE";
  const value = breakdownOf(board, player);
  return value === undefined ? "NO_VALUE" : listOf(board, window, value);
};

/**
 * Returns the list for a score of a time, as loaded with the player. One that was not loaded counts as open,
 * but scores on it cannot be saved.
 */
export const openList = (board: Board, player: PlayerState, atMs: number): List | NoList => {
  const list = findList(board, player, atMs);
  if (typeof list === "string" || isPlain(board)) return list;
  const loaded = player.lists.get(list.id);
  if (!loaded) return list;
  if (loaded.status !== null && loaded.status !== "OPEN") return "LATE";
  return loaded.status === null && loaded.isFull ? "FULL" : loaded;
};

/** Returns the player's entry on a board at a time. */
export const entryAt = (board: Board, player: PlayerState, atMs: number): EntryState | undefined => {
  const list = findList(board, player, atMs);
  return typeof list === "string" ? undefined : player.entries.get(list.id);
};

/** Steps of finding the list of a time. */
const FIND_STEPS = 20;

/**
 * Marks the lists that evaluation at these times may touch, so that they are loaded with the player. Those of
 * boards with one ranking are always loaded. In slices.
 */
export function* markLists(
  boards: readonly Board[],
  player: PlayerState,
  { timesMs, nowMs }: { timesMs: readonly number[]; nowMs: number },
): Pieces<void> {
  player.firstAttributes ??= player.attributes;
  // Current values are also shown when a late event has changed them.
  const times = new Set([...timesMs, nowMs]);
  for (const board of boards) {
    yield isPlain(board) ? 1 : FIND_STEPS * times.size;
    if (isPlain(board)) continue;
    for (const atMs of times) markList(player, findList(board, player, atMs));
  }
}

/** Marks one list to be loaded with the player. */
export const markList = (player: PlayerState, list: List | NoList): void => {
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
