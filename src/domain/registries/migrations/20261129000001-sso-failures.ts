import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

/** The sign-ins of a tenant that have failed, those alike counted in one row. */
export class Migration20261129000001 extends Migration {
  override up(): void {
    for (const statement of [
      `create table sso_failures (
        tenant_id uuid not null references tenants (id) on delete cascade,
        digest text not null,
        error text not null,
        message text not null,
        reason text,
        email text,
        request_id text not null,
        times integer not null,
        first_at timestamptz(3) not null,
        last_at timestamptz(3) not null,
        expires_at timestamptz(3) not null,
        primary key (tenant_id, digest))`,
      `create index sso_failures_expiry_idx on sso_failures (expires_at)`,
      ...byTenant("sso_failures"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table sso_failures`);
  }
}
