import { createHash } from "node:crypto";
import { matchMaker } from "@colyseus/core";
import { DomainError } from "../domain/kernel/errors.ts";

/** Maximum number of rooms per board, opened one after another as they fill up. */
export const BOARD_SHARDS = 32;

/** Derives a room id from the room's subject: the socket path only allows letters, digits, `_` and `-`. */
const roomId = (...parts: readonly (string | number)[]): string =>
  createHash("sha256").update(parts.join("\0")).digest("base64url").slice(0, 22);

export const playerRoomId = (projectId: string, playerId: string): string =>
  roomId("player", projectId, playerId);

/** `board`: the value of a breakdown, "" without one. */
type BoardRoomKey = { projectId: string; leaderboardKey: string; board: string; top: number };

export const leaderboardRoomId = (
  { projectId, leaderboardKey, board, top }: BoardRoomKey,
  shard: number,
): string => roomId("leaderboard", projectId, leaderboardKey, board, top, shard);

/** Maximum number of rooms per channel, opened one after another as they fill up. */
export const CHAT_SHARDS = 64;

export const chatRoomId = (projectId: string, channelId: string, shard: number): string =>
  roomId("chat", projectId, channelId, shard);

export const lobbyRoomId = (projectId: string, lobbyId: string): string =>
  roomId("lobby", projectId, lobbyId);

/** Maximum number of rooms per list of lobbies, opened one after another as they fill up. */
export const LOBBIES_SHARDS = 32;

/** `mode` is "" for all modes; `filter` identifies the required metadata, "" for none. */
type LobbiesRoomKey = { projectId: string; mode: string; filter: string };

export const lobbiesRoomId = ({ projectId, mode, filter }: LobbiesRoomKey, shard: number): string =>
  roomId("lobbies", projectId, mode, filter, shard);

/** What a room of events shows; "" for all. */
type EventsRoomKey = { projectId: string; eventTypes: string; playerId: string; status: string };

export const eventsRoomId = (
  { projectId, eventTypes, playerId, status }: EventsRoomKey,
  shard: number,
): string => roomId("events", projectId, eventTypes, playerId, status, shard);

const RETRY_SECONDS = 10;

/**
 * Returns the first id of `shards` that no room has; if two rooms take one id simultaneously, the driver
 * keeps one.
 * @throws DomainError SERVICE_UNAVAILABLE when all are taken
 */
export const freeRoomId = async (
  idOf: (shard: number) => string,
  shards: number,
  what: string,
): Promise<string> => {
  for (let shard = 0; shard < shards; shard++) {
    const id = idOf(shard);
    if (!(await matchMaker.driver.has(id))) return id;
  }
  const retry = { retryAfterSeconds: RETRY_SECONDS };
  throw new DomainError("SERVICE_UNAVAILABLE", `too many clients watch this ${what}: try again later`, retry);
};
