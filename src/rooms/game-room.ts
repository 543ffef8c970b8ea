import { defineRoom, type RegisteredHandler } from "@colyseus/core";

/** A kind of room, as core and the admission of joins know it. */
export type GameRoom = {
  handler: RegisteredHandler;
  /** Whether many clients watch one thing, which may then have several rooms, also in several processes. */
  isCrowd: boolean;
};

type GameRoomParts = {
  room: Parameters<typeof defineRoom>[0];
  /** The pinned options that select a room of this kind. */
  selectedBy: string[];
  isCrowd: boolean;
};

export const gameRoom = ({ room, selectedBy, isCrowd }: GameRoomParts): GameRoom => ({
  handler: defineRoom(room).filterBy(selectedBy),
  isCrowd,
});
