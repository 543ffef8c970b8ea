import { defineRoom, type RegisteredHandler } from "@colyseus/core";
import type { App } from "../app.ts";
import type { RoomKind } from "../domain/kernel/live-rooms.ts";
import { chatRoom } from "./chat-room.ts";
import { leaderboardRoom } from "./leaderboard-room.ts";
import { lobbiesRoom } from "./lobbies-room.ts";
import { lobbyRoom } from "./lobby-room.ts";
import { playerRoom } from "./player-room.ts";
import { RefreshSlots } from "./refresh-slots.ts";

/**
 * All rooms by the name under which clients join, with the pinned options that select a room of that name.
 */
export const gameRooms = (app: App): Record<RoomKind, RegisteredHandler> => {
  const slots = new RefreshSlots();
  return {
    player: defineRoom(playerRoom(app)).filterBy(["projectId", "playerId"]),
    leaderboard: defineRoom(leaderboardRoom(app, slots)).filterBy([
      "projectId",
      "leaderboardKey",
      "board",
      "top",
    ]),
    chat: defineRoom(chatRoom(app)).filterBy(["projectId", "channelId"]),
    lobby: defineRoom(lobbyRoom(app)).filterBy(["projectId", "lobbyId"]),
    lobbies: defineRoom(lobbiesRoom(app, slots)).filterBy(["projectId", "mode", "filter"]),
  };
};
