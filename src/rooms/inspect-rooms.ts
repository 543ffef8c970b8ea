import { hostname } from "node:os";
import { type IRoomCache, matchMaker } from "@colyseus/core";
import { requestFromIPC, subscribeIPC } from "@colyseus/core/IPC";
import { ArraySchema, MapSchema, Schema } from "@colyseus/schema";
import type { WebSocket } from "ws";
import type { App } from "../app.ts";
import { DomainError, notFound } from "../domain/kernel/errors.ts";
import {
  type ListedRoom,
  type ListedRoomQuery,
  LISTINGS_READ_MAX,
  type LiveRooms,
  type ProcessFacts,
  RESPONSE_TIMEOUT_MS,
  ROOM_KINDS,
  ROOM_STATE_MAX_BYTES,
  type RoomContent,
  type RoomKind,
  type RoomSession,
  type RoomState,
} from "../domain/kernel/live-rooms.ts";
import { offsetOf, type PageQuery } from "../domain/kernel/paging.ts";
import type { LiveClient } from "./session.ts";
import { type Listing, openRooms } from "./listing.ts";
import type { LiveRoom, RoomMetadata } from "./live-room.ts";
import { CLOSE } from "./messages.ts";

/** Placeholder for hidden values. */
const REDACTED = "[redacted]";
/** Names of credentials and personal data; at any depth, including data written by games. */
const PRIVATE =
  /^(code|joincode|pass(code|word|phrase)?|pin|.*secret|.*token|.*apikey|displayname|externaluserid|email)$/;
/** Fields of room states that hold JSON as text. */
const JSON_TEXTS = new Set(["settings", "metadata", "data", "results"]);

type Entry = readonly [name: string, value: unknown];
type Field = { name: string; tag?: number; deprecated?: boolean };

const isPrivate = (name: string): boolean => PRIVATE.test(name.replaceAll(/[_-]/g, "").toLowerCase());

/** Fields that only some views see are private to these. */
const fieldsOf = (state: Schema): Entry[] => {
  const fields = (state.constructor as typeof Schema)[Symbol.metadata] as unknown as Record<string, Field>;
  return Object.keys(fields)
    .map((index) => fields[index]!)
    .filter(({ deprecated }) => deprecated !== true)
    .map(({ name, tag }) => [name, tag === undefined ? state[name as keyof Schema] : REDACTED]);
};

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
};

/** Returns the entries of a container, read lazily; undefined for a plain value. */
const partsOf = (value: unknown): { isList: boolean; entries: Iterable<Entry> } | undefined => {
  if (typeof value !== "object" || value === null) return undefined;
  if (value instanceof Schema) return { isList: false, entries: fieldsOf(value) };
  if (value instanceof MapSchema) return { isList: false, entries: value.entries() as Iterable<Entry> };
  if (value instanceof ArraySchema || Array.isArray(value))
    return { isList: true, entries: Array.from(value as Iterable<unknown>, (item, i) => [String(i), item]) };
  return { isList: false, entries: Object.entries(value) };
};

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? "null");

/** Reads a state until its JSON reaches the size limit. */
class StateReader {
  #left = ROOM_STATE_MAX_BYTES;
  isCut = false;

  /** Returns the visible form of a value; undefined when there is no space left. */
  read(name: string, value: unknown): unknown {
    const isText = JSON_TEXTS.has(name) && typeof value === "string";
    const shown = isPrivate(name) ? REDACTED : isText ? parsed(value) : value;
    const parts = partsOf(shown);
    if (!parts) return this.#take(bytesOf(shown) + 1) ? (shown ?? null) : undefined;
    if (!this.#take(3)) return undefined;
    const entries = this.#readAll(parts);
    return parts.isList ? entries.map(([, item]) => item) : Object.fromEntries(entries);
  }

  #readAll({ isList, entries }: NonNullable<ReturnType<typeof partsOf>>): [string, unknown][] {
    const read: [string, unknown][] = [];
    for (const [name, value] of entries) {
      if (!isList && !this.#take(bytesOf(name) + 1)) break;
      const shown = this.read(isList ? "" : name, value);
      if (shown === undefined) break;
      read.push([name, shown]);
    }
    return read;
  }

  #take(bytes: number): boolean {
    const fits = bytes <= this.#left;
    if (fits) this.#left -= bytes;
    else this.isCut = true;
    return fits;
  }
}

