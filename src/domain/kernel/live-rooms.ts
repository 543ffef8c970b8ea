import type { PageQuery } from "./paging.ts";
import type { Total } from "./counting.ts";

/** Every kind of room, by the name it is joined with. */
export const ROOM_KINDS = ["player", "leaderboard", "chat", "lobby", "lobbies"] as const;
export type RoomKind = (typeof ROOM_KINDS)[number];

/** Listings that one look reads; of more rooms than that it shows some, and says so. */
export const LISTINGS_READ_MAX = 50_000;
/** JSON of a room's state that is shown, in bytes. */
export const ROOM_STATE_MAX_BYTES = 64 * 1024;
/** A process that has not answered by then is silent, in ms. */
export const ANSWER_TIMEOUT_MS = 500;

/** A room as it is listed. */
export type ListedRoom = {
  roomId: string;
  kind: RoomKind;
  projectId: string;
  /** Id of the player, channel or lobby, key of the board, mode of a list of lobbies; null: of all modes. */
  subject: string | null;
  processId: string;
  /** Seats that are taken or reserved. */
  clients: number;
  maxClients: number;
  /** No further join finds it. */
  locked: boolean;
  createdAt: string;
};

/** One client of a room. */
export type RoomSession = {
  sessionId: string;
  playerId: string | null;
  /** Of a console user. */
  userId: string | null;
  /** Null while it is being let in. */
  joinedAt: string | null;
  /** What waits to be sent to it. */
  bufferedBytes: number;
};

export type RoomState = {
  /** What all clients see, without secrets and names of persons. */
  state: Record<string, unknown>;
  /** Some of it did not fit into ROOM_STATE_MAX_BYTES. */
  isStateTruncated: boolean;
};

/** What the process of a room says of it. */
export type RoomContent = RoomState & { sessions: RoomSession[] };

/** What a process says of itself. */
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

/** A process that holds rooms; without facts when it is silent. */
export type LiveProcess = { processId: string; facts: ProcessFacts | null };

/** What listings can be looked up by; `name` is the kind. */
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
 * The rooms that are open in all processes. All but `list` ask other processes.
 * @throws DomainError SERVICE_UNAVAILABLE: ROOMS_UNAVAILABLE while the listing cannot be read, PROCESS_SILENT
 *   when the process of a room does not answer within ANSWER_TIMEOUT_MS
 */
export type LiveRooms = {
  list(query: ListedRoomQuery): Promise<Total & { rooms: ListedRoom[] }>;
  /** @throws DomainError NOT_FOUND */
  inspect(roomId: string): Promise<ListedRoom & RoomContent>;
  /** @throws DomainError NOT_FOUND for an unknown room or session */
  findSession(roomId: string, sessionId: string): Promise<{ room: ListedRoom; session: RoomSession }>;
  /** Ends a session; false when it had gone. */
  disconnect(roomId: string, sessionId: string): Promise<boolean>;
  /** By id. */
  processes(page: PageQuery): Promise<Total & { processes: LiveProcess[] }>;
};
