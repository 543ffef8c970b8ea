import { hostname } from "node:os";
import type { Schema } from "@colyseus/schema";
import type { WebSocket } from "ws";
import type { App } from "../app.ts";
import {
  type ProcessFacts,
  ROOM_KINDS,
  type RoomContent,
  type RoomKind,
  type RoomSession,
} from "../domain/kernel/live-rooms.ts";
import { stateForOperator } from "./inspect-state.ts";
import type { LiveClient } from "./live-client.ts";
import type { LiveRoom } from "./live-room.ts";
import { CLOSE } from "./messages.ts";
import { openRooms } from "./open-rooms.ts";

type Room = LiveRoom<Schema>;
type Parts = Pick<App, "config" | "clock">;

const roomOf = (roomId: string): Room | undefined =>
  openRooms().find((room) => room.roomId === roomId) as Room | undefined;

const sessionOf = ({ sessionId, auth, userData, ref }: LiveClient): RoomSession => ({
  sessionId,
  playerId: auth?.playerId ?? null,
  userId: auth?.userId || null,
  joinedAt: userData ? new Date(userData.sinceMs).toISOString() : null,
  bufferedBytes: (ref as WebSocket).bufferedAmount ?? 0,
});

const inspect = (roomId: string): RoomContent | null => {
  const room = roomOf(roomId);
  return room ? { ...stateForOperator(room.state), sessions: room.clients.map(sessionOf) } : null;
};

const session = (roomId: string, sessionId: string): RoomSession | null => {
  const client = roomOf(roomId)?.clients.get(sessionId);
  return client ? sessionOf(client) : null;
};

/** Disconnects a client, which may return at once; ban a player to keep them away. */
const disconnect = (roomId: string, sessionId: string): boolean => {
  const room = roomOf(roomId);
  const client = room?.clients.get(sessionId);
  if (!room || !client) return false;
  if (client.userData) room.end(client, CLOSE.SHUTDOWN, "DISCONNECTED");
  else client.leave(CLOSE.SHUTDOWN);
  return true;
};

const byKind = (countOf: (room: Room) => number): Record<RoomKind, number> => {
  const counts = Object.fromEntries(ROOM_KINDS.map((kind) => [kind, 0])) as Record<RoomKind, number>;
  for (const room of openRooms() as Room[]) counts[room.roomName as RoomKind] += countOf(room);
  return counts;
};

const describeProcess = ({ config, clock }: Parts, version: string): ProcessFacts => {
  const { rss, heapUsed } = process.memoryUsage();
  return {
    pid: process.pid,
    host: hostname(),
    roles: [...config.roles],
    version,
    since: new Date(clock().getTime() - process.uptime() * 1_000).toISOString(),
    rooms: byKind(() => 1),
    clients: byKind(({ clients }) => clients.length),
    memory: { rssBytes: rss, heapUsedBytes: heapUsed },
  };
};

/** Requests about rooms that a process answers; null for a room or session that it does not have. */
export type Answers = {
  inspect(roomId: string): RoomContent | null;
  session(roomId: string, sessionId: string): RoomSession | null;
  disconnect(roomId: string, sessionId: string): boolean;
  describe(): ProcessFacts;
};

export const answersOf = (parts: Parts, version: string): Answers => ({
  inspect,
  session,
  disconnect,
  describe: () => describeProcess(parts, version),
});
