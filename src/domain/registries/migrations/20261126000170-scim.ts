import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

const TENANT = "tenant_id uuid not null references tenants (id) on delete cascade";
const TABLES = ["scim_settings", "scim_tokens", "scim_users", "scim_groups", "scim_group_members"];

/** SCIM: what a tenant's identity provider says of people and groups, and the tokens it comes with. */
export class Migration20261126000170 extends Migration {
  override up(): void {
    for (const statement of [
      `create table scim_settings (
        tenant_id uuid primary key references tenants (id) on delete cascade,
        default_role text not null check (default_role <> 'OWNER'),
        group_roles jsonb not null,
        updated_at timestamptz(3) not null)`,
      `create table scim_tokens (
        id uuid primary key,
        ${TENANT},
        name text not null,
        secret_hash text not null unique,
        created_by text not null,
        last_used_at timestamptz(3),
        expires_at timestamptz(3),
        revoked_at timestamptz(3),
        created_at timestamptz(3) not null)`,
      `create index scim_tokens_tenant_idx on scim_tokens (tenant_id)`,
      `create table scim_users (
        user_id uuid primary key references users (id) on delete cascade,
        ${TENANT},
        user_name text not null,
        external_id text,
        display_name text,
        formatted_name text,
        given_name text,
        family_name text,
        gives_email boolean not null,
        updated_at timestamptz(3) not null)`,
      `create unique index scim_users_name_key on scim_users (tenant_id, lower(user_name))`,
      `create table scim_groups (
        id uuid primary key,
        ${TENANT},
        display_name text not null,
        external_id text,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null)`,
      `create unique index scim_groups_name_key on scim_groups (tenant_id, lower(display_name))`,
      `create table scim_group_members (
        group_id uuid not null references scim_groups (id) on delete cascade,
        user_id uuid not null references users (id) on delete cascade,
        ${TENANT},
        primary key (group_id, user_id))`,
      `create index scim_group_members_user_idx on scim_group_members (user_id)`,
      `create index scim_group_members_tenant_idx on scim_group_members (tenant_id)`,
      ...TABLES.flatMap((table) => byTenant(table)),
    ])
      this.addSql(statement);
  }

  override down(): void {
    for (const table of TABLES.toReversed()) this.addSql(`drop table ${table}`);
  }
}
