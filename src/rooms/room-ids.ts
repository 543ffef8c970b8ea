import { createHash } from "node:crypto";

/** Rooms of one board, one after another as they fill up. */
export const BOARD_SHARDS = 32;

/** A room id from what the room is about: the socket path takes only letters, digits, `_` and `-`. */
const roomId = (...parts: readonly (string | number)[]): string =>
  createHash("sha256").update(parts.join("\0")).digest("base64url").slice(0, 22);

export const playerRoomId = (projectId: string, playerId: string): string =>
  roomId("player", projectId, playerId);

export type BoardRoomKey = { projectId: string; leaderboardKey: string; top: number };

export const leaderboardRoomId = ({ projectId, leaderboardKey, top }: BoardRoomKey, shard: number): string =>
  roomId("leaderboard", projectId, leaderboardKey, top, shard);