/**
 * Returns the state of a room for an operator: what all clients see of it, without secrets and personal
 * names.
 */
const stateForOperator = (state: Schema): RoomState => {
  const reader = new StateReader();
  const shown = reader.read("", state) as Record<string, unknown>;
  return { state: shown, isStateTruncated: reader.isCut };
};

type Room = LiveRoom<Schema>;
type Inspection = Pick<App, "config" | "clock">;

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

const sessionHere = (roomId: string, sessionId: string): RoomSession | null => {
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

const describeProcess = ({ config, clock }: Inspection, version: string): ProcessFacts => {
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
const answersOf = (parts: Inspection, version: string) => ({
  inspect,
  session: sessionHere,
  disconnect,
  describe: () => describeProcess(parts, version),
});
type Answers = ReturnType<typeof answersOf>;

const requestTopic = (processId: string): string => `rooms-of:${processId}`;

const silent = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", `The process did not answer within ${RESPONSE_TIMEOUT_MS} ms`, {
    reason: "PROCESS_SILENT",
    retryAfterSeconds: 1,
  });

const answerRequest = (answers: Answers, name: keyof Answers, args: readonly string[]): unknown =>
  (answers[name] as (...given: readonly string[]) => unknown)(...args);

/** Answers requests of other processes about the rooms of this one. @returns a function that stops it */
export const answerPeerRequests = async (app: App, version: string): Promise<() => void> => {
  const answers = answersOf(app, version);
  const { presence, processId } = matchMaker;
  const topic = requestTopic(processId);
  await subscribeIPC(presence, topic, (name, args) => answerRequest(answers, name as keyof Answers, args));
  return () => void presence.unsubscribe(topic);
};

/** The listing field that holds the room's subject. */
const SUBJECTS: Record<RoomKind, string> = {
  player: "playerId",
  leaderboard: "leaderboardKey",
  chat: "channelId",
  lobby: "lobbyId",
  lobbies: "mode",
  events: "playerId",
};

const listed = (room: IRoomCache): ListedRoom => {
  const kind = room.name as RoomKind;
  const metadata = room.metadata as Record<string, unknown> & RoomMetadata;
  const subject = metadata[SUBJECTS[kind]];
  return {
    roomId: room.roomId,
    kind,
    projectId: metadata.projectId,
    subject: typeof subject === "string" && subject !== "" ? subject : null,
    processId: room.processId,
    clients: room.clients,
    maxClients: room.maxClients,
    locked: room.locked === true,
    createdAt: new Date(room.createdAt ?? 0).toISOString(),
  };
};

const unreadable = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "The listing of rooms cannot be read right now, try again", {
    reason: "ROOMS_UNAVAILABLE",
    retryAfterSeconds: 1,
  });

const inOrder =
  ({ sort, order }: ListedRoomQuery) =>
  (a: ListedRoom, b: ListedRoom): number => {
    const [x, y] = [a[sort], b[sort]];
    if (x === y) return a.roomId < b.roomId ? -1 : 1;
    return x < y === (order === "asc") ? -1 : 1;
  };

type Parts = Pick<App, "config" | "clock" | "peers" | "log">;

class RoomWatch implements LiveRooms {
  readonly #parts: Parts;
  readonly #listing: Listing;
  readonly #answers: Answers;

  constructor(parts: Parts, listing: Listing, version: string) {
    this.#parts = parts;
    this.#listing = listing;
    this.#answers = answersOf(parts, version);
  }

