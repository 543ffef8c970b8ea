import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

/** What each counter of a limited tenant may count without asking, and which tenants used something. */
export class Migration20261126000400 extends Migration {
  override up(): void {
    for (const statement of [
      `alter table usage_counters
        add column granted bigint not null default 0,
        add column cap bigint`,
      `create table usage_changes (
        id bigint generated always as identity primary key,
        tenant_id uuid not null)`,
      `insert into usage_changes (tenant_id) select distinct tenant_id from usage_counters`,
      ...byTenant("usage_changes"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table usage_changes`);
    this.addSql(`alter table usage_counters drop column granted, drop column cap`);
  }
}
