import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

/** Since when payments fail, what the provider was told, and subscriptions that are being ended. */
export class Migration20261126000401 extends Migration {
  override up(): void {
    for (const statement of [
      `alter table billing_customers
        add column past_due_since timestamptz(3),
        add column told_name text,
        add column told_email text`,
      `update billing_customers set past_due_since = grace_end - interval '7 days'
        where status = 'PAST_DUE'`,
      `create table billing_endings (
        subscription_id text primary key,
        tenant_id uuid not null references tenants (id) on delete cascade,
        created_at timestamptz(3) not null)`,
      `create index billing_endings_tenant_idx on billing_endings (tenant_id)`,
      ...byTenant("billing_endings"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table billing_endings`);
    this.addSql(`alter table billing_customers
      drop column past_due_since, drop column told_name, drop column told_email`);
  }
}
