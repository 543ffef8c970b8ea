import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

/** Each row belongs to a user, or to a super-admin, who has no tenant; `owner_id` is the one or the other. */
const OWNER = `owner_id uuid not null,
        user_id uuid references users (id) on delete cascade,
        admin_id uuid references platform_admins (id) on delete cascade,
        tenant_id uuid references tenants (id) on delete cascade,
        check (num_nonnulls(user_id, admin_id) = 1 and owner_id = coalesce(user_id, admin_id))`;

const TABLES = ["totp_secrets", "recovery_codes", "passkeys"];

/** Indexes for the deletion of an owner or a tenant. */
const indexesOf = (table: string): string[] =>
  ["user_id", "admin_id", "tenant_id"].map(
    (column) => `create index ${table}_${column.replace("_id", "")}_idx on ${table} (${column})`,
  );

/** Second factors: secrets of authenticator apps, recovery codes and passkeys. */
export class Migration20261126000060 extends Migration {
  override up(): void {
    for (const statement of [
      `alter table tenants add column second_factor_required boolean not null default false`,
      `alter table users add column mfa_enabled boolean not null default false`,
      `alter table platform_admins add column mfa_enabled boolean not null default false`,
      `alter table sessions add column mfa_at timestamptz(3)`,
      `create table totp_secrets (
        ${OWNER},
        sealed text not null,
        last_step bigint not null default 0,
        confirmed_at timestamptz(3),
        created_at timestamptz(3) not null,
        primary key (owner_id))`,
      `create table recovery_codes (
        ${OWNER},
        hash text not null,
        created_at timestamptz(3) not null,
        primary key (owner_id, hash))`,
      `create table passkeys (
        id uuid primary key,
        ${OWNER},
        name text not null,
        credential_id text not null,
        public_key text not null,
        counter bigint not null,
        transports text[] not null,
        is_backed_up boolean not null,
        created_at timestamptz(3) not null,
        last_used_at timestamptz(3))`,
      `create unique index passkeys_credential_key on passkeys (credential_id)`,
      `create index passkeys_owner_idx on passkeys (owner_id, created_at, id)`,
      ...TABLES.flatMap(indexesOf),
      ...TABLES.flatMap((table) => byTenant(table)),
    ])
      this.addSql(statement);
  }

  override down(): void {
    for (const table of TABLES) this.addSql(`drop table ${table}`);
    this.addSql(`alter table sessions drop column mfa_at`);
    this.addSql(`alter table platform_admins drop column mfa_enabled`);
    this.addSql(`alter table users drop column mfa_enabled`);
    this.addSql(`alter table tenants drop column second_factor_required`);
  }
}
