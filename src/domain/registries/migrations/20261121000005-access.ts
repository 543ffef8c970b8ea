import { Migration } from "@mikro-orm/migrations";

const ROLES = "('OWNER', 'ADMIN', 'DESIGNER', 'DEVELOPER', 'VIEWER')";

/** Sessions, teams, sign-in by providers, limits by address, idempotency, mail, super-admins, audit. */
export class Migration20261121000005 extends Migration {
  override up(): void {
    for (const statements of [this.accounts(), this.signIn(), this.team(), this.requests(), this.platform()])
      for (const statement of statements) this.addSql(statement);
  }

  private accounts(): string[] {
    return [
      `alter table tenants
        add column approval_reason text check (length(approval_reason) <= 500),
        add column approval_requested_at timestamptz(3),
        add column redirect_uris text[] not null default '{}',
        add column plan_overrides jsonb not null default '{}',
        add column delete_after timestamptz(3),
        add column deleted_at timestamptz(3)`,
      `create index tenants_deletion_idx on tenants (delete_after) where deleted_at is null`,
      `alter table users
        alter column password_hash drop not null,
        add column status text not null default 'ACTIVE'
          check (status in ('PENDING', 'ACTIVE', 'SUSPENDED')),
        add column profile_completed boolean not null default true,
        add column last_login_at timestamptz(3),
        add column disabled_at timestamptz(3)`,
      // On the address itself, by which every sign-in looks it up; the check ensures a single spelling.
      `drop index users_email_key`,
      `update users set email = lower(email) where email <> lower(email)`,
      `alter table users add constraint users_email_check check (email = lower(email))`,
      `create unique index users_email_key on users (email)`,
      `alter table projects add column allowed_origins text[] not null default '{}'`,
      `alter table api_keys
        add column created_by text,
        add column replaced_by uuid references api_keys (id)`,
      `create index api_keys_expiry_idx on api_keys (expires_at) where status = 'ACTIVE'`,
    ];
  }

  private signIn(): string[] {
    return [
      `create table sessions (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        user_id uuid not null references users (id) on delete cascade,
        method text not null,
        ip text not null,
        user_agent text not null,
        created_at timestamptz(3) not null,
        last_used_at timestamptz(3) not null,
        expires_at timestamptz(3) not null,
        revoked_at timestamptz(3),
        revoked_for text)`,
      `create index sessions_user_idx on sessions (user_id, created_at, id)`,
      `create index sessions_end_idx on sessions (least(expires_at, revoked_at))`,
      // Earlier tokens cannot be used: no version has ever accepted one.
      `drop table refresh_tokens`,
      `create table refresh_tokens (
        hash text primary key,
        tenant_id uuid not null references tenants (id),
        session_id uuid not null references sessions (id) on delete cascade,
        expires_at timestamptz(3) not null,
        used_at timestamptz(3),
        created_at timestamptz(3) not null)`,
      `create index refresh_tokens_session_idx on refresh_tokens (session_id)`,
      `create index refresh_tokens_expiry_idx on refresh_tokens (expires_at)`,
      `create table user_tokens (
        hash text primary key,
        tenant_id uuid not null references tenants (id),
        user_id uuid not null references users (id) on delete cascade,
        purpose text not null check (purpose in ('VERIFY_EMAIL', 'CHANGE_EMAIL', 'RESET_PASSWORD')),
        email text not null,
        expires_at timestamptz(3) not null,
        used_at timestamptz(3),
        created_at timestamptz(3) not null)`,
      `create index user_tokens_user_idx on user_tokens (user_id, purpose)`,
      `create index user_tokens_expiry_idx on user_tokens (expires_at)`,
      `create table identities (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        user_id uuid not null references users (id) on delete cascade,
        provider text not null,
        subject text not null,
        email text,
        created_at timestamptz(3) not null,
        unique (provider, subject),
        unique (user_id, provider))`,
      `create table oauth_flows (
        state_hash text primary key,
        browser_hash text,
        provider text not null,
        flow text not null check (flow in ('login', 'signup', 'link')),
        redirect_uri text not null,
        response_mode text not null check (response_mode in ('query', 'code')),
        tenant_id uuid references tenants (id),
        user_id uuid references users (id) on delete cascade,
        session_id uuid references sessions (id) on delete cascade,
        secrets text,
        expires_at timestamptz(3) not null)`,
      `create index oauth_flows_expiry_idx on oauth_flows (expires_at)`,
      `create table oauth_codes (
        hash text primary key,
        user_id uuid not null references users (id) on delete cascade,
        provider text not null,
        expires_at timestamptz(3) not null)`,
      `create index oauth_codes_expiry_idx on oauth_codes (expires_at)`,
      `create table consumed_ids (
        kind text not null,
        id text not null,
        expires_at timestamptz(3) not null,
        primary key (kind, id))`,
      `create index consumed_ids_expiry_idx on consumed_ids (expires_at)`,
    ];
  }

  private team(): string[] {
    return [
      `create table invitations (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        email text not null,
        role text not null check (role in ${ROLES}),
        token_hash text not null unique,
        status text not null check (status in ('PENDING', 'ACCEPTED', 'REVOKED', 'EXPIRED')),
        invited_by uuid not null,
        expires_at timestamptz(3) not null,
        sent_at timestamptz(3) not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null)`,
      `create unique index invitations_pending_key on invitations (tenant_id, lower(email))
        where status = 'PENDING'`,
      `create index invitations_tenant_idx on invitations (tenant_id, created_at, id)`,
    ];
  }

