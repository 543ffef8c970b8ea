import { fnv1a } from "../../kernel/ids.ts";
import { closeLobby } from "./close.ts";
import { type Member, playersOf } from "./state.ts";
import { type LobbyEdit, announce, touch } from "./edit.ts";

export const setHost = (edit: LobbyEdit, { playerId }: Member): void => {
  const { lobby } = edit;
  const previousHost = lobby.hostPlayerId;
  lobby.hostPlayerId = playerId;
  touch(edit);
  announce(edit, "lobby.host_changed", { lobbyId: lobby.id, previousHost, newHost: playerId });
};

/** Replaces a host who has left: by a present member, or else by an absent one; or closes the lobby. */
export const migrateHost = (edit: LobbyEdit): void => {
  const { lobby } = edit;
  const { hostMigration } = lobby.settings;
  if (hostMigration === "CLOSE") return closeLobby(edit, "HOST_LEFT");
  const players = playersOf(lobby);
  const present = players.filter(({ status }) => status !== "DISCONNECTED");
  const heirs = present.length > 0 ? present : players;
  const chosen = hostMigration === "RANDOM" ? fnv1a(`${lobby.id}:${lobby.version}`) % heirs.length : 0;
  setHost(edit, heirs[chosen]!);
};
