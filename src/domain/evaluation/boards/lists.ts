import type { EntryState, PlayerState } from "../player-state.ts";
import { compilePath } from "../language/paths.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Pieces } from "../../kernel/pace.ts";
import type { Board } from "./board.ts";
import { periodIdOf } from "./period-ids.ts";
import type { List, Moment, NoList } from "./list.ts";
import { type Window, windowAt } from "./windows.ts";

/** Maximum values of a breakdown in one window, each with its own ranking. */
export const BREAKDOWN_VALUES_MAX = 1_000;
/** Maximum length of a breakdown value, in characters. */
export const BREAKDOWN_VALUE_MAX = 200;
/** Maximum ids cached per board, since computing them takes a hash. */
const IDS_REMEMBERED_MAX = 2_000;

/**
 * Returns whether a board has one window and one ranking, whose id is the board's own and needs no look-up.
 */
export const isPlain = (board: Pick<Board, "period"> & Breakdown): boolean =>
  board.period.kind === "ALL_TIME" && breakdownNameOf(board) === undefined;

/** By which values a board is broken down: by those of an attribute, or of a property of its events. */
type Breakdown = Pick<Board, "breakdownAttribute" | "breakdownProperty">;

/** Returns the path by whose values a board is broken down; undefined for a board with one ranking. */
export const breakdownNameOf = ({ breakdownAttribute, breakdownProperty }: Breakdown): string | undefined =>
  breakdownAttribute ?? breakdownProperty;

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
 * Returns the value of a board's breakdown: the player's as of when the player was loaded, or that of the
 * event's property. "" for a board without a breakdown, undefined where there is no valid value.
 */
export const breakdownOf = (
  board: Breakdown,
  { attributes, firstAttributes = attributes }: Attributed,
  properties: Json = {},
): string | undefined => {
  const path = breakdownNameOf(board);
  if (path === undefined) return "";
  const value = compilePath(path)(board.breakdownProperty === undefined ? firstAttributes : properties);
  const isText = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  const text = isText ? String(value) : "";
  return text === "" || text.length > BREAKDOWN_VALUE_MAX ? undefined : text;
};

/** Returns the list for a player's score of a moment, whether or not it still takes scores. */
export const findList = (board: Board, player: Attributed, { at, properties }: Moment): List | NoList => {
  if (board.resetAtMs !== null && at < board.resetAtMs) return "LATE";
  const window = windowAt(board, at);
  if (!window) return "OUTSIDE";
  const value = breakdownOf(board, player, properties);
  return value === undefined ? "NO_VALUE" : listOf(board, window, value);
};

/**
 * Returns the list for a score of a moment, as loaded with the player. One that was not loaded counts as
 * open, but scores on it cannot be saved.
 */
export const openList = (board: Board, player: PlayerState, moment: Moment): List | NoList => {
  const list = findList(board, player, moment);
  if (typeof list === "string" || isPlain(board)) return list;
  const loaded = player.lists.get(list.id);
  if (!loaded) return list;
  if (loaded.status === null ? loaded.isWindowOver : loaded.status !== "OPEN") return "LATE";
  return loaded.status === null && loaded.isFull ? "FULL" : loaded;
};

/** Returns the player's entry on a board at a moment. */
export const entryAt = (board: Board, player: PlayerState, moment: Moment): EntryState | undefined => {
  const list = findList(board, player, moment);
  return typeof list === "string" ? undefined : player.entries.get(list.id);
};

/** Steps of finding the list of a moment. */
const FIND_STEPS = 20;

/**
 * Marks the lists that evaluation at these moments may touch, so that they are loaded with the player. Those
 * of boards with one ranking are always loaded. In slices.
 */
export function* markLists(
  boards: readonly Board[],
  player: PlayerState,
  { moments, nowMs }: { moments: readonly Moment[]; nowMs: number },
): Pieces<void> {
  player.firstAttributes ??= player.attributes;
  // Current values are also shown when a late event has changed them.
  const all = [...moments, { at: nowMs }];
  const times = [...new Map(all.map((moment) => [moment.at, moment])).values()];
  for (const board of boards) {
    const those = board.breakdownProperty === undefined ? times : all;
    yield isPlain(board) ? 1 : FIND_STEPS * those.length;
    if (isPlain(board)) continue;
    for (const moment of those) markList(player, findList(board, player, moment));
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
    isWindowOver: false,
    isLoaded: false,
  });
};