  async list(query: ListedRoomQuery): ReturnType<LiveRooms["list"]> {
    const offset = offsetOf(query);
    const { kind, projectId, processId } = query;
    const { found, isWhole } = await this.#read(async () => {
      const living = new Set(await this.#living());
      const some = await this.#some(query);
      return {
        found: some.filter((room) => living.has(room.processId)),
        isWhole: some.length <= LISTINGS_READ_MAX,
      };
    });
    const rooms = found
      .map(listed)
      .filter((room) => kind === undefined || room.kind === kind)
      .filter((room) => projectId === undefined || room.projectId === projectId)
      .filter((room) => processId === undefined || room.processId === processId);
    return {
      rooms: rooms.toSorted(inOrder(query)).slice(offset, offset + query.limit),
      total: rooms.length,
      isEstimated: !isWhole,
    };
  }

  async inspect(roomId: string): ReturnType<LiveRooms["inspect"]> {
    const room = await this.#find(roomId);
    const content = await this.#ask(room.processId, "inspect", roomId);
    if (!content) throw notFound("Room");
    return { ...room, ...content };
  }

  async findSession(roomId: string, sessionId: string): ReturnType<LiveRooms["findSession"]> {
    const room = await this.#find(roomId);
    const session = await this.#ask(room.processId, "session", roomId, sessionId);
    if (!session) throw notFound("Session");
    return { room, session };
  }

  async disconnect(roomId: string, sessionId: string): Promise<boolean> {
    const { processId } = await this.#find(roomId);
    return this.#ask(processId, "disconnect", roomId, sessionId);
  }

  async processes(page: PageQuery): ReturnType<LiveRooms["processes"]> {
    const offset = offsetOf(page);
    const ids = (await this.#read(() => this.#living())).toSorted((a, b) => (a < b ? -1 : 1));
    const processes = ids.slice(offset, offset + page.limit).map(async (processId) => {
      const facts = await this.#ask(processId, "describe").catch(() => null);
      return { processId, facts };
    });
    return { processes: await Promise.all(processes), total: ids.length, isEstimated: false };
  }

  /** Asks the process that holds a room, which may be this one. @throws DomainError PROCESS_SILENT */
  async #ask<K extends keyof Answers>(
    processId: string,
    name: K,
    ...args: Parameters<Answers[K]>
  ): Promise<ReturnType<Answers[K]>> {
    if (processId === matchMaker.processId)
      return answerRequest(this.#answers, name, args) as ReturnType<Answers[K]>;
    const topic = requestTopic(processId);
    try {
      return await requestFromIPC(matchMaker.presence, topic, name, args, RESPONSE_TIMEOUT_MS);
    } catch {
      throw silent();
    }
  }

  async #find(roomId: string): Promise<ListedRoom> {
    const room = await this.#read(async () => {
      const found = (await this.#listing.findByIds([roomId])).get(roomId);
      const isThere = found && (await this.#living()).includes(found.processId);
      return isThere ? found : undefined;
    });
    if (!room) throw notFound("Room");
    return listed(room);
  }

  async #living(): Promise<string[]> {
    const { peers } = this.#parts;
    return peers ? peers.living() : [matchMaker.processId];
  }

  async #some({ kind, projectId, processId }: ListedRoomQuery): Promise<IRoomCache[]> {
    const { some } = this.#listing;
    if (some) return some.call(this.#listing, { name: kind, projectId, processId }, LISTINGS_READ_MAX + 1);
    // All rooms: the number per process is bounded.
    return this.#listing.query({});
  }

  async #read<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (err) {
      if (err instanceof DomainError) throw err;
      this.#parts.log.warn({ err }, "the listing of rooms could not be read");
      throw unreadable();
    }
  }
}

/** Creates the super-admins' view of the rooms of all processes. */
export const createLiveRooms = (parts: Parts, listing: Listing, version: string): LiveRooms =>
  new RoomWatch(parts, listing, version);
