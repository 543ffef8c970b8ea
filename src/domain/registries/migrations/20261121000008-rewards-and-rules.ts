import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

const TABLES = [
  "reward_grants",
  "prize_codes",
  "inbox_messages",
  "rule_executions",
  "rule_stats",
  "rule_schedules",
  "event_traces",
  "event_types",
  "project_jobs",
];

/** Granted rewards, executions and statistics of rules, and projects' long-running work. */
export class Migration20261121000008 extends Migration {
  override up(): void {
    for (const statement of [
      ...this.rewards(),
      ...this.rules(),
      ...this.work(),
      ...TABLES.flatMap((table) => byProject(table)),
    ])
      this.addSql(statement);
  }

  private rewards(): string[] {
    return [
      `create table reward_grants (
        project_id uuid not null,
        player_id uuid not null,
        id uuid not null,
        reward_key text not null,
        quantity int not null check (quantity > 0),
        status text not null
          check (status in ('PENDING', 'GRANTED', 'CLAIMED', 'FULFILLED', 'EXPIRED', 'REVOKED')),
        idempotency_key text not null,
        contents jsonb not null,
        code text,
        cause jsonb not null,
        event_id uuid,
        expires_at timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        primary key (project_id, player_id, id),
        unique (project_id, player_id, idempotency_key))`,
      `create index reward_grants_due_idx on reward_grants (expires_at) where status = 'PENDING'`,
      `create index reward_grants_reward_idx on reward_grants (project_id, reward_key)`,
      `create index reward_grants_event_idx on reward_grants (project_id, event_id)
        where event_id is not null`,
      `create table prize_codes (
        project_id uuid not null,
        reward_key text not null,
        code text not null,
        grant_id uuid,
        created_at timestamptz(3) not null,
        primary key (project_id, reward_key, code))`,
      `create index prize_codes_free_idx on prize_codes (project_id, reward_key) where grant_id is null`,
      `create table inbox_messages (
        project_id uuid not null,
        player_id uuid not null,
        id uuid not null,
        type text not null,
        title text not null,
        body text,
        data jsonb not null,
        reward_grant_id uuid,
        read_at timestamptz(3),
        expires_at timestamptz(3),
        created_at timestamptz(3) not null,
        primary key (project_id, player_id, id))`,
      `create index inbox_messages_due_idx on inbox_messages (expires_at) where expires_at is not null`,
    ];
  }

  private rules(): string[] {
    return [
      `create table rule_executions (
        project_id uuid not null,
        rule_id uuid not null,
        id uuid not null,
        rule_version int not null,
        player_id uuid not null,
        event_id uuid not null,
        depth smallint not null,
        mode text not null check (mode in ('LIVE', 'SHADOW', 'HOLDOUT')),
        effects jsonb,
        reverted_at timestamptz(3),
        created_at timestamptz(3) not null,
        primary key (project_id, rule_id, id))`,
      `create index rule_executions_event_idx on rule_executions (project_id, event_id)`,
      // Only rows that record more than the firing itself: for erasing a player.
      `create index rule_executions_player_idx on rule_executions (project_id, player_id)
        where effects is not null`,
      `create table rule_stats (
        project_id uuid not null,
        rule_id uuid not null,
        hour timestamptz(3) not null,
        evaluated bigint not null,
        fired bigint not null,
        reasons jsonb not null,
        leaf_fails jsonb not null,
        cost jsonb not null,
        micros jsonb not null,
        primary key (project_id, rule_id, hour))`,
      `create index rule_stats_hour_idx on rule_stats (hour)`,
      `create table rule_schedules (
        project_id uuid not null,
        rule_id uuid not null,
        trigger_no int not null,
        due_at timestamptz(3) not null,
        after_player uuid,
        primary key (project_id, rule_id, trigger_no))`,
      `create index rule_schedules_due_idx on rule_schedules (due_at)`,
      `create table event_traces (
        project_id uuid not null,
        event_id uuid not null,
        trace jsonb not null,
        expires_at timestamptz(3) not null,
        primary key (project_id, event_id))`,
      `create index event_traces_expires_idx on event_traces (expires_at)`,
      `create index tracked_events_sent_idx on tracked_events (project_id, (properties->>'rootEventId'))
        where event_type in ('system.grant', 'system.delayed_action')`,
      `create table event_types (
        project_id uuid not null,
        name text not null,
        schema json,
        schema_version int not null default 0,
        enforcement text not null default 'OFF' check (enforcement in ('OFF', 'WARN', 'REJECT')),
        properties jsonb not null default '{}',
        total bigint not null default 0,
        first_seen_at timestamptz(3),
        last_seen_at timestamptz(3),
        primary key (project_id, name))`,
      `create index event_types_schemas_idx on event_types (project_id, schema_version)
        where schema_version > 0`,
    ];
  }

  private work(): string[] {
    return [
      `create table project_jobs (
        project_id uuid not null,
        id uuid not null,
        kind text not null,
        status text not null check (status in ('QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
        params jsonb not null,
        state jsonb not null default '{}',
        progress smallint not null default 0 check (progress between 0 and 100),
        result jsonb,
        error text,
        attempts smallint not null default 0,
        created_by text not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        finished_at timestamptz(3),
        due_at timestamptz(3) not null,
        primary key (project_id, id))`,
      `create index project_jobs_due_idx on project_jobs (due_at) where status in ('QUEUED', 'RUNNING')`,
      `create index project_jobs_list_idx on project_jobs (project_id, kind, id)`,
      `create index project_jobs_age_idx on project_jobs (finished_at) where result is not null`,
      `create index project_jobs_finished_idx on project_jobs (finished_at) where finished_at is not null`,
    ];
  }

  override down(): void {
    this.addSql(`drop index tracked_events_sent_idx`);
    for (const table of TABLES) this.addSql(`drop table ${table}`);
  }
}
