import { z } from "zod";
import { conflict, invalid } from "../../kernel/errors.ts";
import { checkSizes } from "./create.ts";
import { Data, Name, Passcode, PlayersMax, PlayerText, Visibility } from "./fields.ts";
import { LOBBY_DATA_MAX_BYTES, LOBBY_PLAYERS_MAX, MEMBER_DATA_MAX_BYTES } from "./limits.ts";
import { freeSlot } from "./membership.ts";
import { actingMember, notInLobby, requireHost } from "./rights.ts";
import { mergeSettings, SettingsPatch } from "./settings.ts";
import { autoStart } from "./start.ts";
import { findMember, type LobbyState, type Member, playersOf } from "./state.ts";
import { type LobbyEdit, touch } from "./edit.ts";
import type { LobbyActor } from "../../kernel/events/lobby-views.ts";

export const LobbyPatch = z.object({
  version: z.int().min(1).meta({ description: "The version that is changed; 409 VERSION_CONFLICT if older" }),
  name: Name.optional(),
  metadata: Data(LOBBY_DATA_MAX_BYTES).optional(),
  privateData: Data(LOBBY_DATA_MAX_BYTES).optional(),
  settings: SettingsPatch.optional(),
  maxPlayers: PlayersMax.optional(),
  passcode: Passcode.nullish(),
  visibility: Visibility.optional(),
});
export type LobbyPatch = z.output<typeof LobbyPatch>;

/** Prefix of hashes: a passcode in plain text here is a bug. */
const HASHED = /^\$argon2/;

const setPasscode = (lobby: LobbyState, passcode: string | null | undefined): void => {
  if (passcode === undefined) return;
  if (passcode !== null && !HASHED.test(passcode)) throw new Error("the passcode was not hashed");
  lobby.passcodeHash = passcode;
};

/** Clears slots in teams that no longer exist. */
const fitTeams = (edit: LobbyEdit): void => {
  const { lobby } = edit;
  const { teams } = lobby.settings;
  for (const player of playersOf(lobby)) {
    const { team, slot } = player;
    const isFit = teams ? team === null || (team <= teams.count && slot! <= teams.size) : team === null;
    if (isFit && (teams || slot !== null)) continue;
    Object.assign(player, { team: null, slot: null });
    if (!teams) player.slot = freeSlot(lobby, null);
    touch(edit, player);
  }
};

const changeSize = (lobby: LobbyState, { maxPlayers, settings }: LobbyPatch): void => {
  if (maxPlayers === undefined && settings === undefined) return;
  if (lobby.status !== "OPEN")
    throw conflict("LOBBY_NOT_OPEN", "settings and maxPlayers can only change while the lobby is OPEN");
  const next = {
    maxPlayers: maxPlayers ?? lobby.maxPlayers,
    settings: mergeSettings(lobby.settings, settings),
  };
  checkSizes({ minPlayers: lobby.minPlayers, ...next });
  const { length } = playersOf(lobby);
  if (next.maxPlayers < length) throw conflict("LOBBY_FULL", `the lobby has ${length} players`);
  Object.assign(lobby, next);
};

/**
 * Changes a lobby's properties; `patch.passcode` is hashed already.
 * @throws DomainError VALIDATION_ERROR; FORBIDDEN NOT_HOST; CONFLICT: VERSION_CONFLICT, LOBBY_NOT_OPEN,
 * LOBBY_FULL
 */
export const updateLobby = (edit: LobbyEdit, actor: LobbyActor, patch: LobbyPatch): void => {
  const { lobby } = edit;
  requireHost(lobby, actor);
  if (lobby.status === "CLOSED") throw conflict("LOBBY_NOT_OPEN", "the lobby is CLOSED");
  if (patch.version !== lobby.version)
    throw conflict("VERSION_CONFLICT", `the lobby is at version ${lobby.version}`);
  const { name, metadata, privateData, visibility } = patch;
  changeSize(lobby, patch);
  const given = Object.entries({ name, metadata, privateData, visibility }).filter(
    ([, v]) => v !== undefined,
  );
  Object.assign(lobby, Object.fromEntries(given));
  setPasscode(lobby, patch.passcode);
  fitTeams(edit);
  touch(edit);
  if (patch.maxPlayers !== undefined || patch.settings !== undefined) autoStart(edit);
};

