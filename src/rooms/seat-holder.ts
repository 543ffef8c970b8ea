import type { Room } from "@colyseus/core";
import type { Principal } from "./authenticate.ts";

/** The owner of a seat, as far as it crosses processes. */
export type SeatHolder = Pick<Principal, "projectId" | "subject">;

type Dropped = Record<string, [sessionId: string, ...unknown[]]>;
type Reserved = Record<string, [options: unknown, auth: Principal | undefined, ...unknown[]]>;

/**
 * Returns the owner of the seat for a reconnection token: of a dropped client, or of one that still seems
 * connected.
 */
const holderOf = (room: Room, token: string): Principal | undefined => {
  const here = room.clients.find(({ reconnectionToken }) => reconnectionToken === token);
  if (here) return here.auth as Principal | undefined;
  const { _reconnections: dropped, _reservedSeats: reserved } = room as unknown as {
    _reconnections: Dropped;
    _reservedSeats: Reserved;
  };
  return Object.hasOwn(dropped, token) ? reserved[dropped[token]![0]]?.[1] : undefined;
};

/** Returns the session that this token and holder may take over; undefined for anybody else. */
export const claimSeat = (
  room: Room,
  token: string,
  { projectId, subject }: SeatHolder,
): string | undefined => {
  const holder = holderOf(room, token);
  if (!holder || holder.projectId !== projectId || holder.subject !== subject) return undefined;
  return room.checkReconnectionToken(token);
};
