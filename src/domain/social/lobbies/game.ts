import { createHash } from "node:crypto";
import { sql } from "kysely";
import { z } from "zod";
import { conflict, invalid } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId, partitionOf } from "../../kernel/ids.ts";
import { type NewEvent, partsOf } from "../../tracking/event-input.ts";
import { storeEvents } from "../../tracking/ingest.ts";
import type { Work } from "../../kernel/work.ts";
import { closeLobby, secondsSince } from "./close.ts";
import { Data, PlayerText } from "./fields.ts";
import { LOBBY_LIFE_MS, LOBBY_PLAYERS_MAX, MEMBER_DATA_MAX_BYTES } from "./limits.ts";
import { findPeople, type People } from "./show.ts";
import { type LobbyState, type StoredResult, playersOf } from "./state.ts";
import { clearTeams } from "./start.ts";
import { type LobbyEdit, announce, touch } from "./edit.ts";
import { type LobbyResult, OUTCOMES } from "../../kernel/events/lobby-views.ts";

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
export const RESULT_EVENT = "lobby.result";

type Match = { players: string[]; endedAt: Date | string | null };

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
