import { Migration } from "@mikro-orm/migrations";

/** Tenants, users, projects and API keys: small tables with plain keys. */
export class Migration20261121000001 extends Migration {
  override up(): void {
    this.addSql(`create table tenants (
      id uuid primary key,
      name text not null check (length(name) between 2 and 255),
      approval_status text not null
        check (approval_status in ('PENDING', 'APPROVED', 'REJECTED', 'SUSPENDED')),
      plan text not null check (plan in ('FREE', 'STARTER', 'PRO', 'ENTERPRISE')),
      created_at timestamptz(3) not null,
      updated_at timestamptz(3) not null)`);

    this.addSql(`create table users (
      id uuid primary key,
      tenant_id uuid not null references tenants (id),
      email text not null,
      name text not null check (length(name) between 2 and 255),
      password_hash text not null,
      role text not null check (role in ('OWNER', 'ADMIN', 'DESIGNER', 'DEVELOPER', 'VIEWER')),
      email_verified boolean not null default false,
      created_at timestamptz(3) not null,
      updated_at timestamptz(3) not null)`);
    this.addSql(`create unique index users_email_key on users (lower(email))`);
    this.addSql(`create index users_tenant_idx on users (tenant_id)`);

    this.addSql(`create table projects (
      id uuid primary key,
      tenant_id uuid not null references tenants (id),
      name text not null check (length(name) between 2 and 255),
      description text check (length(description) <= 2000),
      timezone text not null default 'UTC',
      settings jsonb not null default '{}',
      config_version bigint not null default 1,
      sandbox_of uuid unique references projects (id),
      created_at timestamptz(3) not null,
      updated_at timestamptz(3) not null,
      deleted_at timestamptz(3))`);
    this.addSql(`create index projects_tenant_idx on projects (tenant_id, created_at, id)`);

    this.addSql(`create table api_keys (
      id uuid primary key,
      project_id uuid not null references projects (id),
      acts_on_project_id uuid not null references projects (id),
      name text not null check (length(name) between 2 and 255),
      prefix text not null,
      secret_hash text not null unique,
      scopes text[] not null,
      status text not null check (status in ('ACTIVE', 'REVOKED', 'EXPIRED')),
      rate_limit int check (rate_limit > 0),
      expires_at timestamptz(3),
      last_used_at timestamptz(3),
      metadata jsonb not null default '{}',
      created_at timestamptz(3) not null,
      updated_at timestamptz(3) not null,
      deleted_at timestamptz(3))`);
    this.addSql(`create index api_keys_project_idx on api_keys (project_id, created_at, id)`);
  }

  override down(): void {
    for (const table of ["api_keys", "projects", "users", "tenants"]) this.addSql(`drop table ${table}`);
  }
}
