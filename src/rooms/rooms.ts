import type { App } from "../app.ts";
import type { RoomKind } from "../domain/kernel/live-rooms.ts";
import { chatRoom } from "./chat-room.ts";
import { eventsRoom } from "./events-room.ts";
import type { GameRoom } from "./mirror-room.ts";
import { leaderboardRoom } from "./leaderboard-room.ts";
import { lobbiesRoom } from "./lobbies-room.ts";
import { lobbyRoom } from "./lobby-room.ts";
import { playerRoom } from "./player-room.ts";
import { RefreshSlots } from "./refreshed-room.ts";

/** All rooms, by the name under which clients join. */
export const gameRooms = (app: App): Record<RoomKind, GameRoom> => {
  const slots = new RefreshSlots();
  return {
    player: playerRoom(app),
    leaderboard: leaderboardRoom(app, slots),
    chat: chatRoom(app),
    lobby: lobbyRoom(app),
    lobbies: lobbiesRoom(app, slots),
    events: eventsRoom(app, slots),
  };
};
