import { Migration } from "@mikro-orm/migrations";
import { byTenant, forAccounts } from "./row-security.ts";

/** Custom domains of tenants, their certificates, and what a certificate authority is asked for. */
export class Migration20261126000300 extends Migration {
  override up(): void {
    for (const statement of [
      `create table custom_domains (
        id uuid primary key,
        tenant_id uuid not null references tenants (id) on delete cascade,
        domain text not null,
        label text not null unique,
        token text not null,
        status text not null,
        ssl_status text not null,
        txt text not null,
        routing text not null,
        check_error text,
        checked_at timestamptz(3),
        next_check_at timestamptz(3),
        pending_since timestamptz(3) not null,
        failing_since timestamptz(3),
        degraded_at timestamptz(3),
        plan_lost_at timestamptz(3),
        order_failures integer not null default 0,
        ssl_error text,
        next_order_at timestamptz(3),
        lease uuid,
        lease_until timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        unique (tenant_id, domain))`,
      `create unique index custom_domains_held_key on custom_domains (domain)
        where status in ('VERIFIED', 'ACTIVE', 'DEGRADED')`,
      `create index custom_domains_check_idx on custom_domains (next_check_at)
        where next_check_at is not null`,
      `create index custom_domains_order_idx on custom_domains (next_order_at)
        where next_order_at is not null`,
      `create table custom_domain_certificates (
        domain_id uuid primary key references custom_domains (id) on delete cascade,
        tenant_id uuid not null references tenants (id) on delete cascade,
        chain text not null,
        sealed_key text not null,
        issuer text not null,
        not_before timestamptz(3) not null,
        not_after timestamptz(3) not null,
        renew_at timestamptz(3) not null,
        created_at timestamptz(3) not null)`,
      `create index custom_domain_certificates_tenant_idx on custom_domain_certificates (tenant_id)`,
      `create table acme_challenges (
        token text primary key,
        domain_id uuid not null references custom_domains (id) on delete cascade,
        answer text not null,
        expires_at timestamptz(3) not null)`,
      `create index acme_challenges_domain_idx on acme_challenges (domain_id)`,
      `create index acme_challenges_expires_idx on acme_challenges (expires_at)`,
      `create table acme_accounts (
        directory_url text primary key,
        sealed_key text not null,
        account_url text,
        created_at timestamptz(3) not null)`,
      // It outlives its domain: who removes a name and adds it again orders no more for that.
      `create table acme_orders (
        id uuid primary key,
        tenant_id uuid not null,
        domain text not null,
        ordered_at timestamptz(3) not null,
        expires_at timestamptz(3) not null)`,
      `create index acme_orders_ordered_idx on acme_orders (ordered_at)`,
      `create index acme_orders_expires_idx on acme_orders (expires_at)`,
      ...["custom_domains", "custom_domain_certificates"].flatMap((table) => byTenant(table)),
      ...["acme_challenges", "acme_accounts", "acme_orders"].flatMap(forAccounts),
    ])
      this.addSql(statement);
  }

  override down(): void {
    for (const table of [
      "acme_orders",
      "acme_accounts",
      "acme_challenges",
      "custom_domain_certificates",
      "custom_domains",
    ])
      this.addSql(`drop table ${table}`);
  }
}
