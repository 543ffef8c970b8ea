import { sql } from "kysely";
import { unansweredKept } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";
import { type LobbyState, type Member, playersOf } from "./state.ts";

/** A game that begins. */
export type NewMatch = { id: string; playerIds: string[]; startedAt: Date };

/** The parts of a lobby's change that are written to the database. */
type Written = {
  work: Work;
  lobby: LobbyState;
  /** Members whose rows are to be written, including those who have left. */
  touched: ReadonlyMap<string, Member>;
  match: NewMatch | undefined;
};

const iso = (time: Date | null): string | null => time?.toISOString() ?? null;

const memberRow = (member: Member, now: Date) => {
  const isActive = ["JOINED", "READY", "DISCONNECTED"].includes(member.status);
  return {
    p: member.playerId,
    m: member.seatKey,
    s: member.status,
    r: member.role,
    rd: member.isReady,
    t: member.team,
    sl: member.slot,
    d: member.data,
    pr: member.presence,
    g: iso(member.graceUntil),
    j: iso(member.joinedAt),
    l: isActive ? null : now.toISOString(),
  };
};

const matchRows = (match: NewMatch | undefined): string =>
  JSON.stringify(match ? [{ id: match.id, p: match.playerIds, at: match.startedAt.toISOString() }] : []);

const lobbyRow = (lobby: LobbyState) => ({
  ...lobby,
  members: undefined,
  memberCount: playersOf(lobby).length,
  spectatorCount: lobby.members.length - playersOf(lobby).length,
});

/** Writes a lobby, its changed members and a beginning game: one statement. */
export const writeLobby = async ({ work, lobby, touched, match }: Written): Promise<void> => {
  const members = [...touched.values()].map((member) => memberRow(member, work.now));
  const { projectId, id } = lobby;
  await unansweredKept(
    work.db,
    sql`
    with m as (
      insert into lobby_members as m (project_id, lobby_id, player_id, mode, status, role, is_ready, team,
        slot, data, presence, grace_until, joined_at, left_at)
      select ${projectId}::uuid, ${id}::uuid, p, m, s, r, rd, t, sl, d, pr, g, j, l
      from json_to_recordset(${JSON.stringify(members)}::json) as x(p uuid, m text, s text, r text,
        rd boolean, t smallint, sl smallint, d jsonb, pr text, g timestamptz, j timestamptz, l timestamptz)
      on conflict (project_id, lobby_id, player_id) do update set
        mode = excluded.mode, status = excluded.status, role = excluded.role, is_ready = excluded.is_ready,
        team = excluded.team, slot = excluded.slot, data = excluded.data, presence = excluded.presence,
        grace_until = excluded.grace_until, joined_at = excluded.joined_at, left_at = excluded.left_at),
    g as (
      insert into lobby_matches (project_id, id, lobby_id, players, started_at)
      select ${projectId}::uuid, x.id, ${id}::uuid, p, at
      from json_to_recordset(${matchRows(match)}::json) as x(id uuid, p jsonb, at timestamptz))
    update lobbies l set
      name = x.name, visibility = x.visibility, passcode_hash = x."passcodeHash", status = x.status,
      host_player_id = x."hostPlayerId", max_players = x."maxPlayers", member_count = x."memberCount",
      spectator_count = x."spectatorCount", settings = x.settings, metadata = x.metadata,
      private_data = x."privateData", version = x.version, match_id = x."matchId", seed = x.seed,
      starts_at = x."startsAt", started_at = x."startedAt", ended_at = x."endedAt",
      close_reason = x."closeReason", results = x.results, due_at = x."dueAt", expires_at = x."expiresAt",
      updated_at = x."updatedAt"
    from json_to_record(${JSON.stringify(lobbyRow(lobby))}::json) as x(name text, visibility text,
      "passcodeHash" text, status text, "hostPlayerId" uuid, "maxPlayers" smallint, "memberCount" smallint,
      "spectatorCount" smallint, settings jsonb, metadata jsonb, "privateData" jsonb, version int,
      "matchId" uuid, seed text, "startsAt" timestamptz, "startedAt" timestamptz, "endedAt" timestamptz,
      "closeReason" text, results json, "dueAt" timestamptz, "expiresAt" timestamptz,
      "updatedAt" timestamptz)
    where l.project_id = ${projectId} and l.id = ${id}`,
  );
};
