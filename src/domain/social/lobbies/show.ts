import { sql } from "kysely";
import type { PlayerRef } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import { type LobbyState, type Member, playersOf } from "./state.ts";
import type { LobbyMember, LobbyResult, LobbyView } from "../../kernel/events/lobby-views.ts";

/** External ids of players by id. */
export type People = ReadonlyMap<string, string>;

/** Reads the players named in the results of lobbies; no statement where there are none. */
export const readPeople = async (work: Work, lobbies: readonly LobbyState[]): Promise<People> => {
  const ids = lobbies.flatMap(({ results }) => (results ?? []).map(({ playerId }) => playerId));
  return ids.length === 0 ? new Map() : findPeople(work, lobbies[0]!.projectId, ids);
};

/** Returns external ids of players of a project; unknown ones are absent. */
export const findPeople = async (
  { db }: Work,
  projectId: string,
  ids: readonly string[],
): Promise<People> => {
  const { rows } = await sql<{ id: string; externalUserId: string }>`
    select id, external_user_id as "externalUserId" from players
    where project_id = ${projectId} and id = any(${`{${ids.join(",")}}`}::uuid[])`.execute(db);
  return new Map(rows.map(({ id, externalUserId }) => [id, externalUserId]));
};

const iso = (time: Date | null): string | null => time?.toISOString() ?? null;

export const showMember = ({ hostPlayerId }: LobbyState, member: Member): LobbyMember => ({
  playerId: member.playerId,
  externalUserId: member.externalUserId,
  displayName: member.displayName,
  status: member.status,
  isHost: member.playerId === hostPlayerId,
  role: member.role,
  team: member.team,
  slot: member.slot,
  data: member.data,
  joinedAt: member.joinedAt.toISOString(),
});

export const playerRef = ({ playerId, externalUserId }: PlayerRef): PlayerRef => ({
  playerId,
  externalUserId,
});

const showResults = ({ results }: LobbyState, people: People): LobbyResult[] | null =>
  results?.map((result) => ({ ...result, externalUserId: people.get(result.playerId) ?? "" })) ?? null;

export type Showing = { people: People; isPrivate: boolean };

/** Converts a lobby to its API form; `isPrivate` for members and servers, who see `privateData`. */
export const showLobby = (lobby: LobbyState, { people, isPrivate }: Showing): LobbyView => ({
  id: lobby.id,
  code: lobby.code,
  name: lobby.name,
  mode: lobby.mode,
  visibility: lobby.visibility,
  hasPasscode: lobby.passcodeHash !== null,
  status: lobby.status,
  hostPlayerId: lobby.hostPlayerId,
  minPlayers: lobby.minPlayers,
  maxPlayers: lobby.maxPlayers,
  memberCount: playersOf(lobby).length,
  settings: lobby.settings,
  metadata: lobby.metadata,
  ...(isPrivate ? { privateData: lobby.privateData } : {}),
  version: lobby.version,
  channelId: lobby.channelId,
  matchId: lobby.matchId,
  startsAt: iso(lobby.startsAt),
  startedAt: iso(lobby.startedAt),
  endedAt: iso(lobby.endedAt),
  closeReason: lobby.closeReason,
  results: showResults(lobby, people),
  members: lobby.members.map((member) => showMember(lobby, member)),
  expiresAt: lobby.expiresAt.toISOString(),
  createdAt: lobby.createdAt.toISOString(),
  updatedAt: lobby.updatedAt.toISOString(),
});
