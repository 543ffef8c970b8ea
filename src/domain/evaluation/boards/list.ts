import type { Json } from "../../kernel/events/events.ts";
import type { Board } from "./board.ts";
import type { Window } from "./windows.ts";

export type ListStatus = "OPEN" | "CLOSING" | "CLOSED" | "ARCHIVED";

/** A time in ms, and the properties of the event that happened then, if it was one. */
export type Moment = { at: number; properties?: Json | undefined };

/** One ranking: the entries of one window of a board and one value of its breakdown. */
export type List = { id: string; board: Board; window: Window; value: string };

/** A list with its stored state; `status` is null while it has no row. */
export type LoadedList = List & {
  status: ListStatus | null;
  /** Whether its window was over when its row was created. */
  isLate: boolean;
  writtenMs: number | null;
  /** Whether its window has the maximum number of breakdown values. */
  isFull: boolean;
  /** Whether its window closes or is closed, so that a value without a row is late. */
  isWindowOver: boolean;
  isLoaded: boolean;
};

/** Why a player has no list on a board at a time. */
export type NoList = "LATE" | "OUTSIDE" | "NO_VALUE" | "FULL";
