import { AsyncLocalStorage } from "node:async_hooks";
import { type IRoomCache, matchMaker, type MatchMakerDriver, type Room } from "@colyseus/core";
import type { App } from "../app.ts";
import { conflict, type DomainError, retryLater } from "../domain/kernel/errors.ts";
import { PLAYER_SOCKETS_MAX, PROJECT_ROOMS_MAX } from "../domain/kernel/limits.ts";
import type { ListingFilter } from "../domain/kernel/live-rooms.ts";

/**
 * A driver that may offer more listing queries than core needs; a driver without them has all rooms in this
 * process.
 */
export type Listing = MatchMakerDriver & {
  /** Ids of rooms that are listed for this process. */
  ownIds?(): Promise<Set<string>>;
  /** Number of rooms of a project in all processes. */
  countOf?(projectId: string): Promise<number>;
  /** Optional hook: whether to create a room here although one of the listed rooms could be joined. */
  maySpread?: (listed: readonly IRoomCache[]) => Promise<boolean>;
  findByIds(roomIds: string[]): Promise<Map<string, IRoomCache>>;
  /** Returns a superset of the rooms that match the filter, unordered, `max` of them at most. */
  some?(filter: ListingFilter, max: number): Promise<IRoomCache[]>;
};

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

/** Maximum number of rooms in one process; further rooms are created by another process. */
export const PROCESS_ROOMS_MAX = 20_000;
const ownRoomsOf = (projectId: string): number =>
  openRooms().filter((room) => (room.metadata as { projectId?: string }).projectId === projectId).length;

/**
 * Decides whether one more room may be created in this process.
 * @throws DomainError SERVICE_UNAVAILABLE SERVER_FULL, CONFLICT TOO_MANY_ROOMS
 */
export const admitRoom = async (options: unknown): Promise<void> => {
  if (matchMaker.stats.local.roomCount >= PROCESS_ROOMS_MAX)
    throw retryLater("this process has reached its limit of rooms: try again", "SERVER_FULL");
  const { projectId } = options as { projectId?: string };
  if (projectId === undefined) return;
  const driver = matchMaker.driver as Listing;
  const count = driver.countOf ? await driver.countOf(projectId) : ownRoomsOf(projectId);
  if (count >= PROJECT_ROOMS_MAX)
    throw conflict("TOO_MANY_ROOMS", `a project has at most ${PROJECT_ROOMS_MAX} open rooms`);
};

/**
 * Crowd size from which each process that serves part of it gets a room, unless it has too many rooms
 * already.
 */
const CROWD_MIN = 25;
const CROWD_ROOMS_MAX = 16;
/** Milliseconds in which only the first of several simultaneous joins may create the room in this process. */
const SPREAD_EVERY_MS = 2_000;
/** Crowds that got a room here recently, with the time until which they get no other; oldest first. */
const spreading = new Map<string, number>();

/** The current join, and whether it is the one that creates its crowd's room here. */
const joins = new AsyncLocalStorage<{ isFirst: boolean }>();

/** Runs one join. Core looks for a room more than once per join and must get the same answer each time. */
export const asOneJoin = <T>(run: () => Promise<T>): Promise<T> => joins.run({ isFirst: false }, run);

/** Returns true to one join per SPREAD_EVERY_MS for each crowd, however often that join asks. */
const isFirst = ({ name, metadata }: IRoomCache): boolean => {
  const join = joins.getStore();
  if (join?.isFirst) return true;
  const [crowd, nowMs] = [JSON.stringify([name, metadata]), performance.now()];
  for (const [old, untilMs] of spreading) {
    if (untilMs > nowMs) break;
    spreading.delete(old);
  }
  if (spreading.has(crowd)) return false;
  spreading.set(crowd, nowMs + SPREAD_EVERY_MS);
  if (join) join.isFirst = true;
  return true;
};

/**
 * Decides whether a crowd whose rooms are all in other processes gets one here: a piped socket costs more
 * than twice as much as a direct one.
 * @param kinds all kinds of room, by name
 */
export const maySpread = async (
  kinds: Readonly<Record<string, { isCrowd: boolean }>>,
  listed: readonly IRoomCache[],
): Promise<boolean> => {
  const [first] = listed;
  if (!first || !kinds[first.name]?.isCrowd || listed.length >= CROWD_ROOMS_MAX) return false;
  const clients = listed.reduce((sum, room) => sum + room.clients, 0);
  if (clients < CROWD_MIN || !isFirst(first)) return false;
  try {
    await admitRoom(first.metadata);
    return true;
  } catch {
    // When no more rooms may be created, clients go on joining the rooms of other processes.
    return false;
  }
};

const own = new Map<string, number>();

/**
 * Counts a player's socket; the returned function decrements the count.
 * @throws DomainError CONFLICT TOO_MANY_SOCKETS
 */
export const admitSocket = async ({ peers, log }: App, player: string): Promise<() => void> => {
  const change = (by: number): Promise<number> | number => {
    const count = (own.get(player) ?? 0) + by;
    if (count > 0) own.set(player, count);
    else own.delete(player);
    return peers ? peers.countSockets(player, Math.max(0, count)) : count;
  };
  let isIn = true;
  const leave = (): void => {
    if (!isIn) return;
    isIn = false;
    Promise.resolve(change(-1)).catch((err: unknown) => log.warn({ err }, "a socket was not counted out"));
  };
  let total = 0;
  try {
    total = await change(1);
  } catch (err) {
    // Redis is unavailable: the socket is admitted, because each process then enforces limits by itself.
    log.warn({ err }, "a socket was not counted");
  }
  if (total <= PLAYER_SOCKETS_MAX) return leave;
  leave();
  throw tooManySockets();
};

const tooManySockets = (): DomainError =>
  conflict("TOO_MANY_SOCKETS", `a player has at most ${PLAYER_SOCKETS_MAX} sockets`);