export const MemberPatch = z.object({
  playerId: PlayerText.optional().meta({ description: "The member; default: who acts" }),
  team: z.int().min(1).max(LOBBY_PLAYERS_MAX).nullish(),
  slot: z.int().min(1).max(LOBBY_PLAYERS_MAX).optional(),
  data: Data(MEMBER_DATA_MAX_BYTES).optional(),
});
export type MemberPatch = z.output<typeof MemberPatch>;

const targetOf = (lobby: LobbyState, actor: LobbyActor, playerId: string | undefined): Member => {
  if (playerId === undefined) return actingMember(lobby, actor);
  const member = findMember(lobby, playerId);
  if (!member) throw notInLobby();
  if (actor.kind !== "PLAYER" || actor.playerId !== member.playerId) requireHost(lobby, actor);
  return member;
};

/** Teams and slots can be chosen before a game, unless they are assigned. */
const refusePlacing = ({ status, settings }: LobbyState, { role }: Member, patch: MemberPatch): void => {
  if (role === "SPECTATOR") throw invalid("team", "spectators have none");
  if (status !== "OPEN") throw conflict("LOBBY_NOT_OPEN", `the lobby is ${status}`);
  if (settings.teams && settings.teams.assignment !== "MANUAL")
    throw invalid("team", `is assigned at the start: ${settings.teams.assignment}`);
  if (patch.team && !(settings.teams && patch.team <= settings.teams.count))
    throw invalid("team", "is not a team of the lobby");
};

/** Returns the requested free slot, or the lowest one of the team. */
const slotIn = (
  lobby: LobbyState,
  member: Member,
  { team, slot }: { team: number | null; slot?: number },
) => {
  const size = lobby.settings.teams?.size ?? lobby.maxPlayers;
  const others = playersOf(lobby).filter((other) => other !== member && other.team === team);
  const wanted = slot ?? freeSlot({ ...lobby, members: others }, team);
  if (slot === undefined && wanted > size) throw conflict("TEAM_FULL", "the team is full");
  if (wanted > size) throw invalid("slot", `is at most ${size}`);
  if (others.some((other) => other.slot === wanted)) throw conflict("SLOT_TAKEN", "the slot is taken");
  return wanted;
};

const place = (lobby: LobbyState, member: Member, patch: MemberPatch): void => {
  refusePlacing(lobby, member, patch);
  const team = patch.team === undefined ? member.team : patch.team;
  const { slot } = patch;
  if (lobby.settings.teams && team === null) {
    if (slot !== undefined) throw invalid("slot", "belongs to a team: name one");
    return void Object.assign(member, { team, slot: null });
  }
  member.slot = slotIn(lobby, member, { team, ...(slot === undefined ? {} : { slot }) });
  member.team = team;
};

/**
 * Changes a member's place or data: by the member, or by the host.
 * @throws DomainError VALIDATION_ERROR; FORBIDDEN NOT_HOST; CONFLICT: NOT_IN_LOBBY, LOBBY_NOT_OPEN,
 * TEAM_FULL, SLOT_TAKEN
 */
export const updateMember = (edit: LobbyEdit, actor: LobbyActor, patch: MemberPatch): void => {
  const { lobby } = edit;
  const member = targetOf(lobby, actor, patch.playerId);
  if (patch.team !== undefined || patch.slot !== undefined) place(lobby, member, patch);
  if (patch.data !== undefined) member.data = patch.data;
  touch(edit, member);
  if (patch.team) autoStart(edit);
};
