import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

const TABLES = ["webhooks", "webhook_feeds", "webhook_events", "webhook_deliveries"];

/** Webhooks, the event feed that they and readers share, and their deliveries. */
export class Migration20261121000012 extends Migration {
  override up(): void {
    for (const statement of [
      ...this.webhooks(),
      ...this.feed(),
      ...this.deliveries(),
      ...TABLES.flatMap((table) => byTenant(table)),
    ])
      this.addSql(statement);
  }

  private webhooks(): string[] {
    return [
      `create table webhooks (
        id uuid primary key,
        tenant_id uuid not null references tenants (id) on delete cascade,
        project_id uuid,
        url text not null,
        events text[] not null,
        description text,
        status text not null check (status in ('ACTIVE', 'FAILED', 'DISABLED', 'PAUSED')),
        disabled_reason text,
        secret text not null,
        secret_hint text not null,
        previous_secret text,
        previous_secret_expires_at timestamptz(3),
        created_by text,
        last_success_at timestamptz(3),
        last_failure_at timestamptz(3),
        failing_since timestamptz(3),
        exhausted int not null default 0,
        paused_at timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        deleted_at timestamptz(3)) with (fillfactor = 70)`,
      `create index webhooks_tenant_idx on webhooks (tenant_id) where deleted_at is null`,
    ];
  }

  /**
   * The seqs of a project's feed have no gaps and are in the order of commits: its row is locked from the
   * numbering to the commit. Look-ups by time use block range indexes, which cost writers nothing. There is
   * no index by player: erasures are rare, and scan the feed. A body cleared by one leaves its line, so that
   * the seqs have no gap.
   */
  private feed(): string[] {
    return [
      `create table webhook_feeds (
        project_id uuid not null primary key,
        tenant_id uuid not null,
        last_seq bigint not null default 0,
        read_at timestamptz(3)) with (fillfactor = 50)`,
      `create table webhook_events (
        project_id uuid not null,
        seq bigint not null,
        tenant_id uuid not null,
        id uuid not null,
        type text not null,
        players uuid[],
        body text,
        created_at timestamptz(3) not null,
        expires_at timestamptz(3) not null,
        primary key (project_id, seq))`,
      `create index webhook_events_created_idx on webhook_events using brin (created_at)`,
      `create index webhook_events_expiry_idx on webhook_events using brin (expires_at)`,
    ];
  }

  private deliveries(): string[] {
    return [
      `create table webhook_deliveries (
        webhook_id uuid not null,
        id uuid not null,
        tenant_id uuid not null,
        project_id uuid not null,
        event_seq bigint,
        event_id uuid not null,
        event_type text not null,
        body text,
        is_test boolean not null default false,
        status text not null check (status in ('pending', 'success', 'failed')),
        attempts smallint not null default 0,
        log jsonb not null default '[]',
        error text,
        due_at timestamptz(3),
        next_attempt_at timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        expires_at timestamptz(3) not null,
        primary key (webhook_id, id)) with (fillfactor = 80)`,
      // A delivery that is being sent is due again when its lease ends: one column covers both. With the id,
      // because a commit makes many due at one moment, and finding the next few must not sort them.
      `create index webhook_deliveries_due_idx on webhook_deliveries (webhook_id, due_at, id)
        where status = 'pending'`,
      `create index webhook_deliveries_expiry_idx on webhook_deliveries using brin (expires_at)`,
    ];
  }

  override down(): void {
    for (const table of TABLES) this.addSql(`drop table ${table}`);
  }
}
