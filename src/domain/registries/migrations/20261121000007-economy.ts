import { Migration } from "@mikro-orm/migrations";
import { OWN_PROJECT, byProject } from "./row-security.ts";
import { WEB_ROLE } from "../../kernel/row-roles.ts";

/** Stores a key of a definition: keys never change, and archived definitions keep theirs. */
const KEY = "text not null check (length(key) between 1 and 64)";

const TABLES = [
  "definitions",
  "shared_counters",
  "player_balances",
  "currency_lots",
  "currency_holds",
  "player_badges",
  "badge_awards",
  "player_streaks",
  "streak_runs",
  "player_segments",
  "segment_sweeps",
  "player_boosts",
  "player_identities",
  "player_merges",
];

/**
 * The player economy: one ledger for XP, currencies and lives, chained; players' holdings; and their
 * definitions.
 */
export class Migration20261121000007 extends Migration {
  override up(): void {
    for (const statement of [
      ...this.players(),
      ...this.definitions(),
      ...this.holdings(),
      ...TABLES.flatMap((table) => byProject(table)),
      ...OWN_PROJECT,
    ])
      this.addSql(statement);
  }

  private players(): string[] {
    return [
      `alter table players add ledger_hash text, add lives int check (lives >= 0),
        add lives_anchor_at timestamptz(3), add lives_unlimited_until timestamptz(3),
        add zone_changed_at timestamptz(3), add merged_into uuid, add deleted_at timestamptz(3)`,
      // Rows of a player that are no lines of the stream: for exporting and erasing.
      `create index outbox_silent_idx on outbox (project_id, player_id)
        where player_seq is null and player_id is not null`,
      `create index players_created_idx on players (project_id, created_at, id)`,
      `create index players_merged_idx on players (project_id, merged_into) where merged_into is not null`,
      `create index players_merged_name_idx on players (project_id, external_user_id)
        include (merged_into) where merged_into is not null`,
      `alter table ledger_entries add currency_key text, add tx_id uuid, add reverses uuid, add hash text,
        add event_id uuid, add check ((asset = 'CURRENCY') = (currency_key is not null))`,
      `create index ledger_entries_event_idx on ledger_entries (project_id, event_id)
        where event_id is not null`,
      // Chains the entries written before there was a chain, in the order of each player's ledger.
      `do $$ declare e record; tip text; owner uuid := null; begin
        for e in select project_id, player_id, seq, idempotency_key, asset, amount, balance_after
          from ledger_entries order by project_id, player_id, seq loop
          if owner is distinct from e.player_id then tip := ''; owner := e.player_id; end if;
          tip := encode(sha256(convert_to(concat_ws(chr(10), tip, e.idempotency_key, e.asset, '', e.amount,
            e.balance_after), 'UTF8')), 'hex');
          update ledger_entries set hash = tip
            where project_id = e.project_id and player_id = e.player_id and seq = e.seq;
          update players set ledger_hash = tip where project_id = e.project_id and id = e.player_id;
        end loop; end $$`,
      `alter table ledger_entries alter hash set not null`,
      `alter table event_results drop constraint event_results_status_check,
        add check (status in ('FAILED', 'REJECTED', 'REVERTED')), alter error drop not null`,
      `alter table rules drop constraint rules_status_check,
        add check (status in ('DRAFT', 'ACTIVE', 'SHADOW', 'PAUSED', 'ARCHIVED'))`,
      `create table player_identities (
        project_id uuid not null,
        provider text not null check (length(provider) between 1 and 64),
        external_id text not null check (length(external_id) between 1 and 255),
        player_id uuid not null,
        created_at timestamptz(3) not null,
        primary key (project_id, provider, external_id))`,
      `create index player_identities_player_idx on player_identities (project_id, player_id)`,
      `create table player_merges (
        project_id uuid not null,
        id uuid not null,
        target_id uuid not null,
        source_id uuid not null,
        strategy jsonb not null,
        summary jsonb not null,
        source_snapshot jsonb,
        created_by text not null,
        created_at timestamptz(3) not null,
        primary key (project_id, id))`,
      `create index player_merges_source_idx on player_merges (project_id, source_id)`,
      `create index player_merges_target_idx on player_merges (project_id, target_id)`,
      `create index player_merges_age_idx on player_merges (created_at) where source_snapshot is not null`,
    ];
  }

  private definitions(): string[] {
    return [
      `create table definitions (
        id uuid primary key,
        project_id uuid not null references projects (id),
        kind text not null,
        key ${KEY},
        name text not null,
        definition jsonb not null,
        status text not null check (status in ('ACTIVE', 'ARCHIVED')),
        version int not null default 1,
        created_by text not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        unique (project_id, kind, key))`,
      `create index definitions_segments_idx on definitions (project_id, id)
        where kind = 'segment' and status = 'ACTIVE'`,
      `create table shared_counters (
        project_id uuid not null,
        scope text not null,
        window_no bigint not null,
        used bigint not null default 0 check (used >= 0),
        times jsonb,
        touched_at timestamptz(3) not null default now(),
        primary key (project_id, scope, window_no))`,
      ...["DAY", "WEEK", "MONTH"].map(
        (unit) => `create index shared_counters_${unit.toLowerCase()}_idx on shared_counters (window_no)
          where scope like '%rule:%:%:${unit}'`,
      ),
    ];
  }

