import { matchMaker, type Room } from "@colyseus/core";

/** The rooms of this process; its matchmaker is a singleton as well. */
const rooms = new Set<Room>();

/** Registers a room that is being created; the returned function removes it. */
export const trackRoom = (room: Room): (() => void) => {
  rooms.add(room);
  return () => void rooms.delete(room);
};

/** Returns the rooms that can be joined, without rooms in creation and discarded duplicates. */
export const openRooms = (): Room[] =>
  [...rooms].filter((room) => matchMaker.getLocalRoomById(room.roomId) === room);

/** Returns the number of rooms of each kind. */
export const countRooms = (): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { roomName } of openRooms()) counts[roomName] = (counts[roomName] ?? 0) + 1;
  return counts;
};
