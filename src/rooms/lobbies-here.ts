import type { App } from "../app.ts";
import { type LobbyRef, readLobbyVersions } from "../domain/social/lobbies/commands.ts";
import type { LobbyChange } from "../domain/kernel/events/lobby-views.ts";
import { openRoomsOf } from "./mirror-room.ts";
import { lobbyRoomId } from "./room-ids.ts";
import type { Ticker } from "./ticker.ts";

/** An open room of a lobby. */
export type LobbyHere = {
  readonly roomId: string;
  readonly ref: LobbyRef;
  /** Takes the version that was read; undefined for a lobby that no longer exists. */
  look(version: number | undefined): void;
  /** Whether the lobby is open and shows the player in it. */
  hasMember(playerId: string): boolean;
  /** Shows a change that a join of this process has committed. */
  apply(change: LobbyChange): void;
};

/** Compares the open rooms of lobbies with the database: one query for all of this process. */
export const openLobbiesOf = (app: App): Ticker<LobbyHere> =>
  openRoomsOf<LobbyHere>(app, "lobby rooms", async (rooms) => {
    const refs = rooms.map(({ ref }) => ref);
    const versions = await app.transact((work) => readLobbyVersions(work, refs));
    for (const room of rooms) room.look(versions.get(room.ref.lobbyId));
  });

/** The lobbies that rooms of this process show: what joins need not read. */
export class LobbiesHere {
  readonly #rooms = new Map<string, LobbyHere>();

  add(room: LobbyHere): void {
    this.#rooms.set(room.roomId, room);
  }

  /** Does nothing for a room in whose place another one is shown. */
  remove(room: LobbyHere): void {
    if (this.#rooms.get(room.roomId) === room) this.#rooms.delete(room.roomId);
  }

  /** Whether a room shows the player as a member; the domain has the last word when the socket opens. */
  hasMember(ref: LobbyRef, playerId: string): boolean {
    return this.#roomOf(ref)?.hasMember(playerId) ?? false;
  }

  /** Shows a change at once, where there is a room. */
  show(ref: LobbyRef, change: LobbyChange): void {
    this.#roomOf(ref)?.apply(change);
  }

  #roomOf({ projectId, lobbyId }: LobbyRef): LobbyHere | undefined {
    return this.#rooms.get(lobbyRoomId(projectId, lobbyId));
  }
}
