import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

const TABLES = [
  "chat_channels",
  "chat_members",
  "chat_messages",
  "chat_reactions",
  "chat_sanctions",
  "chat_reports",
  "chat_word_lists",
];

/** Chat channels, messages and moderation. */
export class Migration20261121000011 extends Migration {
  override up(): void {
    for (const statement of [
      ...this.channels(),
      ...this.messages(),
      ...this.moderation(),
      ...this.told(),
      ...TABLES.flatMap((table) => byProject(table)),
    ])
      this.addSql(statement);
  }

  private channels(): string[] {
    return [
      `create table chat_channels (
        project_id uuid not null,
        id uuid not null,
        kind text not null check (kind in ('PROJECT', 'LOBBY', 'DIRECT', 'GROUP')),
        key text,
        name text,
        lobby_id uuid,
        direct_key text,
        settings jsonb not null,
        status text not null check (status in ('ACTIVE', 'LOCKED', 'ARCHIVED')),
        last_seq bigint not null default 0,
        read_only_at timestamptz(3),
        delete_at timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        primary key (project_id, id)) with (fillfactor = 70)`,
      `create unique index chat_channels_key_idx on chat_channels (project_id, key) where key is not null`,
      `create unique index chat_channels_lobby_idx on chat_channels (project_id, lobby_id)
        where lobby_id is not null`,
      `create unique index chat_channels_direct_idx on chat_channels (project_id, direct_key)
        where direct_key is not null`,
      `create index chat_channels_delete_idx on chat_channels (delete_at) where delete_at is not null`,
      `create table chat_members (
        project_id uuid not null,
        channel_id uuid not null,
        player_id uuid not null,
        role text not null check (role in ('OWNER', 'MODERATOR', 'MEMBER')),
        last_read_seq bigint not null default 0,
        notify text not null check (notify in ('ALL', 'MENTIONS', 'NONE')),
        joined_at timestamptz(3) not null,
        left_at timestamptz(3),
        primary key (project_id, channel_id, player_id))`,
      `create index chat_members_player_idx on chat_members (project_id, player_id)`,
    ];
  }

  private messages(): string[] {
    return [
      `create table chat_messages (
        project_id uuid not null,
        channel_id uuid not null,
        seq bigint not null,
        id uuid not null,
        sender_id uuid,
        type text not null check (type in ('TEXT', 'SYSTEM')),
        content text not null,
        original text,
        mentions uuid[] not null default '{}',
        reply_to bigint,
        client_msg_id text,
        client_key text generated always as
          (channel_id::text || coalesce(sender_id::text, '') || client_msg_id) stored,
        moderation text not null check (moderation in ('VISIBLE', 'MASKED', 'HELD', 'REMOVED')),
        flags text[] not null default '{}',
        is_shadowed boolean not null default false,
        edited_at timestamptz(3),
        deleted_at timestamptz(3),
        deleted_by text,
        created_at timestamptz(3) not null,
        primary key (project_id, channel_id, seq))`,
      // One column for all three: if the planner estimates another index as equally good, it reads whole
      // channels instead.
      `create unique index chat_messages_client_idx on chat_messages (project_id, client_key)
        where client_key is not null`,
      `create index chat_messages_sender_idx on chat_messages (project_id, sender_id, created_at desc)
        where sender_id is not null`,
      `create table chat_reactions (
        project_id uuid not null,
        channel_id uuid not null,
        seq bigint not null,
        player_id uuid not null,
        emoji text not null,
        created_at timestamptz(3) not null,
        primary key (project_id, channel_id, seq, player_id, emoji))`,
      `create index chat_reactions_player_idx on chat_reactions (project_id, player_id)`,
    ];
  }

  private moderation(): string[] {
    return [
      `create table chat_sanctions (
        project_id uuid not null,
        id uuid not null,
        player_id uuid not null,
        channel_id uuid,
        kind text not null check (kind in ('MUTE', 'BAN', 'SHADOW_MUTE')),
        reason text not null,
        is_automatic boolean not null default false,
        expires_at timestamptz(3),
        created_by text not null,
        created_at timestamptz(3) not null,
        revoked_at timestamptz(3),
        revoked_by text,
        appeal text,
        appealed_at timestamptz(3),
        appeal_status text check (appeal_status in ('OPEN', 'ACCEPTED', 'REJECTED')),
        primary key (project_id, id))`,
      `create index chat_sanctions_player_idx on chat_sanctions (project_id, player_id)`,
      `create table chat_reports (
        project_id uuid not null,
        id uuid not null,
        channel_id uuid,
        seq bigint,
        reporter_id uuid,
        sender_id uuid,
        reason text not null,
        note text,
        status text not null check (status in ('OPEN', 'IN_REVIEW', 'RESOLVED', 'DISMISSED')),
        action text check (action in ('NONE', 'REMOVE', 'WARN', 'MUTE', 'BAN')),
        assignee text,
        created_at timestamptz(3) not null,
        resolved_at timestamptz(3),
        resolved_by text,
        primary key (project_id, id))`,
      `create unique index chat_reports_once_idx on chat_reports (project_id, channel_id, seq, reporter_id)
        where reporter_id is not null`,
      `create index chat_reports_reporter_idx on chat_reports (project_id, reporter_id)
        where reporter_id is not null`,
      `create index chat_reports_queue_idx on chat_reports (project_id, status, id)`,
      `create index chat_reports_sender_idx on chat_reports (project_id, sender_id)`,
      `create table chat_word_lists (
        project_id uuid not null,
        key text not null,
        action text not null check (action in ('MASK', 'BLOCK', 'HOLD', 'ALLOW')),
        match text not null check (match in ('WORD', 'SUBSTRING')),
        words json not null,
        version uuid not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        primary key (project_id, key))`,
    ];
  }

  /**
   * Rows searched when a person is erased: events about several players, and mentions in others' messages.
   */
  private told(): string[] {
    return [
      `create index outbox_shared_idx on outbox (project_id, id)
        where player_id is null and type <> 'leaderboard.entries_changed'`,
      `create index outbox_mention_idx on outbox (project_id, (data->'data'->>'playerId'))
        where type = 'inbox.message' and data->>'type' = 'chat-mention'`,
      `create index inbox_messages_mention_idx on inbox_messages (project_id, (data->>'playerId'))
        where type = 'chat-mention'`,
    ];
  }

  override down(): void {
    for (const index of ["outbox_shared_idx", "outbox_mention_idx", "inbox_messages_mention_idx"])
      this.addSql(`drop index ${index}`);
    for (const table of TABLES) this.addSql(`drop table ${table}`);
  }
}
