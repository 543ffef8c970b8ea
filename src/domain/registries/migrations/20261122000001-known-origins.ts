import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

/**
 * Origins of an account's sign-ins: hashes of addresses and of device tokens. `owner_id` is a user's, or a
 * super-admin's, who has no tenant.
 */
export class Migration20261122000001 extends Migration {
  override up(): void {
    for (const statement of [
      `create table known_origins (
        owner_id uuid not null,
        origin text not null,
        tenant_id uuid references tenants (id) on delete cascade,
        seen_at timestamptz(3) not null,
        expires_at timestamptz(3) not null,
        primary key (owner_id, origin))`,
      `create index known_origins_tenant_idx on known_origins (tenant_id)`,
      `create index known_origins_expiry_idx on known_origins (expires_at)`,
      ...byTenant("known_origins"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table known_origins`);
  }
}
