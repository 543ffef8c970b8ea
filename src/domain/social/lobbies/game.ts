import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { conflict, invalid, numbered } from "../../kernel/errors.ts";
import {
  type LobbyActor,
  type LobbyChange,
  type LobbyResult,
  OUTCOMES,
} from "../../kernel/events/social-views.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId, partitionOf } from "../../kernel/ids.ts";
import { definedOf } from "../../kernel/json.ts";
import type { Work } from "../../kernel/work.ts";
import { checkSizes } from "./create.ts";
import {
  actingMember,
  announce,
  findPeople,
  type LobbyEdit,
  notInLobby,
  type People,
  requireHost,
  saveIfChanged,
  takeLobby,
  touch,
} from "./edit.ts";
import {
  Data,
  LOBBY_DATA_MAX_BYTES,
  LOBBY_LIFE_MS,
  LOBBY_PLAYERS_MAX,
  MEMBER_DATA_MAX_BYTES,
  mergeSettings,
  Name,
  Passcode,
  PlayersMax,
  PlayerText,
  SettingsPatch,
  Visibility,
} from "./fields.ts";
import {
  autoStart,
  beginGame,
  clearTeams,
  closeLobby,
  freeSlot,
  removeMember,
  secondsSince,
  setAway,
} from "./membership.ts";
import {
  findMember,
  isOver,
  type LobbyRef,
  type LobbyState,
  type Lock,
  type Member,
  playersOf,
  type StoredResult,
} from "./state.ts";
import { type NewEvent, partsOf, storeEvents } from "../../tracking/event-input.ts";

/** Maximum number of lobbies per read of a sweep. */
export const DUE_AT_ONCE = 100;

const isDue = (time: Date | null, now: Date): boolean => time !== null && time <= now;

/** Marks members without a heartbeat as away, and removes those whose grace period is over. */
const endGraces = (edit: LobbyEdit): void => {
  const { lobby, work } = edit;
  const due: Member[] = lobby.members.filter(({ graceUntil }) => isDue(graceUntil, work.now));
  for (const member of due) {
    // The removal of an earlier one may have closed the lobby.
    if (edit.lobby.status === "CLOSED") return;
    if (member.status === "DISCONNECTED") removeMember(edit, member, "TIMEOUT");
    else setAway(edit, member);
  }
};

const advance = (edit: LobbyEdit): void => {
  const { lobby, work } = edit;
  if (lobby.status === "CLOSED") return;
  endGraces(edit);
  if (lobby.status === "STARTING" && isDue(lobby.startsAt, work.now)) return beginGame(edit);
  if (edit.isChanged || lobby.status === "STARTING" || !isOver(lobby, work.now)) return;
  closeLobby(edit, lobby.status === "IN_GAME" ? "ABORTED" : "EXPIRED");
};

/**
 * Applies a lobby's due time-based change: the start of a game, the end of a grace period, of a game or of
 * the lobby. A concurrent second call finds nothing due.
 * @param lock "skip" skips a lobby that another transaction has locked
 * @returns undefined when nothing was due
 */
export const advanceLobby = async (
  work: Work,
  ref: LobbyRef,
  lock?: Lock,
): Promise<LobbyChange | undefined> => {
  const edit = await takeLobby(work, ref, lock);
  if (!edit || edit.lobby.status === "CLOSED") return undefined;
  return saveIfChanged(edit, () => advance(edit));
};

const dueLobbies = (at: Date): RawBuilder<unknown> =>
  sql`from lobbies where status <> 'CLOSED' and due_at <= ${at.toISOString()}::timestamptz`;

/** Whether a lobby of any project has a due change. */
export const areLobbiesDue = (at: Date): RawBuilder<unknown> => sql`exists (select ${dueLobbies(at)})`;

/** A lobby with a due change, and when that was due, as PostgreSQL writes it. */
export type DueLobby = LobbyRef & { dueAt: string };

/** Returns the next lobbies of all projects with a due change, longest overdue first. @param after the last one */
export const findDueLobbies = async (
  { db, now }: Work,
  after?: DueLobby,
  limit = DUE_AT_ONCE,
): Promise<DueLobby[]> => {
  const beyond = after
    ? sql`and (due_at, id) > (${after.dueAt}::timestamptz, ${after.lobbyId}::uuid)`
    : sql``;
  const { rows } = await sql<DueLobby>`
    select project_id as "projectId", id as "lobbyId", due_at::text as "dueAt" ${dueLobbies(now)} ${beyond}
    order by due_at, id limit ${limit}`.execute(db);
  return rows;
};

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
  if (next.maxPlayers < length) throw conflict("LOBBY_FULL", `the lobby has ${numbered(length, "player")}`);
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
  Object.assign(lobby, definedOf({ name, metadata, privateData, visibility }));
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
  { team, slot }: { team: number | null; slot: number | undefined },
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
  member.slot = slotIn(lobby, member, { team, slot });
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

const Result = z.object({
  playerId: PlayerText,
  team: z.int().min(1).max(LOBBY_PLAYERS_MAX).nullish(),
  rank: z.int().min(1).max(1_000_000).nullish(),
  outcome: z.enum(OUTCOMES),
  score: z.number().min(-1e15).max(1e15).nullish(),
  stats: Data(MEMBER_DATA_MAX_BYTES).optional(),
});

/** The end of a game: a result for each player of the match, no more and no fewer. */
export const GameEnd = z.object({
  matchId: z.uuid().toLowerCase(),
  results: z
    .array(Result)
    .min(1)
    // Players may have joined and left.
    .max(LOBBY_PLAYERS_MAX * 10),
});
export type GameEnd = z.output<typeof GameEnd>;

