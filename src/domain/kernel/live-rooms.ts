import { z } from "zod";
import type { PageQuery } from "./paging.ts";
import type { Total } from "./work.ts";

/** Interval of a process's heartbeats, and the lease that each one renews. */
export const BEAT_EVERY_MS = 1_000;
export const LEASE_MS = 4_000;

/** A process as a member of the cluster, and its callbacks. */
export type Self = {
  processId: string;
  /** `host:port` by which the other processes reach the rooms of this one. */
  internalAddress: string;
  /** The others may have taken this process for dead: its listings have to be looked at. */
  onLost: () => void;
  /**
   * A process has died and its listings must be removed. Several processes may be notified of the same one.
   */
  onDead: (processId: string) => Promise<void>;
};

/** The processes of a cluster that hold rooms. */
export type Peers = {
  /** Registers this process, and watches the others from then on. */
  join(self: Self): Promise<void>;
  /** The internal address of a living process, at most a second old; undefined for a dead or unknown one. */
  internalAddressOf(processId: string): Promise<string | undefined>;
  /** Those whose lease holds. */
  living(): Promise<string[]>;
  /** Records a player's sockets in this process, and returns their number in all live processes. */
  countSockets(player: string, own: number): Promise<number>;
  /** Says again what this process wants to hear, in case it was lost. */
  resubscribe(): void;
  leave(): Promise<void>;
};

/** All kinds of rooms, by the name used to join. */
export const ROOM_KINDS = ["player", "leaderboard", "chat", "lobby", "lobbies", "events"] as const;
export type RoomKind = (typeof ROOM_KINDS)[number];

/** Maximum listings read at once; beyond it a part is shown, and flagged as such. */
export const LISTINGS_READ_MAX = 50_000;
/** Maximum bytes of a room's state shown, as JSON. */
export const ROOM_STATE_MAX_BYTES = 64 * 1024;
/** Time after which a process that has not responded is considered silent, in ms. */
export const RESPONSE_TIMEOUT_MS = 500;

/** A room in the listing. */
export const ListedRoom = z
  .object({
    roomId: z.string(),
    kind: z.enum(ROOM_KINDS),
    projectId: z.string(),
    subject: z
      .string()
      .nullable()
      .meta({
        description:
          "Id of the player, channel or lobby; key of the leaderboard; mode of a list of lobbies, player of a " +
          "room of events, null for all",
      }),
    processId: z.string(),
    clients: z.int().meta({ description: "Seats that are taken or reserved" }),
    maxClients: z.int(),
    locked: z.boolean(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "LiveRoom" });
export type ListedRoom = z.output<typeof ListedRoom>;

/** One client of a room. */
export const RoomSession = z
  .object({
    sessionId: z.string(),
    playerId: z.string().nullable(),
    userId: z.string().nullable().meta({ description: "Of a console user" }),
    joinedAt: z.iso.datetime().nullable().meta({ description: "null while it is being let in" }),
    bufferedBytes: z.int().meta({ description: "Pending deliveries" }),
  })
  .meta({ id: "LiveRoomSession" });
export type RoomSession = z.output<typeof RoomSession>;

export type RoomState = {
  /** State that all clients see, without secrets and names of persons. */
  state: Record<string, unknown>;
  /** Some of it did not fit into ROOM_STATE_MAX_BYTES. */
  isStateTruncated: boolean;
};

/** State and sessions of a room, reported by its process. */
export type RoomContent = RoomState & { sessions: RoomSession[] };

/** Facts that a process reports about itself. */
export type ProcessFacts = {
  pid: number;
  host: string;
  roles: string[];
  version: string;
  since: string;
  rooms: Record<RoomKind, number>;
  clients: Record<RoomKind, number>;
  memory: { rssBytes: number; heapUsedBytes: number };
};

/** A process that has rooms; without facts when it is silent. */
export type LiveProcess = { processId: string; facts: ProcessFacts | null };

/** Filters of listings; `name` is the kind. */
export type ListingFilter = {
  name?: string | undefined;
  projectId?: string | undefined;
  processId?: string | undefined;
};

export type ListedRoomQuery = PageQuery & {
  kind?: RoomKind | undefined;
  projectId?: string | undefined;
  processId?: string | undefined;
  sort: "clients" | "createdAt";
  order: "asc" | "desc";
};

/**
 * The open rooms of all processes. All functions but `list` query other processes.
 * @throws DomainError SERVICE_UNAVAILABLE: ROOMS_UNAVAILABLE while the listing cannot be read, PROCESS_SILENT
 * when the process of a room does not respond within RESPONSE_TIMEOUT_MS
 */
export type LiveRooms = {
  list(query: ListedRoomQuery): Promise<Total & { rooms: ListedRoom[] }>;
  /** @throws DomainError NOT_FOUND */
  inspect(roomId: string): Promise<ListedRoom & RoomContent>;
  /** @throws DomainError NOT_FOUND for an unknown room or session */
  findSession(roomId: string, sessionId: string): Promise<{ room: ListedRoom; session: RoomSession }>;
  /** Ends a session; false when it had already ended. */
  disconnect(roomId: string, sessionId: string): Promise<boolean>;
  /** Ordered by id. */
  processes(page: PageQuery): Promise<Total & { processes: LiveProcess[] }>;
};
