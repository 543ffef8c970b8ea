import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

/** What tenants use in a month. */
export class Migration20261126000160 extends Migration {
  override up(): void {
    for (const statement of [
      // Rows are updated many times a second: free space in their pages keeps the index out of it.
      `create table usage_counters (
        tenant_id uuid not null,
        month integer not null,
        slot smallint not null,
        events bigint not null default 0,
        players bigint not null default 0,
        primary key (tenant_id, month, slot)) with (fillfactor = 20)`,
      `alter table players add column active_month integer`,
      ...byTenant("usage_counters"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`alter table players drop column active_month`);
    this.addSql(`drop table usage_counters`);
  }
}
