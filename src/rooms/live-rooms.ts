import { type IRoomCache, matchMaker } from "@colyseus/core";
import type { App } from "../app.ts";
import { DomainError, notFound } from "../domain/kernel/errors.ts";
import {
  LISTINGS_READ_MAX,
  type ListedRoom,
  type ListedRoomQuery,
  type LiveRooms,
  type RoomKind,
} from "../domain/kernel/live-rooms.ts";
import { offsetOf, type PageQuery } from "../domain/kernel/paging.ts";
import { PeerRequester } from "./peer-requests.ts";
import type { Listing } from "./listing.ts";
import type { RoomMetadata } from "./live-room.ts";

/** The listing field that holds the room's subject. */
const SUBJECTS: Record<RoomKind, string> = {
  player: "playerId",
  leaderboard: "leaderboardKey",
  chat: "channelId",
  lobby: "lobbyId",
  lobbies: "mode",
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

const valueOf = (room: ListedRoom, sort: ListedRoomQuery["sort"]): number | string => room[sort];

const inOrder =
  ({ sort, order }: ListedRoomQuery) =>
  (a: ListedRoom, b: ListedRoom): number => {
    const [x, y] = [valueOf(a, sort), valueOf(b, sort)];
    if (x === y) return a.roomId < b.roomId ? -1 : 1;
    return x < y === (order === "asc") ? -1 : 1;
  };

type Parts = Pick<App, "config" | "clock" | "peers" | "topics" | "log">;

class RoomWatch implements LiveRooms {
  readonly #parts: Parts;
  readonly #listing: Listing;
  readonly #peers: PeerRequester;

  constructor(parts: Parts, listing: Listing, version: string) {
    this.#parts = parts;
    this.#listing = listing;
    this.#peers = new PeerRequester(parts, version);
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
    const content = await this.#peers.request(room.processId, "inspect", roomId);
    if (!content) throw notFound("Room");
    return { ...room, ...content };
  }

  async findSession(roomId: string, sessionId: string): ReturnType<LiveRooms["findSession"]> {
    const room = await this.#find(roomId);
    const session = await this.#peers.request(room.processId, "session", roomId, sessionId);
    if (!session) throw notFound("Session");
    return { room, session };
  }

  async disconnect(roomId: string, sessionId: string): Promise<boolean> {
    const { processId } = await this.#find(roomId);
    return this.#peers.request(processId, "disconnect", roomId, sessionId);
  }

  async processes(page: PageQuery): ReturnType<LiveRooms["processes"]> {
    const offset = offsetOf(page);
    const ids = (await this.#read(() => this.#living())).toSorted((a, b) => (a < b ? -1 : 1));
    const processes = ids.slice(offset, offset + page.limit).map(async (processId) => {
      const facts = await this.#peers.request(processId, "describe").catch(() => null);
      return { processId, facts };
    });
    return { processes: await Promise.all(processes), total: ids.length, isEstimated: false };
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
