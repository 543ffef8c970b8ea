import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

const TABLES = [
  "leaderboard_periods",
  "leaderboard_results",
  "leaderboard_notices",
  "leaderboard_feed",
  "score_reviews",
];

/** Periods of leaderboards: open ones, final results of closed ones, and rank notices. */
export class Migration20261121000009 extends Migration {
  override up(): void {
    for (const statement of [
      ...this.boards(),
      ...this.periods(),
      ...this.told(),
      ...TABLES.flatMap((table) => byProject(table)),
    ])
      this.addSql(statement);
  }

  private boards(): string[] {
    return [
      // How often the board was reset: part of the keys of its periods.
      `alter table leaderboards add column resets int not null default 0`,
      // Events from before the last reset belong to a period that is closed.
      `alter table leaderboards add column reset_at timestamptz(3)`,
      // When the next window begins.
      `alter table leaderboards add column opens_at timestamptz(3)`,
      `create index leaderboards_opens_idx on leaderboards (opens_at) where status = 'ACTIVE'`,
      `alter table leaderboard_entries add column submissions int not null default 0`,
      `alter table leaderboard_entries add column meta json`,
    ];
  }

  private periods(): string[] {
    return [
      `create table leaderboard_periods (
        project_id uuid not null,
        id uuid not null,
        leaderboard_id uuid not null,
        period_key text not null,
        board text not null default '',
        starts_at timestamptz(3),
        ends_at timestamptz(3),
        close_at timestamptz(3),
        status text not null default 'OPEN' check (status in ('OPEN', 'CLOSING', 'CLOSED', 'ARCHIVED')),
        is_late boolean not null default false,
        is_told boolean not null default false,
        grants_prizes boolean not null default true,
        participants bigint not null default 0,
        leader_id uuid,
        leader_score bigint,
        notice_round bigint not null default 0,
        created_at timestamptz(3) not null,
        written_at timestamptz(3) not null,
        closed_at timestamptz(3),
        closing json,
        primary key (project_id, id),
        unique (project_id, leaderboard_id, period_key, board))`,
      `create index leaderboard_periods_due_idx on leaderboard_periods (close_at)
        where status in ('OPEN', 'CLOSING')`,
      `create index leaderboard_periods_kept_idx on leaderboard_periods
        (project_id, leaderboard_id, starts_at desc) where status = 'CLOSED'`,
      `create table leaderboard_results (
        project_id uuid not null,
        period_id uuid not null,
        position bigint not null,
        rank bigint not null,
        player_id uuid not null,
        rank_score bigint not null,
        rank_tie bigint not null,
        prize json,
        primary key (project_id, period_id, position))`,
      `create index leaderboard_results_player_idx on leaderboard_results (project_id, player_id, period_id)`,
    ];
  }

  private told(): string[] {
    return [
      // The rank in each player's last notice (before any: the first one seen), and when a later change may
      // be sent.
      `create table leaderboard_notices (
        project_id uuid not null,
        period_id uuid not null,
        player_id uuid not null,
        rank bigint,
        previous_rank bigint,
        told_at timestamptz(3),
        due_at timestamptz(3),
        primary key (project_id, period_id, player_id))`,
      `create index leaderboard_notices_due_idx on leaderboard_notices (due_at) where due_at is not null`,
      `create table leaderboard_feed (
        project_id uuid not null,
        leaderboard_id uuid not null,
        id uuid not null,
        type text not null,
        data jsonb not null,
        created_at timestamptz(3) not null,
        primary key (project_id, leaderboard_id, id))`,
      `create table score_reviews (
        project_id uuid not null,
        id uuid not null,
        leaderboard_id uuid not null,
        period_id uuid not null,
        player_id uuid not null,
        score double precision not null,
        violation text not null,
        meta json,
        occurred_at timestamptz(3) not null,
        status text not null default 'OPEN' check (status in ('OPEN', 'ACCEPTED', 'REJECTED')),
        submitted_at timestamptz(3) not null,
        reviewed_by text,
        reviewed_at timestamptz(3),
        primary key (project_id, id))`,
      `create index score_reviews_player_idx on score_reviews (project_id, player_id)`,
      `create index score_reviews_queue_idx on score_reviews (project_id, status, id)`,
    ];
  }

  override down(): void {
    for (const table of TABLES) this.addSql(`drop table ${table}`);
    this.addSql(`alter table leaderboards drop column resets, drop column reset_at, drop column opens_at`);
    this.addSql(`alter table leaderboard_entries drop column submissions, drop column meta`);
  }
}
