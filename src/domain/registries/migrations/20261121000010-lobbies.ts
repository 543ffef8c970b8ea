import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

const TABLES = ["lobbies", "lobby_members", "lobby_invites", "lobby_bans", "lobby_matches"];

/** Lobbies, their members, and their games. */
export class Migration20261121000010 extends Migration {
  override up(): void {
    for (const statement of [
      ...this.lobbies(),
      ...this.members(),
      ...TABLES.flatMap((table) => byProject(table)),
    ])
      this.addSql(statement);
  }

  private lobbies(): string[] {
    return [
      `create table lobbies (
        project_id uuid not null,
        id uuid not null,
        code text not null,
        name text not null,
        mode text not null,
        visibility text not null check (visibility in ('PUBLIC', 'PRIVATE', 'FRIENDS')),
        passcode_hash text,
        status text not null check (status in ('OPEN', 'STARTING', 'IN_GAME', 'CLOSED')),
        host_player_id uuid,
        min_players smallint not null check (min_players >= 1),
        max_players smallint not null check (max_players >= min_players),
        member_count smallint not null default 0 check (member_count between 0 and max_players),
        spectator_count smallint not null default 0,
        settings jsonb not null,
        metadata jsonb not null default '{}',
        private_data jsonb not null default '{}',
        version int not null default 1,
        channel_id uuid,
        match_id uuid,
        seed text,
        starts_at timestamptz(3),
        started_at timestamptz(3),
        ended_at timestamptz(3),
        close_reason text,
        results json,
        created_via text not null check (created_via in ('API', 'PLAYER', 'QUICKPLAY')),
        due_at timestamptz(3),
        expires_at timestamptz(3) not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        primary key (project_id, id)) with (fillfactor = 70)`,
      `create unique index lobbies_code_idx on lobbies (project_id, code) where status <> 'CLOSED'`,
      `create index lobbies_list_idx on lobbies (project_id, status, created_at desc)`,
      // The fullest lobby with a free seat comes first.
      `create index lobbies_quickplay_idx on lobbies (project_id, mode, member_count desc, created_at, id)
        where status = 'OPEN' and visibility = 'PUBLIC' and passcode_hash is null
          and member_count < max_players`,
      `create index lobbies_metadata_idx on lobbies using gin (metadata jsonb_path_ops)
        where status = 'OPEN'`,
      // The next time-based change: a start, the end of somebody's grace period, of a game or of the lobby.
      `create index lobbies_due_idx on lobbies (due_at) where status <> 'CLOSED'`,
      `create index lobbies_closed_idx on lobbies (ended_at) where status = 'CLOSED'`,
    ];
  }

  private members(): string[] {
    return [
      `create table lobby_members (
        project_id uuid not null,
        lobby_id uuid not null,
        player_id uuid not null,
        mode text not null,
        status text not null check (status in ('JOINED', 'READY', 'DISCONNECTED', 'LEFT', 'KICKED')),
        role text not null check (role in ('PLAYER', 'SPECTATOR')),
        is_active boolean generated always as (status in ('JOINED', 'READY', 'DISCONNECTED')) stored,
        is_ready boolean not null default false,
        team smallint,
        slot smallint,
        data jsonb not null default '{}',
        presence text not null default 'API' check (presence in ('API', 'SOCKET')),
        grace_until timestamptz(3),
        joined_at timestamptz(3) not null,
        left_at timestamptz(3),
        primary key (project_id, lobby_id, player_id))`,
      `create unique index lobby_members_one_idx on lobby_members (project_id, player_id, mode)
        where status in ('JOINED', 'READY', 'DISCONNECTED') and role = 'PLAYER'`,
      `create index lobby_members_player_idx on lobby_members (project_id, player_id)`,
      `create table lobby_invites (
        project_id uuid not null,
        lobby_id uuid not null,
        player_id uuid not null,
        invited_by uuid,
        status text not null check (status in ('PENDING', 'ACCEPTED', 'DECLINED', 'EXPIRED')),
        expires_at timestamptz(3) not null,
        created_at timestamptz(3) not null,
        primary key (project_id, lobby_id, player_id))`,
      `create index lobby_invites_player_idx on lobby_invites (project_id, player_id)`,
      `create table lobby_bans (
        project_id uuid not null,
        lobby_id uuid not null,
        player_id uuid not null,
        reason text,
        created_at timestamptz(3) not null,
        primary key (project_id, lobby_id, player_id))`,
      `create index lobby_bans_player_idx on lobby_bans (project_id, player_id)`,
      // One row per game: its results are accepted once.
      `create table lobby_matches (
        project_id uuid not null,
        id uuid not null,
        lobby_id uuid not null,
        players jsonb not null,
        started_at timestamptz(3) not null,
        ended_at timestamptz(3),
        results json,
        primary key (project_id, id))`,
      `create index lobby_matches_lobby_idx on lobby_matches (project_id, lobby_id)`,
    ];
  }

  override down(): void {
    for (const table of TABLES) this.addSql(`drop table ${table}`);
  }
}
