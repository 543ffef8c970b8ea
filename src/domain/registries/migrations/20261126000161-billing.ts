import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

/** Tenants at the payment provider, and which notices of their plans they were sent. */
export class Migration20261126000161 extends Migration {
  override up(): void {
    for (const statement of [
      `create table billing_customers (
        tenant_id uuid primary key references tenants (id) on delete cascade,
        customer_id text not null unique,
        subscription_id text,
        status text not null,
        plan text,
        interval text,
        period_start timestamptz(3),
        period_end timestamptz(3),
        cancel_at_period_end boolean not null default false,
        trial_end timestamptz(3),
        grace_end timestamptz(3),
        tickets bigint not null default 0,
        applied bigint not null default 0,
        marks bigint not null default 0,
        due_at timestamptz(3),
        read_at timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null)`,
      `create index billing_customers_due_idx on billing_customers (due_at) where due_at is not null`,
      `create table usage_notices (
        tenant_id uuid not null references tenants (id) on delete cascade,
        month integer not null,
        metric text not null,
        percent integer not null,
        sent_at timestamptz(3) not null,
        primary key (tenant_id, month, metric, percent))`,
      ...byTenant("billing_customers"),
      ...byTenant("usage_notices"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table usage_notices`);
    this.addSql(`drop table billing_customers`);
  }
}
