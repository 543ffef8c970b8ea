import { createHash } from "node:crypto";
import { matchMaker } from "@colyseus/core";
import { DomainError } from "../domain/kernel/errors.ts";

/** Derives a room id from the room's subject: the socket path only allows letters, digits, `_` and `-`. */
export const roomId = (...parts: readonly (string | number)[]): string =>
  createHash("sha256").update(parts.join("\0")).digest("base64url").slice(0, 22);

export const playerRoomId = (projectId: string, playerId: string): string =>
  roomId("player", projectId, playerId);

export const lobbyRoomId = (projectId: string, lobbyId: string): string =>
  roomId("lobby", projectId, lobbyId);

const RETRY_SECONDS = 10;

/** The rooms of one subject, which are opened one after another as they fill up. */
export type Shards = { subject: readonly (string | number)[]; count: number; what: string };

/**
 * Returns the first id of `shards` that no room has; if two rooms take one id simultaneously, the driver
 * keeps one.
 * @throws DomainError SERVICE_UNAVAILABLE when all are taken
 */
export const freeRoomId = async ({ subject, count, what }: Shards): Promise<string> => {
  for (let shard = 0; shard < count; shard++) {
    const id = roomId(...subject, shard);
    if (!(await matchMaker.driver.has(id))) return id;
  }
  const retry = { retryAfterSeconds: RETRY_SECONDS };
  throw new DomainError("SERVICE_UNAVAILABLE", `too many clients watch this ${what}: try again later`, retry);
};