  private holdings(): string[] {
    return [
      `create table player_balances (
        project_id uuid not null,
        player_id uuid not null,
        currency_key text not null,
        balance bigint not null check (balance between 0 and 9007199254740991),
        held bigint not null default 0 check (held between 0 and balance),
        earned bigint not null default 0,
        spent bigint not null default 0,
        updated_at timestamptz(3) not null,
        primary key (project_id, player_id, currency_key)) with (fillfactor = 80)`,
      `create table currency_lots (
        project_id uuid not null,
        player_id uuid not null,
        id uuid not null,
        currency_key text not null,
        remaining bigint not null check (remaining > 0),
        expires_at timestamptz(3) not null,
        primary key (project_id, player_id, id))`,
      `create index currency_lots_due_idx on currency_lots (expires_at, project_id, player_id)`,
      `create table currency_holds (
        project_id uuid not null,
        player_id uuid not null,
        id uuid not null,
        currency_key text not null,
        amount bigint not null check (amount > 0),
        captured bigint,
        status text not null check (status in ('HELD', 'CAPTURED', 'RELEASED', 'EXPIRED')),
        reference text,
        expires_at timestamptz(3) not null,
        created_at timestamptz(3) not null,
        settled_at timestamptz(3),
        primary key (project_id, player_id, id))`,
      `create index currency_holds_due_idx on currency_holds (expires_at, project_id, player_id)
        where status = 'HELD'`,
      `create index currency_holds_reference_idx on currency_holds (project_id, player_id, reference)
        where reference is not null`,
      `create table player_badges (
        project_id uuid not null,
        player_id uuid not null,
        badge_key text not null,
        tier int not null default 0,
        progress double precision not null default 0,
        times_awarded int not null default 0,
        serial_no bigint,
        first_earned_at timestamptz(3),
        last_earned_at timestamptz(3),
        revoked_at timestamptz(3),
        updated_at timestamptz(3) not null,
        primary key (project_id, player_id, badge_key)) with (fillfactor = 80)`,
      `create index player_badges_holders_idx on player_badges (project_id, badge_key, tier, player_id)`,
      `create table badge_awards (
        project_id uuid not null,
        player_id uuid not null,
        id uuid not null,
        badge_key text not null,
        tier int not null,
        action text not null check (action in ('AWARDED', 'REVOKED')),
        serial_no bigint,
        idempotency_key text not null,
        cause jsonb not null,
        event_id uuid,
        created_at timestamptz(3) not null,
        primary key (project_id, player_id, id),
        unique (project_id, player_id, idempotency_key))`,
      `create index badge_awards_event_idx on badge_awards (project_id, event_id) where event_id is not null`,
      `create table player_streaks (
        project_id uuid not null,
        player_id uuid not null,
        streak_key text not null,
        current int not null,
        longest int not null,
        freezes int not null check (freezes >= 0),
        deadline_at timestamptz(3),
        due_at timestamptz(3),
        doc jsonb not null,
        updated_at timestamptz(3) not null,
        primary key (project_id, player_id, streak_key)) with (fillfactor = 80)`,
      `create index player_streaks_due_idx on player_streaks (due_at, project_id, player_id)
        where due_at is not null`,
      `create table streak_runs (
        project_id uuid not null,
        player_id uuid not null,
        id uuid not null,
        streak_key text not null,
        started_on date not null,
        ended_on date not null,
        length int not null,
        frozen_periods jsonb not null,
        ended_by text not null check (ended_by in ('MISSED', 'BREAK_EVENT', 'RESET', 'REPAIRED', 'MERGED')),
        created_at timestamptz(3) not null,
        primary key (project_id, player_id, id))`,
      `create index streak_runs_streak_idx on streak_runs (project_id, player_id, streak_key, ended_on)`,
      `create table player_segments (
        project_id uuid not null,
        player_id uuid not null,
        segment_key text not null,
        entered_at timestamptz(3) not null,
        primary key (project_id, player_id, segment_key))`,
      `create index player_segments_members_idx on player_segments (project_id, segment_key, player_id)`,
      `create table segment_sweeps (
        project_id uuid primary key,
        definitions text not null,
        due_at timestamptz(3) not null,
        after_player uuid)`,
      `create index segment_sweeps_due_idx on segment_sweeps (due_at)`,
      `create table player_boosts (
        project_id uuid not null,
        player_id uuid not null,
        id uuid not null,
        boost_key text not null,
        applies text not null,
        factor double precision not null check (factor > 0 and factor <= 100),
        stacking text not null check (stacking in ('MAX', 'MULTIPLY', 'EXTEND', 'REPLACE')),
        starts_at timestamptz(3) not null,
        expires_at timestamptz(3) not null,
        uses_left int,
        cause jsonb not null,
        primary key (project_id, player_id, id))`,
      `create index player_boosts_due_idx on player_boosts (expires_at, project_id, player_id)`,
    ];
  }

  override down(): void {
    this.addSql(`drop policy ${WEB_ROLE}_project on projects`);
    for (const table of TABLES) this.addSql(`drop table ${table}`);
    this.addSql(`update rules set status = 'PAUSED' where status = 'SHADOW'`);
    this.addSql(`alter table rules drop constraint rules_status_check,
      add check (status in ('DRAFT', 'ACTIVE', 'PAUSED', 'ARCHIVED'))`);
    this.addSql(`delete from event_results where status = 'REVERTED'`);
    this.addSql(`alter table event_results drop constraint event_results_status_check,
      add check (status in ('FAILED', 'REJECTED')), alter error set not null`);
    this.addSql(`delete from ledger_entries where asset = 'CURRENCY'`);
    this.addSql(`alter table ledger_entries drop currency_key, drop tx_id, drop reverses, drop hash,
      drop event_id`);
    this.addSql(`alter table players drop ledger_hash, drop lives, drop lives_anchor_at,
      drop lives_unlimited_until, drop zone_changed_at, drop merged_into, drop deleted_at`);
    this.addSql(`drop index players_created_idx`);
    this.addSql(`drop index outbox_silent_idx`);
  }
}
