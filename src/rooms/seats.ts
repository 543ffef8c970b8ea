import type { Room } from "@colyseus/core";

/** What core keeps of a seat: the options and the token of its join, and whether its client has come. */
type Seat = [options: unknown, auth: unknown, isTaken: boolean, isOfDropped: boolean];

/**
 * Withdraws the seats of a closing room whose clients have not come yet. Core would keep the room, and with
 * it the process, until they run out. A client that comes for one is told that there is none, and joins
 * again.
 */
export const withdrawSeats = (room: Room): void => {
  const seats = room["_reservedSeats"] as Record<string, Seat>;
  for (const [sessionId, [, , isTaken, isOfDropped]] of Object.entries(seats)) {
    // Seats of clients that were cut off end with their reconnections.
    if (isTaken || isOfDropped) continue;
    clearTimeout(room["_reservedSeatTimeouts"][sessionId]);
    delete room["_reservedSeatTimeouts"][sessionId];
    delete seats[sessionId];
  }
  // A room of which a seat was given waits for that seat's time; now only for those who are leaving.
  room["resetAutoDisposeTimeout"](0);
};