/** Type of the tracked event that carries a player's result. */
const RESULT_EVENT = "lobby.result";

type Match = { players: string[]; endedAt: Date | null };

const findMatch = async (
  { db }: Work,
  { projectId, id }: LobbyState,
  matchId: string,
): Promise<Match | undefined> => {
  const { rows } = await sql<Match>`
    select players, ended_at as "endedAt" from lobby_matches
    where project_id = ${projectId} and id = ${matchId} and lobby_id = ${id}`.execute(db);
  return rows[0];
};

/** @throws DomainError VALIDATION_ERROR unless there is one result for each player of the match */
const readResults = (given: GameEnd["results"], people: People): LobbyResult[] => {
  const byExternal = new Map([...people].map(([id, external]) => [`ext:${external}`, id]));
  const seen = new Set<string>();
  const results = given.map(({ playerId: ref, team, rank, score, stats, outcome }, i) => {
    const playerId = byExternal.get(ref) ?? ref.toLowerCase();
    const externalUserId = people.get(playerId);
    if (externalUserId === undefined) throw invalid(`results.${i}.playerId`, "is not a player of the match");
    if (seen.has(playerId)) throw invalid(`results.${i}.playerId`, "has a result already");
    seen.add(playerId);
    const shown = { team: team ?? null, rank: rank ?? null, outcome, score: score ?? null };
    return { playerId, externalUserId, ...shown, ...(stats ? { stats } : {}) };
  });
  const missing = [...people.keys()].find((id) => !seen.has(id));
  if (missing !== undefined) throw invalid("results", `lack a result for player ${missing}`);
  return results;
};

/**
 * Ends a lobby's game: its results become events of the players, and the lobby closes or, with allowRematch,
 * opens again. Results of a match are accepted once: a second end changes nothing.
 * @throws DomainError VALIDATION_ERROR; CONFLICT: MATCH_UNKNOWN, INVALID_STATE
 */
export const endGame = async (edit: LobbyEdit, { matchId, results: given }: GameEnd): Promise<void> => {
  const { work, lobby } = edit;
  const match = await findMatch(work, lobby, matchId);
  if (!match) throw conflict("MATCH_UNKNOWN", "the lobby has no match with this id");
  if (match.endedAt !== null) return;
  if (lobby.status !== "IN_GAME" || lobby.matchId !== matchId)
    throw conflict("INVALID_STATE", "the match was aborted and accepts no results");
  const results = readResults(given, await findPeople(work, lobby.projectId, match.players));
  await storeResults(work, lobby, results);
  await writeResults(work, lobby, results);
  finish(edit, results);
};

const withoutNames = ({ externalUserId: _name, ...result }: LobbyResult): StoredResult => result;

const writeResults = async ({ db, now }: Work, lobby: LobbyState, results: LobbyResult[]): Promise<void> => {
  await sql`
    update lobby_matches
    set ended_at = ${now.toISOString()}::timestamptz,
      results = ${JSON.stringify(results.map(withoutNames))}::json
    where project_id = ${lobby.projectId} and id = ${lobby.matchId}`.execute(db);
};

const finish = (edit: LobbyEdit, results: LobbyResult[]): void => {
  const { lobby, work } = edit;
  const isRematch = lobby.settings.allowRematch && playersOf(lobby).length > 0;
  announce(edit, "lobby.game_finished", {
    lobbyId: lobby.id,
    matchId: lobby.matchId!,
    mode: lobby.mode,
    startedAt: lobby.startedAt!.toISOString(),
    endedAt: work.now.toISOString(),
    durationSeconds: secondsSince(lobby.startedAt, work.now)!,
    results,
    nextStatus: isRematch ? "OPEN" : "CLOSED",
  });
  lobby.results = results.map(withoutNames);
  if (isRematch) reopen(edit);
  else closeLobby(edit, "COMPLETED", results);
};

/** Resets everybody's readiness for the next game; absent members keep the rest of their grace period. */
const reopen = (edit: LobbyEdit): void => {
  const { lobby, work } = edit;
  Object.assign(lobby, { status: "OPEN", matchId: null, startedAt: null, seed: null });
  lobby.expiresAt = new Date(work.now.getTime() + LOBBY_LIFE_MS);
  for (const player of playersOf(lobby)) {
    player.isReady = false;
    if (player.status === "READY") player.status = "JOINED";
    touch(edit, player);
  }
  clearTeams(edit);
};

/** Stores results as events of their players, in the commit that ends the game. */
const storeResults = async (
  work: Work,
  lobby: LobbyState,
  results: readonly LobbyResult[],
): Promise<void> => {
  const events = results.map((result) => eventOf(work, lobby, result));
  await storeEvents(work, events);
  work.wakeEvents(partsOf(events));
};

const eventOf = ({ now }: Work, lobby: LobbyState, result: LobbyResult): NewEvent => {
  const { projectId, id: lobbyId, matchId, mode, startedAt } = lobby;
  const { playerId, externalUserId, ...of } = result;
  const durationSeconds = secondsSince(startedAt, now);
  // Keys of properties are kept sorted, as ingestion does.
  const properties: Json = { durationSeconds, lobbyId, matchId, mode, ...of };
  const json = JSON.stringify(inOrder(properties));
  return {
    id: newId(),
    p: projectId,
    u: externalUserId,
    t: RESULT_EVENT,
    d: json,
    ts: now.getTime(),
    at: now.getTime(),
    k: `lobby:${matchId}:${playerId}`,
    x: createHash("sha256").update(json).digest("hex").slice(0, 32),
    h: partitionOf(projectId, externalUserId),
  };
};

const inOrder = (properties: Json): Json =>
  Object.fromEntries(Object.entries(properties).toSorted(([a], [b]) => (a < b ? -1 : 1)));