  private requests(): string[] {
    return [
      `create table idempotency_keys (
        scope text not null,
        key text not null,
        tenant_id uuid,
        fingerprint text not null,
        status smallint not null,
        body text not null,
        created_at timestamptz(3) not null,
        primary key (scope, key))`,
      `create index idempotency_keys_age_idx on idempotency_keys (created_at)`,
      `create table ip_blocks (
        id uuid primary key,
        network cidr not null unique,
        reason text not null check (length(reason) <= 500),
        source text not null check (source in ('MANUAL', 'AUTO')),
        created_by text not null,
        expires_at timestamptz(3),
        created_at timestamptz(3) not null)`,
      `create index ip_blocks_expiry_idx on ip_blocks (expires_at)`,
      `create table email_logs (
        id uuid primary key,
        tenant_id uuid references tenants (id),
        user_id uuid,
        "to" text not null,
        template text not null,
        subject text not null,
        status text not null check (status in ('QUEUED', 'SENDING', 'SENT', 'FAILED', 'SUPPRESSED')),
        attempts int not null default 0,
        provider_message_id text,
        smtp_response text,
        error text,
        dedupe_key text unique,
        created_at timestamptz(3) not null,
        sent_at timestamptz(3))`,
      `create index email_logs_tenant_idx on email_logs (tenant_id, created_at, id)`,
      `create index email_logs_time_idx on email_logs (created_at, id)`,
      // A mail's content, encrypted; the row is deleted when the mail is final. A failed one waits until
      // keep_until for somebody to send it again.
      `create table email_outbox (
        log_id uuid primary key references email_logs (id) on delete cascade,
        tenant_id uuid,
        payload text not null,
        next_attempt_at timestamptz(3) not null,
        locked_until timestamptz(3),
        keep_until timestamptz(3))`,
      `create index email_outbox_due_idx on email_outbox (next_attempt_at) where keep_until is null`,
      `create index email_outbox_kept_idx on email_outbox (keep_until) where keep_until is not null`,
      `create table email_suppressions (
        email text primary key,
        reason text not null,
        expires_at timestamptz(3) not null,
        created_at timestamptz(3) not null)`,
      `create index email_suppressions_expiry_idx on email_suppressions (expires_at)`,
    ];
  }

  private platform(): string[] {
    return [
      `create table platform_admins (
        id uuid primary key,
        email text not null,
        name text not null,
        password_hash text not null,
        session_version int not null default 1,
        disabled_at timestamptz(3),
        last_login_at timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null)`,
      `create unique index platform_admins_email_key on platform_admins (lower(email))`,
      `create table platform_tokens (
        id uuid primary key,
        name text not null,
        secret_hash text not null unique,
        scopes text[] not null,
        created_by text not null,
        last_used_at timestamptz(3),
        expires_at timestamptz(3),
        revoked_at timestamptz(3),
        created_at timestamptz(3) not null)`,
      `create table blog_posts (
        slug text primary key,
        title text not null,
        tags text[] not null default '{}',
        featured boolean not null default false,
        draft boolean not null default false,
        post_date timestamptz(3) not null,
        excerpt text,
        author text,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null)`,
      `create index blog_posts_date_idx on blog_posts (post_date, slug)`,
      `create table audit_log (
        id uuid primary key,
        tenant_id uuid,
        actor text not null,
        action text not null,
        target_type text not null,
        target_id text not null,
        ip text not null,
        request_id text not null,
        data jsonb not null default '{}',
        created_at timestamptz(3) not null)`,
      `create index audit_log_tenant_idx on audit_log (tenant_id, created_at, id)`,
      `create index audit_log_time_idx on audit_log (created_at, id)`,
      `create function audit_log_is_append_only() returns trigger language plpgsql as $$
        begin raise exception 'audit_log is append only'; end $$`,
      `create trigger audit_log_append_only before update or delete on audit_log
        for each row execute function audit_log_is_append_only()`,
      `create trigger audit_log_no_truncate before truncate on audit_log
        for each statement execute function audit_log_is_append_only()`,
    ];
  }

  override down(): void {
    for (const table of [
      "audit_log",
      "blog_posts",
      "platform_tokens",
      "platform_admins",
      "email_suppressions",
      "email_outbox",
      "email_logs",
      "ip_blocks",
      "idempotency_keys",
      "invitations",
      "consumed_ids",
      "oauth_codes",
      "oauth_flows",
      "identities",
      "user_tokens",
      "refresh_tokens",
      "sessions",
    ])
      this.addSql(`drop table ${table}`);
    this.addSql(`drop function audit_log_is_append_only`);
    this.addSql(`create table refresh_tokens (
      hash text primary key,
      user_id uuid not null references users (id) on delete cascade,
      family_id uuid not null,
      expires_at timestamptz(3) not null,
      used_at timestamptz(3),
      created_at timestamptz(3) not null)`);
    this.addSql(`drop index api_keys_expiry_idx`);
    this.addSql(`alter table api_keys drop column created_by, drop column replaced_by`);
    this.addSql(`alter table projects drop column allowed_origins`);
    this.addSql(`drop index users_email_key`);
    this.addSql(`alter table users drop constraint users_email_check`);
    this.addSql(`create unique index users_email_key on users (lower(email))`);
    this.addSql(`alter table users
      drop column status, drop column profile_completed, drop column last_login_at, drop column disabled_at`);
    this.addSql(`alter table tenants
      drop column approval_reason, drop column approval_requested_at, drop column redirect_uris,
      drop column plan_overrides, drop column delete_after, drop column deleted_at`);
  }
}
