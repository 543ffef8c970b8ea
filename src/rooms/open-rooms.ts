import { matchMaker, type Room } from "@colyseus/core";

/** The rooms of this process, whose matchmaker is one as well. */
const rooms = new Set<Room>();

/** Notes a room that is being made; the function returned forgets it. */
export const noteRoom = (room: Room): (() => void) => {
  rooms.add(room);
  return () => void rooms.delete(room);
};

/** Those that can be joined: neither being made nor a twin that was thrown away. */
export const openRooms = (): Room[] =>
  [...rooms].filter((room) => matchMaker.getLocalRoomById(room.roomId) === room);

/** How many rooms there are of each kind. */
export const countRooms = (): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { roomName } of openRooms()) counts[roomName] = (counts[roomName] ?? 0) + 1;
  return counts;
};
