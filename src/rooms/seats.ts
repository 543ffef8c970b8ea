import type { Room } from "@colyseus/core";

/** Core's record of a seat: the options and the token of its join, and whether its client has arrived. */
type Seat = [options: unknown, auth: unknown, isTaken: boolean, isOfDropped: boolean];

/**
 * Withdraws the seats of a closing room whose clients have not arrived yet. Core would keep the room, and
 * with it the process, until they expire. A client that arrives for one is refused, and joins again.
 */
export const withdrawSeats = (room: Room): void => {
  const seats = room["_reservedSeats"] as Record<string, Seat>;
  for (const [sessionId, [, , isTaken, isOfDropped]] of Object.entries(seats)) {
    // Seats of dropped clients end with their reconnections.
    if (isTaken || isOfDropped) continue;
    clearTimeout(room["_reservedSeatTimeouts"][sessionId]);
    delete room["_reservedSeatTimeouts"][sessionId];
    delete seats[sessionId];
  }
  // A room with a reserved seat waits until that expires; from now on only for leaving clients.
  room["resetAutoDisposeTimeout"](0);
};
