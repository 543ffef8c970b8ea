import { Migration } from "@mikro-orm/migrations";
import { byTenant } from "./row-security.ts";

const TENANT = "tenant_id uuid not null references tenants (id) on delete cascade";
const TABLES = [
  "sso_configurations",
  "sso_domains",
  "sso_identities",
  "sso_flows",
  "sso_certificate_notices",
];

/** Enterprise single sign-on: a tenant's identity provider, its domains, and who signed in through it. */
export class Migration20261126000100 extends Migration {
  override up(): void {
    for (const statement of [
      `create table sso_configurations (
        id uuid primary key,
        ${TENANT} unique,
        provider text not null,
        display_name text not null,
        saml_entity_id text,
        saml_sso_url text,
        saml_certificate text,
        saml_idp_initiated boolean not null,
        oidc_issuer text,
        oidc_client_id text,
        oidc_client_secret text,
        oidc_scopes text[] not null,
        auto_provision boolean not null,
        default_role text not null,
        allowed_domains text[] not null,
        enforce_sso boolean not null,
        break_glass_user_id uuid references users (id) on delete set null,
        status text not null check (status in ('ACTIVE', 'DISABLED')),
        idp_changed_at timestamptz(3) not null,
        last_tested_at timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null)`,
      `create index sso_configurations_break_glass_idx on sso_configurations (break_glass_user_id)`,
      `create table sso_domains (
        id uuid primary key,
        ${TENANT},
        domain text not null,
        token text not null,
        verified_at timestamptz(3),
        created_at timestamptz(3) not null,
        unique (tenant_id, domain))`,
      `create unique index sso_domains_verified_key on sso_domains (domain) where verified_at is not null`,
      `create table sso_identities (
        id uuid primary key,
        ${TENANT},
        user_id uuid not null references users (id) on delete cascade,
        issuer text not null,
        subject text not null,
        email text,
        created_at timestamptz(3) not null,
        unique (tenant_id, issuer, subject))`,
      `create index sso_identities_user_idx on sso_identities (user_id)`,
      `create table sso_flows (
        state_hash text primary key,
        browser_hash text not null,
        ${TENANT},
        idp_changed_at timestamptz(3) not null,
        redirect_uri text not null,
        response_mode text not null check (response_mode in ('query', 'code')),
        secrets text not null,
        expires_at timestamptz(3) not null)`,
      `create index sso_flows_expiry_idx on sso_flows (expires_at)`,
      `create index sso_flows_tenant_idx on sso_flows (tenant_id)`,
      `create table sso_certificate_notices (
        ${TENANT},
        fingerprint text not null,
        days integer not null,
        sent_at timestamptz(3) not null,
        primary key (tenant_id, fingerprint, days))`,
      ...TABLES.flatMap((table) => byTenant(table)),
    ])
      this.addSql(statement);
  }

  override down(): void {
    for (const table of TABLES.toReversed()) this.addSql(`drop table ${table}`);
  }
}
