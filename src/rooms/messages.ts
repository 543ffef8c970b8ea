import { newId } from "../domain/kernel/ids.ts";

/** The envelope of every server message. `seq` is present on lines of the player stream and nowhere else. */
export type Live<T> = { v: 1; id: string; at: string; seq?: number; data: T };

export const live = <T>(at: Date, data: T): Live<T> => ({ v: 1, id: newId(), at: at.toISOString(), data });

/**
 * Close codes of a socket. CONSENTED and FORBIDDEN are final; after any other a client joins again, with
 * `lastSeq` where the room has one.
 */
export const CLOSE = {
  /** The client left, or was REPLACED by a newer session of the same player. */
  CONSENTED: 4000,
  /** The server is shutting down, or an operator ended the session. */
  SHUTDOWN: 4001,
  /** Malformed or too many messages, or a refused join. */
  ERROR: 4002,
  /** More than SEND_BUFFER_MAX_BYTES waited for a client that reads too slowly. */
  SLOW: 4013,
  /** The token ended: join again with a new one. */
  EXPIRED: 4401,
  /** The player was banned or erased, or kicked from the lobby. */
  FORBIDDEN: 4403,
} as const;

/** Reason of closing a client that never acknowledged its join: an SDK that cannot read the answer. */
export const NOT_JOINED = "NOT_JOINED: the join was not acknowledged; use the Colyseus SDK 0.18";

/** Why the server ends a session: sent as `session.closed` before the socket closes. */
export type ClosedReason =
  | "EXPIRED"
  | "REPLACED"
  | "BANNED"
  | "ERASED"
  | "SHUTDOWN"
  | "REMOVED"
  | "DISCONNECTED"
  | LobbyClosedReason;

/** The player was kicked, is no longer in the lobby, or the lobby is over. */
export type LobbyClosedReason = "KICKED" | "LEFT" | "CLOSED";

/** Close codes of a lost connection: the seat is kept for a while. */
export const DROPPED: ReadonlySet<number> = new Set([1001, 1005, 1006]);

export const SEND_BUFFER_MAX_BYTES = 256 * 1024;
export const SESSIONS_MAX = 5;
export const MESSAGES_PER_SECOND_MAX = 20;
export const HEARTBEAT_SECONDS = 5;
export const EXPIRY_NOTICE_SECONDS = 60;
export const RECONNECT_SECONDS = 20;
