import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { LOCK_SPACES } from "../../kernel/advisory-locks.ts";
import { invalid, notFound } from "../../kernel/errors.ts";
import { fnv1a } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { savepoint } from "../../kernel/savepoint.ts";
import { unanswered } from "../../kernel/statements.ts";
import { createLobby, Mode } from "./create.ts";
import { Data, PlayersMax } from "./fields.ts";
import { seatPlayer } from "./join.ts";
import { LOBBY_DATA_MAX_BYTES, LOBBY_PLAYERS_MAX, MEMBER_DATA_MAX_BYTES } from "./limits.ts";
import { lockSeatPlayer, refuseSeated, type SeatPlayer } from "./seat-player.ts";
import { SettingsPatch } from "./settings.ts";
import { saveEdit, takeLobby } from "./edit.ts";
import type { LobbyChange } from "../../kernel/events/lobby-views.ts";

export const Quickplay = z.object({
  mode: Mode,
  metadata: Data(LOBBY_DATA_MAX_BYTES).optional().meta({
    description: "The lobby's metadata must contain it; a lobby that is made has it",
  }),
  data: Data(MEMBER_DATA_MAX_BYTES).optional(),
  partySize: z.int().min(1).max(LOBBY_PLAYERS_MAX).default(1).meta({
    description: "Seats that must be free. Only the caller takes one; the party joins by id",
  }),
  createIfNone: z.boolean().default(true),
  minPlayers: z.int().min(1).max(LOBBY_PLAYERS_MAX).default(2),
  maxPlayers: PlayersMax.default(4),
  settings: SettingsPatch.optional(),
  near: z.never("near is not available yet").optional(),
  maxWaitMs: z.never("maxWaitMs is not available yet: ask again").optional(),
});
export type Quickplay = z.output<typeof Quickplay>;

/** Maximum number of searches that wait for others before a lobby is created anyway. */
const LOOKS_MAX = 20;

type Search = { projectId: string; player: SeatPlayer } & Quickplay;

/** The fullest public lobby with enough free seats for a party, the oldest of equals. */
const candidates = ({ projectId, player, mode, metadata, partySize }: Search): RawBuilder<unknown> => sql`
  from lobbies l
  where l.project_id = ${projectId} and l.mode = ${mode} and l.status = 'OPEN' and l.visibility = 'PUBLIC'
    and l.passcode_hash is null and l.member_count < l.max_players
    and l.member_count + ${partySize}::int <= l.max_players
    and l.metadata @> ${JSON.stringify(metadata ?? {})}::jsonb
    and not exists (select from lobby_bans b
      where b.project_id = l.project_id and b.lobby_id = l.id and b.player_id = ${player.playerId})
    and not exists (select from lobby_members m
      where m.project_id = l.project_id and m.lobby_id = l.id and m.player_id = ${player.playerId} and m.is_active)
  order by l.member_count desc, l.created_at, l.id limit 1`;

const findFree = async ({ db }: Work, search: Search): Promise<string | undefined> => {
  const { rows } = await sql<{ id: string }>`
    select l.id ${candidates(search)} for update of l skip locked`.execute(db);
  return rows[0]?.id;
};

class NoneFree extends Error {}

/**
 * Looks for a lobby that no other transaction has locked. A row that was locked and turned out to be full
 * stays locked, which the rollback to the savepoint undoes: nothing may be locked while waiting for the
 * mode's lock.
 */
const findUnheld = async (work: Work, search: Search): Promise<string | undefined> => {
  try {
    return await savepoint(work, async () => {
      const found = await findFree(work, search);
      if (found === undefined) throw new NoneFree();
      return found;
    });
  } catch (error) {
    if (error instanceof NoneFree) return undefined;
    throw error;
  }
};

/**
 * Under the mode's lock: waits for the transaction that has locked a lobby, and searches again if it is full
 * then.
 */
const findWaiting = async (work: Work, search: Search): Promise<string | undefined> => {
  for (let i = 0; i < LOOKS_MAX; i++) {
    const found = await sql<{ id: string }>`
      select l.id ${candidates(search)} for update of l`.execute(work.db);
    if (found.rows[0]) return found.rows[0].id;
    const seen = await sql`select l.id ${candidates(search)}`.execute(work.db);
    if (seen.rows.length === 0) return undefined;
  }
  return undefined;
};

const lockMode = async ({ db }: Work, { projectId, mode }: Search): Promise<void> => {
  const key = fnv1a(`${projectId}\0${mode}`) | 0;
  await unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.QUICKPLAY}::int, ${key}::int)`,
  );
};

const findLobby = async (work: Work, search: Search): Promise<string | undefined> => {
  const unheld = await findUnheld(work, search);
  if (unheld !== undefined || !search.createIfNone) return unheld;
  await lockMode(work, search);
  return findWaiting(work, search);
};

export type Quickplayed = LobbyChange & { created: boolean };

/**
 * Seats a player in the fullest lobby of a mode with a free seat, or in a new one.
 * @throws DomainError VALIDATION_ERROR; NOT_FOUND when there is none and none is to be created; FORBIDDEN
 * PLAYER_BANNED; CONFLICT: ALREADY_IN_LOBBY, LOBBY_LIMIT, PLAYER_INACTIVE
 */
export const quickplay = async (
  work: Work,
  projectId: string,
  playerId: string,
  wish: Quickplay,
): Promise<Quickplayed> => {
  if (wish.createIfNone && wish.partySize > wish.maxPlayers)
    throw invalid("partySize", `a lobby of ${wish.maxPlayers} players has no room for the party`);
  const player = await lockSeatPlayer(work, projectId, playerId);
  const { mode, minPlayers, maxPlayers, metadata, settings, data } = wish;
  if (player.onePerMode) await refuseSeated(work, projectId, { playerId: player.playerId, seatKey: mode });
  const lobbyId = await findLobby(work, { ...wish, projectId, player });
  if (lobbyId !== undefined) {
    const edit = (await takeLobby(work, { projectId, lobbyId }))!;
    await seatPlayer(edit, player, { data });
    return { ...(await saveEdit(edit)), created: false };
  }
  if (!wish.createIfNone) throw notFound("a lobby with room");
  const made = await createLobby(
    work,
    projectId,
    { mode, minPlayers, maxPlayers, metadata, settings, visibility: "PUBLIC" },
    { hostPlayerId: player.playerId, via: "QUICKPLAY" },
  );
  return { ...made, created: true };
};
