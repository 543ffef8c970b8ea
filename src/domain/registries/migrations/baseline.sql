-- The schema as it was first released; later changes are the numbered migrations beside this file.
-- Statements begin at the start of a line. Who sees which rows: baseline.ts.

create function audit_log_is_append_only() returns trigger language plpgsql as $$
  begin raise exception 'audit_log is append only'; end $$;

create function keep_definition_version() returns trigger language plpgsql as $$
  begin
    if new.kind in ('quest', 'adventure') and new.status = 'ACTIVE' then
      new.phase := coalesce(new.phase, 'RUNNING');
      if tg_op = 'UPDATE' and old.status <> 'DRAFT'
        and (new.version, new.ended_at) is distinct from (old.version, old.ended_at) then
        new.ends_changed := true;
      end if;
      insert into definition_versions (project_id, definition_id, version, definition, published_at)
      values (new.project_id, new.id, new.version, new.definition, new.updated_at)
      on conflict do nothing;
    end if;
    return new;
  end $$;

create function note_segment_change() returns trigger language plpgsql as $$
  begin
    insert into segment_changes (project_id) values (coalesce(new.project_id, old.project_id));
    return null;
  end $$;

create table tenants (
  id uuid primary key,
  name text not null check ((length(name) >= 2) and (length(name) <= 255)),
  approval_status text not null check (approval_status in ('PENDING', 'APPROVED', 'REJECTED', 'SUSPENDED')),
  plan text not null check (plan in ('FREE', 'STARTER', 'PRO', 'ENTERPRISE')),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  approval_reason text check (length(approval_reason) <= 500),
  approval_requested_at timestamptz(3),
  redirect_uris text[] not null default '{}',
  plan_overrides jsonb not null default '{}',
  delete_after timestamptz(3),
  deleted_at timestamptz(3),
  second_factor_required boolean not null default false,
  link_domain text
);
create index tenants_deletion_idx on tenants (delete_after) where deleted_at is null;

create table users (
  id uuid primary key,
  tenant_id uuid not null references tenants,
  email text not null check (email = lower(email)),
  name text not null check ((length(name) >= 2) and (length(name) <= 255)),
  password_hash text,
  role text not null check (role in ('OWNER', 'ADMIN', 'DESIGNER', 'DEVELOPER', 'VIEWER')),
  email_verified boolean not null default false,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  status text not null default 'ACTIVE' check (status in ('PENDING', 'ACTIVE', 'SUSPENDED')),
  profile_completed boolean not null default true,
  last_login_at timestamptz(3),
  disabled_at timestamptz(3),
  mfa_enabled boolean not null default false
);
create index users_tenant_idx on users (tenant_id);
create unique index users_email_key on users (email);

create table projects (
  id uuid primary key,
  tenant_id uuid not null references tenants,
  name text not null check ((length(name) >= 2) and (length(name) <= 255)),
  description text check (length(description) <= 2000),
  timezone text not null default 'UTC',
  settings jsonb not null default '{}',
  config_version bigint not null default 1,
  sandbox_of uuid unique references projects,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  deleted_at timestamptz(3),
  allowed_origins text[] not null default '{}',
  clock_ahead_ms bigint not null default 0,
  spells_since timestamptz(3),
  constraint projects_clock_check check ((clock_ahead_ms = 0) or ((clock_ahead_ms > 0) and (sandbox_of is not null)))
);
create index projects_tenant_idx on projects (tenant_id, created_at, id);
create index projects_clock_idx on projects (id) where clock_ahead_ms > 0;

create table api_keys (
  id uuid primary key,
  project_id uuid not null references projects,
  acts_on_project_id uuid not null references projects,
  name text not null check ((length(name) >= 2) and (length(name) <= 255)),
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
  deleted_at timestamptz(3),
  created_by text,
  replaced_by uuid references api_keys
);
create index api_keys_project_idx on api_keys (project_id, created_at, id);
create index api_keys_expiry_idx on api_keys (expires_at) where status = 'ACTIVE';

create table players (
  project_id uuid,
  id uuid,
  external_user_id text not null check ((length(external_user_id) >= 1) and (length(external_user_id) <= 255)),
  display_name text check (length(display_name) <= 100),
  avatar_url text check (length(avatar_url) <= 2048),
  status text not null default 'ACTIVE'
    check (status in ('ACTIVE', 'SUSPENDED', 'BANNED', 'MERGED', 'ERASED')),
  xp bigint not null default 0 check ((xp >= 0) and (xp <= 9007199254740991)),
  level int not null default 1 check (level >= 1),
  timezone text,
  locale text,
  country text,
  attributes jsonb not null default '{}',
  metadata jsonb not null default '{}',
  tags text[] not null default '{}',
  seq bigint not null default 0,
  ledger_seq bigint not null default 0,
  last_seen_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  ledger_hash text,
  lives int check (lives >= 0),
  lives_anchor_at timestamptz(3),
  lives_unlimited_until timestamptz(3),
  zone_changed_at timestamptz(3),
  merged_into uuid,
  deleted_at timestamptz(3),
  active_month int,
  primary key (project_id, id)
) with (fillfactor = 80);
create unique index players_external_key on players (project_id, external_user_id);
create index players_created_idx on players (project_id, created_at, id);
create index players_merged_idx on players (project_id, merged_into) where merged_into is not null;
create index players_merged_name_idx on players (project_id, external_user_id) include (merged_into)
  where merged_into is not null;

create table player_states (
  project_id uuid,
  player_id uuid,
  doc jsonb not null,
  bytes int,
  primary key (project_id, player_id)
) with (fillfactor = 70);

create table tracked_events (
  project_id uuid,
  id uuid,
  external_user_id text not null,
  event_type text not null,
  properties jsonb not null,
  occurred_at timestamptz(3) not null,
  received_at timestamptz(3) not null,
  idempotency_key text,
  primary key (project_id, id)
) partition by range (id);
create index tracked_events_player_idx on tracked_events (project_id, external_user_id, id);
create index tracked_events_sent_idx on tracked_events (project_id, ((properties ->> 'rootEventId')))
  where event_type in ('system.grant', 'system.delayed_action');
create index tracked_events_time_idx on tracked_events using brin (occurred_at) with (autosummarize = on);

create table tracked_events_default partition of tracked_events default;

create table event_dedupe (
  project_id uuid,
  idempotency_key text,
  event_id uuid not null,
  payload_hash uuid not null,
  primary key (project_id, idempotency_key)
);

create table event_q (
  project_id uuid,
  part smallint not null,
  seq bigint generated by default as identity,
  event_id uuid,
  attempts smallint not null default 0,
  primary key (project_id, event_id)
);
create index event_q_claim_idx on event_q (part, project_id, seq);

create table event_due (
  project_id uuid,
  event_id uuid,
  part smallint not null,
  attempts smallint not null,
  due_at timestamptz(3) not null,
  primary key (project_id, event_id)
);
create index event_due_idx on event_due (due_at);

create table event_results (
  project_id uuid,
  event_id uuid,
  status text not null check (status in ('FAILED', 'REJECTED', 'REVERTED')),
  error text,
  attempts smallint not null,
  processed_at timestamptz(3) not null,
  primary key (project_id, event_id)
);

create table level_curves (
  project_id uuid references projects,
  version int,
  type text not null check (type in ('TABLE', 'LINEAR', 'QUADRATIC', 'EXPONENTIAL')),
  params jsonb not null,
  thresholds jsonb not null,
  created_by text not null,
  created_at timestamptz(3) not null,
  primary key (project_id, version)
);

create table rules (
  id uuid primary key,
  project_id uuid not null references projects,
  key text not null,
  name text not null,
  status text not null check (status in ('DRAFT', 'ACTIVE', 'SHADOW', 'PAUSED', 'ARCHIVED')),
  pause_reason text,
  draft jsonb not null,
  draft_version int not null default 1,
  published_version int,
  created_by text not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  draft_bytes int
    generated always as (octet_length(draft::text)) stored,
  unique (project_id, key)
);

create table rule_versions (
  rule_id uuid references rules,
  version int,
  definition jsonb not null,
  change_note text,
  published_by text not null,
  published_at timestamptz(3) not null,
  bytes int
    generated always as (octet_length(definition::text)) stored,
  digest text
    generated always as (md5(definition::text)) stored,
  has_metric boolean
    generated always as (strpos(definition::text, '"metric"') > 0) stored,
  primary key (rule_id, version)
);

create table leaderboards (
  id uuid primary key,
  project_id uuid not null references projects,
  key text not null,
  name text not null,
  status text not null check (status in ('ACTIVE', 'PAUSED', 'ARCHIVED')),
  definition jsonb not null,
  version int not null default 1,
  period_id uuid not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  resets int not null default 0,
  reset_at timestamptz(3),
  opens_at timestamptz(3),
  bytes int
    generated always as (octet_length(definition::text)) stored,
  digest text
    generated always as (md5(definition::text)) stored,
  has_metric boolean
    generated always as (strpos(definition::text, '"metric"') > 0) stored,
  unique (project_id, key)
);
create index leaderboards_opens_idx on leaderboards (opens_at) where status = 'ACTIVE';

create table leaderboard_entries (
  project_id uuid,
  period_id uuid,
  player_id uuid,
  rank_score bigint not null,
  rank_tie bigint not null,
  latest_us bigint not null,
  version int not null default 1,
  updated_at timestamptz(3) not null,
  submissions int not null default 0,
  meta json,
  recorded int,
  primary key (project_id, period_id, player_id)
) with (fillfactor = 80);

create table ledger_entries (
  project_id uuid,
  player_id uuid,
  seq bigint,
  id uuid not null,
  asset text not null check (asset in ('XP', 'CURRENCY', 'LIVES')),
  amount bigint not null check (amount <> 0),
  balance_after bigint not null check (balance_after >= 0),
  reason text not null,
  idempotency_key text not null,
  cause jsonb not null,
  created_at timestamptz(3) not null,
  currency_key text,
  tx_id uuid,
  reverses uuid,
  hash text not null,
  event_id uuid,
  primary key (project_id, player_id, seq),
  constraint ledger_entries_check check ((asset = 'CURRENCY') = (currency_key is not null))
);
create unique index ledger_entries_idempotency_key on ledger_entries (project_id, player_id, idempotency_key);
create index ledger_entries_event_idx on ledger_entries (project_id, event_id) where event_id is not null;
create index ledger_entries_time_idx on ledger_entries using brin (created_at);
create index ledger_entries_gain_idx on ledger_entries (project_id, id)
  where (amount > 0) and (reverses is null) and (tx_id is null) and (asset in ('XP', 'CURRENCY'));
create index ledger_entries_no_event_idx on ledger_entries (project_id, id) where event_id is null;

create table outbox_q (
  project_id uuid,
  part smallint,
  seq bigint generated by default as identity,
  outbox_ids uuid[] not null,
  primary key (project_id, part, seq)
);
create index outbox_q_relay_idx on outbox_q (part, seq);
create index outbox_q_lane_idx on outbox_q (part, project_id, seq);

create table sessions (
  id uuid primary key,
  tenant_id uuid not null references tenants,
  user_id uuid not null references users on delete cascade,
  method text not null,
  ip text not null,
  user_agent text not null,
  created_at timestamptz(3) not null,
  last_used_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  revoked_for text,
  mfa_at timestamptz(3)
);
create index sessions_user_idx on sessions (user_id, created_at, id);
create index sessions_end_idx on sessions (LEAST(expires_at, revoked_at));

create table refresh_tokens (
  hash text primary key,
  tenant_id uuid not null references tenants,
  session_id uuid not null references sessions on delete cascade,
  expires_at timestamptz(3) not null,
  used_at timestamptz(3),
  created_at timestamptz(3) not null
);
create index refresh_tokens_session_idx on refresh_tokens (session_id);
create index refresh_tokens_expiry_idx on refresh_tokens (expires_at);

create table user_tokens (
  hash text primary key,
  tenant_id uuid not null references tenants,
  user_id uuid not null references users on delete cascade,
  purpose text not null check (purpose in ('VERIFY_EMAIL', 'CHANGE_EMAIL', 'RESET_PASSWORD')),
  email text not null,
  expires_at timestamptz(3) not null,
  used_at timestamptz(3),
  created_at timestamptz(3) not null
);
create index user_tokens_user_idx on user_tokens (user_id, purpose);
create index user_tokens_expiry_idx on user_tokens (expires_at);

create table identities (
  id uuid primary key,
  tenant_id uuid not null references tenants,
  user_id uuid not null references users on delete cascade,
  provider text not null,
  subject text not null,
  email text,
  created_at timestamptz(3) not null,
  unique (provider, subject),
  unique (user_id, provider)
);

create table oauth_flows (
  state_hash text primary key,
  browser_hash text,
  provider text not null,
  flow text not null check (flow in ('login', 'signup', 'link')),
  redirect_uri text not null,
  response_mode text not null check (response_mode in ('query', 'code')),
  tenant_id uuid references tenants,
  user_id uuid references users on delete cascade,
  session_id uuid references sessions on delete cascade,
  secrets text,
  expires_at timestamptz(3) not null
);
create index oauth_flows_expiry_idx on oauth_flows (expires_at);

create table oauth_codes (
  hash text primary key,
  user_id uuid not null references users on delete cascade,
  provider text not null,
  expires_at timestamptz(3) not null,
  idp text,
  session_id uuid
);
create index oauth_codes_expiry_idx on oauth_codes (expires_at);

create table consumed_ids (
  kind text,
  id text,
  expires_at timestamptz(3) not null,
  primary key (kind, id)
);
create index consumed_ids_expiry_idx on consumed_ids (expires_at);

create table invitations (
  id uuid primary key,
  tenant_id uuid not null references tenants,
  email text not null,
  role text not null check (role in ('OWNER', 'ADMIN', 'DESIGNER', 'DEVELOPER', 'VIEWER')),
  token_hash text not null unique,
  status text not null check (status in ('PENDING', 'ACCEPTED', 'REVOKED', 'EXPIRED')),
  invited_by uuid not null,
  expires_at timestamptz(3) not null,
  sent_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null
);
create unique index invitations_pending_key on invitations (tenant_id, lower(email))
  where status = 'PENDING';
create index invitations_tenant_idx on invitations (tenant_id, created_at, id);

create table idempotency_keys (
  scope text,
  key text,
  tenant_id uuid,
  fingerprint text not null,
  status smallint not null,
  body text not null,
  created_at timestamptz(3) not null,
  primary key (scope, key)
);
create index idempotency_keys_age_idx on idempotency_keys (created_at);

create table ip_blocks (
  id uuid primary key,
  network cidr not null unique,
  reason text not null check (length(reason) <= 500),
  source text not null check (source in ('MANUAL', 'AUTO')),
  created_by text not null,
  expires_at timestamptz(3),
  created_at timestamptz(3) not null
);
create index ip_blocks_expiry_idx on ip_blocks (expires_at);

create table email_logs (
  id uuid primary key,
  tenant_id uuid references tenants,
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
  sent_at timestamptz(3)
);
create index email_logs_tenant_idx on email_logs (tenant_id, created_at, id);
create index email_logs_time_idx on email_logs (created_at, id);

create table email_outbox (
  log_id uuid primary key references email_logs on delete cascade,
  tenant_id uuid,
  payload text not null,
  next_attempt_at timestamptz(3) not null,
  locked_until timestamptz(3),
  keep_until timestamptz(3)
);
create index email_outbox_due_idx on email_outbox (next_attempt_at) where keep_until is null;
create index email_outbox_kept_idx on email_outbox (keep_until) where keep_until is not null;

create table email_suppressions (
  email text primary key,
  reason text not null,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null
);
create index email_suppressions_expiry_idx on email_suppressions (expires_at);

create table platform_admins (
  id uuid primary key,
  email text not null,
  name text not null,
  password_hash text not null,
  session_version int not null default 1,
  disabled_at timestamptz(3),
  last_login_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  mfa_enabled boolean not null default false
);
create unique index platform_admins_email_key on platform_admins (lower(email));

create table platform_tokens (
  id uuid primary key,
  name text not null,
  secret_hash text not null unique,
  scopes text[] not null,
  created_by text not null,
  last_used_at timestamptz(3),
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  created_at timestamptz(3) not null
);

create table blog_posts (
  slug text primary key,
  title text not null,
  tags text[] not null default '{}',
  featured boolean not null default false,
  draft boolean not null default false,
  post_date timestamptz(3) not null,
  excerpt text,
  author text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null
);
create index blog_posts_date_idx on blog_posts (post_date, slug);

create table audit_log (
  id uuid primary key,
  tenant_id uuid,
  actor text not null,
  action text not null,
  target_type text not null,
  target_id text not null,
  ip text not null,
  request_id text not null,
  data jsonb not null default '{}',
  created_at timestamptz(3) not null
);
create index audit_log_tenant_idx on audit_log (tenant_id, created_at, id);
create index audit_log_time_idx on audit_log (created_at, id);
create index audit_log_actor_idx on audit_log (tenant_id, actor, created_at, id);
create trigger audit_log_append_only before update or delete on audit_log
  for each row execute function audit_log_is_append_only();
create trigger audit_log_no_truncate before truncate on audit_log
  for each statement execute function audit_log_is_append_only();

create table player_identities (
  project_id uuid,
  provider text check ((length(provider) >= 1) and (length(provider) <= 64)),
  external_id text check ((length(external_id) >= 1) and (length(external_id) <= 255)),
  player_id uuid not null,
  created_at timestamptz(3) not null,
  primary key (project_id, provider, external_id)
);
create index player_identities_player_idx on player_identities (project_id, player_id);

create table player_merges (
  project_id uuid,
  id uuid,
  target_id uuid not null,
  source_id uuid not null,
  strategy jsonb not null,
  summary jsonb not null,
  source_snapshot jsonb,
  created_by text not null,
  created_at timestamptz(3) not null,
  primary key (project_id, id)
);
create index player_merges_source_idx on player_merges (project_id, source_id);
create index player_merges_target_idx on player_merges (project_id, target_id);
create index player_merges_age_idx on player_merges (created_at) where source_snapshot is not null;

create table definitions (
  id uuid primary key,
  project_id uuid not null references projects,
  kind text not null,
  key text not null check ((length(key) >= 1) and (length(key) <= 64)),
  name text not null,
  definition jsonb not null,
  status text not null check (status in ('ACTIVE', 'ARCHIVED', 'DRAFT')),
  version int not null default 1,
  created_by text not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  bytes int
    generated always as (octet_length(definition::text)) stored,
  digest text
    generated always as (md5(definition::text)) stored,
  has_metric boolean
    generated always as (strpos(definition::text, '"metric"') > 0) stored,
  draft jsonb,
  draft_version int not null default 1,
  phase text check (phase in ('RUNNING', 'PAUSED', 'ENDED')),
  ended_at timestamptz(3),
  draft_bytes int
    generated always as (octet_length(draft::text)) stored,
  pauses jsonb,
  ends jsonb,
  ends_changed boolean not null default false,
  unique (project_id, kind, key)
);
create index definitions_segments_idx on definitions (project_id, id)
  where (kind = 'segment') and (status = 'ACTIVE');
create index definitions_ends_idx on definitions (kind, project_id) where ends_changed;
create trigger definitions_version before insert or update on definitions
  for each row execute function keep_definition_version();
create trigger definitions_segment_inserted after insert on definitions
  for each row when (new.kind = 'segment') execute function note_segment_change();
create trigger definitions_segment_updated after update on definitions
  for each row when (new.kind = 'segment') execute function note_segment_change();
create trigger definitions_segment_deleted after delete on definitions
  for each row when (old.kind = 'segment') execute function note_segment_change();

create table shared_counters (
  project_id uuid,
  scope text,
  window_no bigint,
  used bigint not null default 0 check (used >= 0),
  times jsonb,
  touched_at timestamptz(3) not null default now(),
  primary key (project_id, scope, window_no)
);
create index shared_counters_day_idx on shared_counters (window_no) where scope ~~ '%rule:%:%:DAY';
create index shared_counters_week_idx on shared_counters (window_no) where scope ~~ '%rule:%:%:WEEK';
create index shared_counters_month_idx on shared_counters (window_no) where scope ~~ '%rule:%:%:MONTH';

create table player_balances (
  project_id uuid,
  player_id uuid,
  currency_key text,
  balance bigint not null check ((balance >= 0) and (balance <= 9007199254740991)),
  held bigint not null default 0,
  earned bigint not null default 0,
  spent bigint not null default 0,
  updated_at timestamptz(3) not null,
  constraint player_balances_check check ((held >= 0) and (held <= balance)),
  primary key (project_id, player_id, currency_key)
) with (fillfactor = 80);

create table currency_lots (
  project_id uuid,
  player_id uuid,
  id uuid,
  currency_key text not null,
  remaining bigint not null check (remaining > 0),
  expires_at timestamptz(3) not null,
  primary key (project_id, player_id, id)
);
create index currency_lots_due_idx on currency_lots (expires_at, project_id, player_id);

create table currency_holds (
  project_id uuid,
  player_id uuid,
  id uuid,
  currency_key text not null,
  amount bigint not null check (amount > 0),
  captured bigint,
  status text not null check (status in ('HELD', 'CAPTURED', 'RELEASED', 'EXPIRED')),
  reference text,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  settled_at timestamptz(3),
  primary key (project_id, player_id, id)
);
create index currency_holds_due_idx on currency_holds (expires_at, project_id, player_id)
  where status = 'HELD';
create index currency_holds_reference_idx on currency_holds (project_id, player_id, reference)
  where reference is not null;

create table player_badges (
  project_id uuid,
  player_id uuid,
  badge_key text,
  tier int not null default 0,
  progress float8 not null default 0,
  times_awarded int not null default 0,
  serial_no bigint,
  first_earned_at timestamptz(3),
  last_earned_at timestamptz(3),
  revoked_at timestamptz(3),
  updated_at timestamptz(3) not null,
  primary key (project_id, player_id, badge_key)
) with (fillfactor = 80);
create index player_badges_holders_idx on player_badges (project_id, badge_key, tier, player_id);

create table badge_awards (
  project_id uuid,
  player_id uuid,
  id uuid,
  badge_key text not null,
  tier int not null,
  action text not null check (action in ('AWARDED', 'REVOKED')),
  serial_no bigint,
  idempotency_key text not null,
  cause jsonb not null,
  event_id uuid,
  created_at timestamptz(3) not null,
  primary key (project_id, player_id, id),
  unique (project_id, player_id, idempotency_key)
);
create index badge_awards_event_idx on badge_awards (project_id, event_id) where event_id is not null;
create index badge_awards_time_idx on badge_awards using brin (created_at);
create index badge_awards_award_idx on badge_awards (project_id, id) where action = 'AWARDED';

create table player_streaks (
  project_id uuid,
  player_id uuid,
  streak_key text,
  current int not null,
  longest int not null,
  freezes int not null check (freezes >= 0),
  deadline_at timestamptz(3),
  due_at timestamptz(3),
  doc jsonb not null,
  updated_at timestamptz(3) not null,
  primary key (project_id, player_id, streak_key)
) with (fillfactor = 80);
create index player_streaks_due_idx on player_streaks (due_at, project_id, player_id)
  where due_at is not null;

create table streak_runs (
  project_id uuid,
  player_id uuid,
  id uuid,
  streak_key text not null,
  started_on date not null,
  ended_on date not null,
  length int not null,
  frozen_periods jsonb not null,
  ended_by text not null check (ended_by in ('MISSED', 'BREAK_EVENT', 'RESET', 'REPAIRED', 'MERGED')),
  created_at timestamptz(3) not null,
  primary key (project_id, player_id, id)
);

create table player_segments (
  project_id uuid,
  player_id uuid,
  segment_key text,
  entered_at timestamptz(3) not null,
  primary key (project_id, player_id, segment_key)
);
create index player_segments_members_idx on player_segments (project_id, segment_key, player_id);

create table segment_sweeps (
  project_id uuid primary key,
  definitions text not null,
  due_at timestamptz(3) not null,
  after_player uuid
);
create index segment_sweeps_due_idx on segment_sweeps (due_at);

create table player_boosts (
  project_id uuid,
  player_id uuid,
  id uuid,
  boost_key text not null,
  applies text not null,
  factor float8 not null check ((factor > 0) and (factor <= 100)),
  stacking text not null check (stacking in ('MAX', 'MULTIPLY', 'EXTEND', 'REPLACE')),
  starts_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  uses_left int,
  cause jsonb not null,
  primary key (project_id, player_id, id)
);
create index player_boosts_due_idx on player_boosts (expires_at, project_id, player_id);

create table reward_grants (
  project_id uuid,
  player_id uuid,
  id uuid,
  reward_key text not null,
  quantity int not null check (quantity > 0),
  status text not null check (status in ('PENDING', 'GRANTED', 'CLAIMED', 'FULFILLED', 'EXPIRED', 'REVOKED')),
  idempotency_key text not null,
  contents jsonb not null,
  code text,
  cause jsonb not null,
  event_id uuid,
  expires_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (project_id, player_id, id),
  unique (project_id, player_id, idempotency_key)
);
create index reward_grants_due_idx on reward_grants (expires_at) where status = 'PENDING';
create index reward_grants_reward_idx on reward_grants (project_id, reward_key);
create index reward_grants_event_idx on reward_grants (project_id, event_id) where event_id is not null;
create index reward_grants_id_idx on reward_grants (project_id, id);

create table prize_codes (
  project_id uuid,
  reward_key text,
  code text,
  grant_id uuid,
  created_at timestamptz(3) not null,
  primary key (project_id, reward_key, code)
);
create index prize_codes_free_idx on prize_codes (project_id, reward_key) where grant_id is null;

create table inbox_messages (
  project_id uuid,
  player_id uuid,
  id uuid,
  type text not null,
  title text not null,
  body text,
  data jsonb not null,
  reward_grant_id uuid,
  read_at timestamptz(3),
  expires_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (project_id, player_id, id)
);
create index inbox_messages_due_idx on inbox_messages (expires_at) where expires_at is not null;
create index inbox_messages_mention_idx on inbox_messages (project_id, ((data ->> 'playerId')))
  where type = 'chat-mention';

create table rule_stats (
  project_id uuid,
  rule_id uuid,
  hour timestamptz(3),
  evaluated bigint not null,
  fired bigint not null,
  reasons jsonb not null,
  leaf_fails jsonb not null,
  cost jsonb not null,
  micros jsonb not null,
  primary key (project_id, rule_id, hour)
);
create index rule_stats_hour_idx on rule_stats (hour);

create table rule_schedules (
  project_id uuid,
  rule_id uuid,
  trigger_no int,
  due_at timestamptz(3) not null,
  after_player uuid,
  primary key (project_id, rule_id, trigger_no)
);
create index rule_schedules_due_idx on rule_schedules (due_at);

create table event_traces (
  project_id uuid,
  event_id uuid,
  trace jsonb not null,
  expires_at timestamptz(3) not null,
  primary key (project_id, event_id)
);
create index event_traces_expires_idx on event_traces (expires_at);

create table event_types (
  project_id uuid,
  name text,
  schema json,
  schema_version int not null default 0,
  enforcement text not null default 'OFF' check (enforcement in ('OFF', 'WARN', 'REJECT')),
  properties jsonb not null default '{}',
  total bigint not null default 0,
  first_seen_at timestamptz(3),
  last_seen_at timestamptz(3),
  primary key (project_id, name)
);
create index event_types_schemas_idx on event_types (project_id, schema_version) where schema_version > 0;

create table project_jobs (
  project_id uuid,
  id uuid,
  kind text not null,
  status text not null check (status in ('QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
  params jsonb not null,
  state jsonb not null default '{}',
  progress smallint not null default 0 check ((progress >= 0) and (progress <= 100)),
  result jsonb,
  error text,
  attempts smallint not null default 0,
  created_by text not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  finished_at timestamptz(3),
  due_at timestamptz(3) not null,
  primary key (project_id, id)
);
create index project_jobs_due_idx on project_jobs (due_at) where status in ('QUEUED', 'RUNNING');
create index project_jobs_list_idx on project_jobs (project_id, kind, id);
create index project_jobs_age_idx on project_jobs (finished_at) where result is not null;
create index project_jobs_finished_idx on project_jobs (finished_at) where finished_at is not null;
create index project_jobs_turn_idx on project_jobs (project_id, due_at)
  where status in ('QUEUED', 'RUNNING');

create table leaderboard_periods (
  project_id uuid,
  id uuid,
  leaderboard_id uuid not null,
  period_key text not null,
  board text not null default '',
  starts_at timestamptz(3),
  ends_at timestamptz(3),
  close_at timestamptz(3),
  status text not null default 'OPEN' check (status in ('OPEN', 'CLOSING', 'CLOSED', 'ARCHIVED')),
  is_late boolean not null default false,
  is_told boolean not null default false,
  grants_prizes boolean not null default true,
  participants bigint not null default 0,
  leader_id uuid,
  leader_score bigint,
  notice_round bigint not null default 0,
  created_at timestamptz(3) not null,
  written_at timestamptz(3) not null,
  closed_at timestamptz(3),
  closing json,
  ranking jsonb,
  primary key (project_id, id),
  constraint leaderboard_periods_project_id_leaderboard_id_period_key_bo_key unique (project_id, leaderboard_id, period_key, board)
);
create index leaderboard_periods_due_idx on leaderboard_periods (close_at)
  where status in ('OPEN', 'CLOSING');
create index leaderboard_periods_kept_idx on leaderboard_periods (project_id, leaderboard_id, starts_at desc)
  where status = 'CLOSED';
create index leaderboard_periods_ranking_idx on leaderboard_periods (project_id, close_at)
  where ranking is not null;

create table leaderboard_results (
  project_id uuid,
  period_id uuid,
  "position" bigint,
  rank bigint not null,
  player_id uuid not null,
  rank_score bigint not null,
  rank_tie bigint not null,
  prize json,
  primary key (project_id, period_id, "position")
);
create index leaderboard_results_player_idx on leaderboard_results (project_id, player_id, period_id);

create table leaderboard_notices (
  project_id uuid,
  period_id uuid,
  player_id uuid,
  rank bigint,
  previous_rank bigint,
  told_at timestamptz(3),
  due_at timestamptz(3),
  primary key (project_id, period_id, player_id)
);
create index leaderboard_notices_due_idx on leaderboard_notices (due_at) where due_at is not null;

create table leaderboard_feed (
  project_id uuid,
  leaderboard_id uuid,
  id uuid,
  type text not null,
  data jsonb not null,
  created_at timestamptz(3) not null,
  primary key (project_id, leaderboard_id, id)
);

create table score_reviews (
  project_id uuid,
  id uuid,
  leaderboard_id uuid not null,
  period_id uuid not null,
  player_id uuid not null,
  score float8 not null,
  violation text not null,
  meta json,
  occurred_at timestamptz(3) not null,
  status text not null default 'OPEN' check (status in ('OPEN', 'ACCEPTED', 'REJECTED')),
  submitted_at timestamptz(3) not null,
  reviewed_by text,
  reviewed_at timestamptz(3),
  primary key (project_id, id)
);
create index score_reviews_player_idx on score_reviews (project_id, player_id);
create index score_reviews_queue_idx on score_reviews (project_id, status, id);

create table lobbies (
  project_id uuid,
  id uuid,
  code text not null,
  name text not null,
  mode text not null,
  visibility text not null check (visibility in ('PUBLIC', 'PRIVATE', 'FRIENDS')),
  passcode_hash text,
  status text not null check (status in ('OPEN', 'STARTING', 'IN_GAME', 'CLOSED')),
  host_player_id uuid,
  min_players smallint not null check (min_players >= 1),
  max_players smallint not null,
  member_count smallint not null default 0,
  spectator_count smallint not null default 0,
  settings jsonb not null,
  metadata jsonb not null default '{}',
  private_data jsonb not null default '{}',
  version int not null default 1,
  channel_id uuid,
  match_id uuid,
  seed text,
  starts_at timestamptz(3),
  started_at timestamptz(3),
  ended_at timestamptz(3),
  close_reason text,
  results json,
  created_via text not null check (created_via in ('API', 'PLAYER', 'QUICKPLAY')),
  due_at timestamptz(3),
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  constraint lobbies_check check (max_players >= min_players),
  constraint lobbies_check1 check ((member_count >= 0) and (member_count <= max_players)),
  primary key (project_id, id)
) with (fillfactor = 70);
create unique index lobbies_code_idx on lobbies (project_id, code) where status <> 'CLOSED';
create index lobbies_list_idx on lobbies (project_id, status, created_at desc);
create index lobbies_quickplay_idx on lobbies (project_id, mode, member_count desc, created_at, id)
  where (status = 'OPEN') and (visibility = 'PUBLIC') and (passcode_hash is null) and (member_count < max_players);
create index lobbies_metadata_idx on lobbies using gin (metadata jsonb_path_ops) where status = 'OPEN';
create index lobbies_due_idx on lobbies (due_at) where status <> 'CLOSED';
create index lobbies_closed_idx on lobbies (ended_at) where status = 'CLOSED';

create table lobby_members (
  project_id uuid,
  lobby_id uuid,
  player_id uuid,
  mode text not null,
  status text not null check (status in ('JOINED', 'READY', 'DISCONNECTED', 'LEFT', 'KICKED')),
  role text not null check (role in ('PLAYER', 'SPECTATOR')),
  is_active boolean
    generated always as (status in ('JOINED', 'READY', 'DISCONNECTED')) stored,
  is_ready boolean not null default false,
  team smallint,
  slot smallint,
  data jsonb not null default '{}',
  presence text not null default 'API' check (presence in ('API', 'SOCKET')),
  grace_until timestamptz(3),
  joined_at timestamptz(3) not null,
  left_at timestamptz(3),
  primary key (project_id, lobby_id, player_id)
);
create unique index lobby_members_one_idx on lobby_members (project_id, player_id, mode)
  where (status in ('JOINED', 'READY', 'DISCONNECTED')) and (role = 'PLAYER');
create index lobby_members_player_idx on lobby_members (project_id, player_id);

create table lobby_invites (
  project_id uuid,
  lobby_id uuid,
  player_id uuid,
  invited_by uuid,
  status text not null check (status in ('PENDING', 'ACCEPTED', 'DECLINED', 'EXPIRED')),
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  primary key (project_id, lobby_id, player_id)
);
create index lobby_invites_player_idx on lobby_invites (project_id, player_id);

create table lobby_bans (
  project_id uuid,
  lobby_id uuid,
  player_id uuid,
  reason text,
  created_at timestamptz(3) not null,
  primary key (project_id, lobby_id, player_id)
);
create index lobby_bans_player_idx on lobby_bans (project_id, player_id);

create table lobby_matches (
  project_id uuid,
  id uuid,
  lobby_id uuid not null,
  players jsonb not null,
  started_at timestamptz(3) not null,
  ended_at timestamptz(3),
  results json,
  primary key (project_id, id)
);
create index lobby_matches_lobby_idx on lobby_matches (project_id, lobby_id);

create table chat_channels (
  project_id uuid,
  id uuid,
  kind text not null check (kind in ('PROJECT', 'LOBBY', 'DIRECT', 'GROUP')),
  key text,
  name text,
  lobby_id uuid,
  direct_key text,
  settings jsonb not null,
  status text not null check (status in ('ACTIVE', 'LOCKED', 'ARCHIVED')),
  last_seq bigint not null default 0,
  read_only_at timestamptz(3),
  delete_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (project_id, id)
) with (fillfactor = 70);
create unique index chat_channels_key_idx on chat_channels (project_id, key) where key is not null;
create unique index chat_channels_lobby_idx on chat_channels (project_id, lobby_id)
  where lobby_id is not null;
create unique index chat_channels_direct_idx on chat_channels (project_id, direct_key)
  where direct_key is not null;
create index chat_channels_delete_idx on chat_channels (delete_at) where delete_at is not null;

create table chat_members (
  project_id uuid,
  channel_id uuid,
  player_id uuid,
  role text not null check (role in ('OWNER', 'MODERATOR', 'MEMBER')),
  last_read_seq bigint not null default 0,
  notify text not null check (notify in ('ALL', 'MENTIONS', 'NONE')),
  joined_at timestamptz(3) not null,
  left_at timestamptz(3),
  primary key (project_id, channel_id, player_id)
);
create index chat_members_player_idx on chat_members (project_id, player_id);

create table chat_messages (
  project_id uuid,
  channel_id uuid,
  seq bigint,
  id uuid not null,
  sender_id uuid,
  type text not null check (type in ('TEXT', 'SYSTEM')),
  content text not null,
  original text,
  mentions uuid[] not null default '{}',
  reply_to bigint,
  client_msg_id text,
  client_key text
    generated always as ((channel_id::text || coalesce(sender_id::text, '')) || client_msg_id) stored,
  moderation text not null check (moderation in ('VISIBLE', 'MASKED', 'HELD', 'REMOVED')),
  flags text[] not null default '{}',
  is_shadowed boolean not null default false,
  edited_at timestamptz(3),
  deleted_at timestamptz(3),
  deleted_by text,
  created_at timestamptz(3) not null,
  primary key (project_id, channel_id, seq)
);
create unique index chat_messages_client_idx on chat_messages (project_id, client_key)
  where client_key is not null;
create index chat_messages_sender_idx on chat_messages (project_id, sender_id, created_at desc)
  where sender_id is not null;

create table chat_reactions (
  project_id uuid,
  channel_id uuid,
  seq bigint,
  player_id uuid,
  emoji text,
  created_at timestamptz(3) not null,
  primary key (project_id, channel_id, seq, player_id, emoji)
);
create index chat_reactions_player_idx on chat_reactions (project_id, player_id);

create table chat_sanctions (
  project_id uuid,
  id uuid,
  player_id uuid not null,
  channel_id uuid,
  kind text not null check (kind in ('MUTE', 'BAN', 'SHADOW_MUTE')),
  reason text not null,
  is_automatic boolean not null default false,
  expires_at timestamptz(3),
  created_by text not null,
  created_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  revoked_by text,
  appeal text,
  appealed_at timestamptz(3),
  appeal_status text check (appeal_status in ('OPEN', 'ACCEPTED', 'REJECTED')),
  primary key (project_id, id)
);
create index chat_sanctions_player_idx on chat_sanctions (project_id, player_id);

create table chat_reports (
  project_id uuid,
  id uuid,
  channel_id uuid,
  seq bigint,
  reporter_id uuid,
  sender_id uuid,
  reason text not null,
  note text,
  status text not null check (status in ('OPEN', 'IN_REVIEW', 'RESOLVED', 'DISMISSED')),
  action text check (action in ('NONE', 'REMOVE', 'WARN', 'MUTE', 'BAN')),
  assignee text,
  created_at timestamptz(3) not null,
  resolved_at timestamptz(3),
  resolved_by text,
  primary key (project_id, id)
);
create unique index chat_reports_once_idx on chat_reports (project_id, channel_id, seq, reporter_id)
  where reporter_id is not null;
create index chat_reports_reporter_idx on chat_reports (project_id, reporter_id)
  where reporter_id is not null;
create index chat_reports_queue_idx on chat_reports (project_id, status, id);
create index chat_reports_sender_idx on chat_reports (project_id, sender_id);

create table chat_word_lists (
  project_id uuid,
  key text,
  action text not null check (action in ('MASK', 'BLOCK', 'HOLD', 'ALLOW')),
  match text not null check (match in ('WORD', 'SUBSTRING')),
  words json not null,
  version uuid not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (project_id, key)
);

create table webhooks (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  project_id uuid,
  url text not null,
  events text[] not null,
  description text,
  status text not null check (status in ('ACTIVE', 'FAILED', 'DISABLED', 'PAUSED')),
  disabled_reason text,
  secret text not null,
  secret_hint text not null,
  previous_secret text,
  previous_secret_expires_at timestamptz(3),
  created_by text,
  last_success_at timestamptz(3),
  last_failure_at timestamptz(3),
  failing_since timestamptz(3),
  exhausted int not null default 0,
  paused_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  deleted_at timestamptz(3)
) with (fillfactor = 70);
create index webhooks_tenant_idx on webhooks (tenant_id) where deleted_at is null;

create table webhook_feeds (
  project_id uuid primary key,
  tenant_id uuid not null,
  last_seq bigint not null default 0,
  read_at timestamptz(3)
) with (fillfactor = 50);

create table webhook_events (
  project_id uuid,
  seq bigint,
  tenant_id uuid not null,
  id uuid not null,
  type text not null,
  players uuid[],
  body text,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  primary key (project_id, seq)
);
create index webhook_events_created_idx on webhook_events using brin (created_at);
create index webhook_events_expiry_idx on webhook_events using brin (expires_at);

create table webhook_deliveries (
  webhook_id uuid,
  id uuid,
  tenant_id uuid not null,
  project_id uuid not null,
  event_seq bigint,
  event_id uuid not null,
  event_type text not null,
  body text,
  is_test boolean not null default false,
  status text not null check (status in ('pending', 'success', 'failed')),
  attempts smallint not null default 0,
  log jsonb not null default '[]',
  error text,
  due_at timestamptz(3),
  next_attempt_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  primary key (webhook_id, id)
) with (fillfactor = 80);
create index webhook_deliveries_due_idx on webhook_deliveries (webhook_id, due_at, id)
  where status = 'pending';
create index webhook_deliveries_expiry_idx on webhook_deliveries using brin (expires_at);

create table known_origins (
  owner_id uuid,
  origin text,
  tenant_id uuid references tenants on delete cascade,
  seen_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  primary key (owner_id, origin)
);
create index known_origins_tenant_idx on known_origins (tenant_id);
create index known_origins_expiry_idx on known_origins (expires_at);

create table outbox (
  project_id uuid,
  id uuid,
  type text not null,
  player_id uuid,
  player_seq bigint,
  event_id uuid,
  data jsonb not null,
  created_at timestamptz(3) not null,
  bytes int,
  lines smallint,
  constraint outbox_check check ((player_seq is null) or (player_id is not null)),
  primary key (project_id, id)
) partition by range (id);
create index outbox_event_idx on outbox (project_id, event_id) where event_id is not null;
create index outbox_silent_idx on outbox (project_id, player_id)
  where (player_seq is null) and (player_id is not null);
create index outbox_level_up_idx on outbox (project_id, id) where type = 'player.level_up';

create table outbox_default partition of outbox default;
create unique index outbox_default_player_key on outbox_default (project_id, player_id, player_seq)
  where player_seq is not null;

create table rule_executions (
  project_id uuid,
  rule_id uuid,
  id uuid,
  rule_version int not null,
  player_id uuid not null,
  event_id uuid not null,
  depth smallint not null,
  mode text not null check (mode in ('LIVE', 'SHADOW', 'HOLDOUT')),
  effects jsonb,
  reverted_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (project_id, rule_id, id)
) partition by range (id);
create index rule_executions_event_idx on rule_executions (project_id, event_id);
create index rule_executions_player_idx on rule_executions (project_id, player_id) where effects is not null;

create table rule_executions_default partition of rule_executions default;

create table definition_versions (
  project_id uuid,
  definition_id uuid,
  version int,
  definition jsonb not null,
  published_at timestamptz(3) not null,
  primary key (project_id, definition_id, version)
);

create table player_quests (
  project_id uuid,
  player_id uuid,
  quest_key text check ((length(quest_key) >= 1) and (length(quest_key) <= 64)),
  cycle_key text check ((length(cycle_key) >= 1) and (length(cycle_key) <= 64)),
  id uuid not null,
  quest_version int not null,
  state text not null
    check (state in ('IN_PROGRESS', 'COMPLETED', 'CLAIMED', 'EXPIRED', 'FAILED', 'ABANDONED', 'RESET')),
  percent smallint not null check ((percent >= 0) and (percent <= 100)),
  started_at timestamptz(3) not null,
  started_by text not null check (started_by in ('AUTO', 'PLAYER', 'API', 'RULE')),
  expires_at timestamptz(3),
  completed_at timestamptz(3),
  claimed_at timestamptz(3),
  claim_until timestamptz(3),
  completions int not null,
  last_completed_at timestamptz(3),
  doc jsonb not null,
  due_at timestamptz(3),
  is_latest boolean not null,
  is_live boolean not null,
  updated_at timestamptz(3) not null,
  over_at timestamptz(3)
    generated always as (case when is_live then null::timestamptz else updated_at end) stored,
  primary key (project_id, player_id, quest_key, cycle_key)
) with (fillfactor = 80);
create index player_quests_live_idx on player_quests (project_id, player_id) where is_live;
create index player_quests_due_idx on player_quests (due_at, project_id, player_id) where due_at is not null;
create index player_quests_quest_idx on player_quests (project_id, quest_key, started_at, id);
create index player_quests_over_idx on player_quests (over_at) where over_at is not null;

create table segment_changes (
  project_id uuid,
  seq bigint generated always as identity,
  primary key (project_id, seq)
);

create table player_adventures (
  project_id uuid,
  player_id uuid,
  adventure_key text check ((length(adventure_key) >= 1) and (length(adventure_key) <= 64)),
  id uuid not null,
  adventure_version int not null,
  state text not null check (state in ('WAITING', 'IN_PROGRESS', 'COMPLETED', 'CLAIMED', 'EXPIRED')),
  points numeric(16,6) not null,
  started_at timestamptz(3),
  completed_at timestamptz(3),
  claimed_at timestamptz(3),
  premium_at timestamptz(3),
  doc jsonb not null,
  due_at timestamptz(3),
  updated_at timestamptz(3) not null,
  primary key (project_id, player_id, adventure_key)
) with (fillfactor = 80);
create index player_adventures_due_idx on player_adventures (due_at, project_id, player_id)
  where due_at is not null;
create index player_adventures_adventure_idx on player_adventures (project_id, adventure_key, player_id);

create table quest_submissions (
  project_id uuid,
  id uuid,
  player_id uuid not null,
  quest_key text not null check ((length(quest_key) >= 1) and (length(quest_key) <= 64)),
  player_quest_id uuid not null,
  cycle_key text not null check ((length(cycle_key) >= 1) and (length(cycle_key) <= 64)),
  step_key text not null check ((length(step_key) >= 1) and (length(step_key) <= 64)),
  evidence_type text check (evidence_type in ('TEXT', 'URL')),
  evidence text check (length(evidence) <= 4096),
  status text not null check (status in ('PENDING', 'CONFIRMED', 'APPROVED', 'REJECTED', 'WITHDRAWN')),
  submitted_at timestamptz(3) not null,
  reviewed_by text,
  note text,
  closed_at timestamptz(3),
  constraint quest_submissions_check check ((evidence is null) = (evidence_type is null)),
  constraint quest_submissions_check1 check ((status = 'PENDING') = (closed_at is null)),
  primary key (project_id, id)
);
create index quest_submissions_player_idx on quest_submissions (project_id, player_id);
create index quest_submissions_queue_idx on quest_submissions (project_id, status, id);
create index quest_submissions_closed_idx on quest_submissions (closed_at) where closed_at is not null;

create table quest_codes (
  project_id uuid,
  quest_key text check ((length(quest_key) >= 1) and (length(quest_key) <= 64)),
  step_key text check ((length(step_key) >= 1) and (length(step_key) <= 64)),
  hash text check (length(hash) = 64),
  player_id uuid,
  used_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (project_id, quest_key, step_key, hash)
);
create index quest_codes_free_idx on quest_codes (project_id, quest_key, step_key) where used_at is null;
create index quest_codes_player_idx on quest_codes (project_id, player_id) where player_id is not null;

create table analytics_exports (
  project_id uuid,
  id uuid,
  report text not null,
  plan jsonb not null,
  row_count bigint not null default 0,
  byte_count bigint not null default 0,
  created_by text not null,
  created_at timestamptz(3) not null,
  finished_at timestamptz(3),
  expires_at timestamptz(3) not null,
  primary key (project_id, id)
);
create index analytics_exports_expiry_idx on analytics_exports (expires_at);

create table analytics_export_pieces (
  project_id uuid,
  export_id uuid,
  starts_at bigint,
  bytes bytea not null,
  primary key (project_id, export_id, starts_at)
);
alter table analytics_export_pieces alter column bytes set storage external;

create table uncounted_events (
  project_id uuid,
  event_id uuid,
  primary key (project_id, event_id)
);

create table analytics_rollups (
  project_id uuid primary key,
  watermark uuid not null,
  players int not null,
  rolled_up_at timestamptz(3) not null,
  halted_at timestamptz(3),
  gains_watermark uuid
);

create table analytics_players (
  project_id uuid,
  player_id uuid,
  no int not null,
  primary key (project_id, player_id)
);
create unique index analytics_players_no_idx on analytics_players (project_id, no);

create table analytics_days (
  project_id uuid,
  chunk int,
  day int,
  event_type text,
  document bytea not null,
  primary key (project_id, chunk, day, event_type)
);
alter table analytics_days alter column document set storage external;

create table analytics_firsts (
  project_id uuid,
  chunk int,
  firsts bytea not null,
  primary key (project_id, chunk)
);
alter table analytics_firsts alter column firsts set storage external;

create table analytics_unknown (
  project_id uuid,
  event_id uuid,
  primary key (project_id, event_id)
);

create table totp_secrets (
  owner_id uuid primary key,
  user_id uuid references users on delete cascade,
  admin_id uuid references platform_admins on delete cascade,
  tenant_id uuid references tenants on delete cascade,
  sealed text not null,
  last_step bigint not null default 0,
  confirmed_at timestamptz(3),
  created_at timestamptz(3) not null,
  next_sealed text,
  next_created_at timestamptz(3),
  constraint totp_secrets_check check ((num_nonnulls(user_id, admin_id) = 1) and (owner_id = coalesce(user_id, admin_id)))
);
create index totp_secrets_user_idx on totp_secrets (user_id);
create index totp_secrets_admin_idx on totp_secrets (admin_id);
create index totp_secrets_tenant_idx on totp_secrets (tenant_id);
create index totp_secrets_next_idx on totp_secrets (next_created_at) where next_sealed is not null;
create index totp_secrets_first_idx on totp_secrets (created_at) where confirmed_at is null;

create table recovery_codes (
  owner_id uuid,
  user_id uuid references users on delete cascade,
  admin_id uuid references platform_admins on delete cascade,
  tenant_id uuid references tenants on delete cascade,
  hash text,
  created_at timestamptz(3) not null,
  constraint recovery_codes_check check ((num_nonnulls(user_id, admin_id) = 1) and (owner_id = coalesce(user_id, admin_id))),
  primary key (owner_id, hash)
);
create index recovery_codes_user_idx on recovery_codes (user_id);
create index recovery_codes_admin_idx on recovery_codes (admin_id);
create index recovery_codes_tenant_idx on recovery_codes (tenant_id);

create table passkeys (
  id uuid primary key,
  owner_id uuid not null,
  user_id uuid references users on delete cascade,
  admin_id uuid references platform_admins on delete cascade,
  tenant_id uuid references tenants on delete cascade,
  name text not null,
  credential_id text not null,
  public_key text not null,
  counter bigint not null,
  transports text[] not null,
  is_backed_up boolean not null,
  created_at timestamptz(3) not null,
  last_used_at timestamptz(3),
  constraint passkeys_check check ((num_nonnulls(user_id, admin_id) = 1) and (owner_id = coalesce(user_id, admin_id)))
);
create unique index passkeys_credential_key on passkeys (credential_id);
create index passkeys_owner_idx on passkeys (owner_id, created_at, id);
create index passkeys_user_idx on passkeys (user_id);
create index passkeys_admin_idx on passkeys (admin_id);
create index passkeys_tenant_idx on passkeys (tenant_id);

create table segment_spells (
  project_id uuid,
  player_id uuid,
  id uuid,
  segment_key text not null,
  entered_at timestamptz(3) not null,
  left_at timestamptz(3) not null,
  primary key (project_id, player_id, id)
);
create index segment_spells_segment_idx on segment_spells (project_id, segment_key, left_at);
create index segment_spells_left_idx on segment_spells (left_at);

create table sso_configurations (
  id uuid primary key,
  tenant_id uuid not null unique references tenants on delete cascade,
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
  break_glass_user_id uuid references users on delete set null,
  status text not null check (status in ('ACTIVE', 'DISABLED')),
  idp_changed_at timestamptz(3) not null,
  last_tested_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null
);
create index sso_configurations_break_glass_idx on sso_configurations (break_glass_user_id);

create table sso_domains (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  domain text not null,
  token text not null,
  verified_at timestamptz(3),
  created_at timestamptz(3) not null,
  unique (tenant_id, domain)
);
create unique index sso_domains_verified_key on sso_domains (domain) where verified_at is not null;

create table sso_identities (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  user_id uuid not null references users on delete cascade,
  issuer text not null,
  subject text not null,
  email text,
  created_at timestamptz(3) not null,
  released_at timestamptz(3),
  unique (tenant_id, issuer, subject)
);
create index sso_identities_user_idx on sso_identities (user_id);

create table sso_flows (
  state_hash text primary key,
  browser_hash text not null,
  tenant_id uuid not null references tenants on delete cascade,
  idp_changed_at timestamptz(3) not null,
  redirect_uri text not null,
  response_mode text not null check (response_mode in ('query', 'code')),
  secrets text not null,
  expires_at timestamptz(3) not null,
  domain text
);
create index sso_flows_expiry_idx on sso_flows (expires_at);
create index sso_flows_tenant_idx on sso_flows (tenant_id);

create table sso_certificate_notices (
  tenant_id uuid references tenants on delete cascade,
  fingerprint text,
  days int,
  sent_at timestamptz(3) not null,
  primary key (tenant_id, fingerprint, days)
);

create table analytics_listed (
  project_id uuid,
  job_id uuid,
  player_id uuid,
  expires_at timestamptz(3) not null,
  primary key (project_id, job_id, player_id)
);
create index analytics_listed_expiry_idx on analytics_listed (expires_at);
create index analytics_listed_player_idx on analytics_listed (project_id, player_id);

create table usage_counters (
  tenant_id uuid,
  month int,
  slot smallint,
  events bigint not null default 0,
  players bigint not null default 0,
  granted bigint not null default 0,
  cap bigint,
  primary key (tenant_id, month, slot)
) with (fillfactor = 20);

create table billing_customers (
  tenant_id uuid primary key references tenants on delete cascade,
  customer_id text not null unique,
  subscription_id text,
  status text not null,
  plan text,
  "interval" text,
  period_start timestamptz(3),
  period_end timestamptz(3),
  cancel_at_period_end boolean not null default false,
  trial_end timestamptz(3),
  grace_end timestamptz(3),
  tickets bigint not null default 0,
  applied bigint not null default 0,
  marks bigint not null default 0,
  due_at timestamptz(3),
  read_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  past_due_since timestamptz(3),
  told_name text,
  told_email text,
  unread int not null default 0
);
create index billing_customers_due_idx on billing_customers (due_at) where due_at is not null;

create table usage_notices (
  tenant_id uuid references tenants on delete cascade,
  month int,
  metric text,
  percent int,
  sent_at timestamptz(3) not null,
  primary key (tenant_id, month, metric, percent)
);

create table analytics_reports (
  project_id uuid,
  id uuid,
  name text not null,
  description text,
  report text not null,
  parameters jsonb not null,
  range jsonb,
  question jsonb not null,
  schedule jsonb,
  next_at timestamptz(3),
  created_by text not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  key text not null default gen_random_uuid()::text,
  primary key (project_id, id)
);
create index analytics_reports_due_idx on analytics_reports (next_at) where next_at is not null;
create unique index analytics_reports_key on analytics_reports (project_id, key);

create table analytics_report_runs (
  project_id uuid,
  id uuid,
  report_id uuid not null,
  cause text not null,
  due_at timestamptz(3) not null,
  report text not null,
  question jsonb not null,
  range jsonb,
  status text,
  error text,
  answered jsonb,
  result bytea,
  created_at timestamptz(3) not null,
  finished_at timestamptz(3),
  told_at timestamptz(3),
  result_until timestamptz(3),
  expires_at timestamptz(3) not null,
  primary key (project_id, id)
);
create index analytics_report_runs_list_idx on analytics_report_runs (project_id, report_id, id);
create unique index analytics_report_runs_due_key on analytics_report_runs (project_id, report_id, due_at)
  where cause = 'SCHEDULE';
create index analytics_report_runs_untold_idx on analytics_report_runs (id) where told_at is null;
create index analytics_report_runs_kept_idx on analytics_report_runs (result_until) where result is not null;
create index analytics_report_runs_expiry_idx on analytics_report_runs (expires_at);
alter table analytics_report_runs alter column result set storage external;

create table warehouse_projects (
  project_id uuid primary key,
  cursor uuid not null,
  seq bigint not null default 0,
  published bigint not null default 0,
  knows_merges boolean not null default false,
  is_behind boolean not null default true,
  writing text,
  lease uuid,
  leased_until timestamptz(3),
  registered_at timestamptz(3) not null,
  moved_at timestamptz(3) not null,
  failing_since timestamptz(3),
  failures int not null default 0,
  retry_at timestamptz(3),
  is_forgotten boolean not null default false,
  ledger_cursor uuid not null default '00000000-0000-0000-0000-000000000000',
  rewards_cursor uuid not null default '00000000-0000-0000-0000-000000000000',
  constraint warehouse_projects_check check (published <= seq)
);

create table warehouse_changes (
  project_id uuid,
  seq bigint generated by default as identity,
  kind text not null check (kind in ('CHANGED', 'ERASED', 'MERGED', 'REWARD')),
  ref uuid not null,
  searched bigint not null default 0,
  primary key (project_id, seq)
);

create table warehouse_parts (
  project_id uuid,
  seq bigint,
  kind text not null check (kind in ('events', 'changes', 'merges', 'ledger', 'rewards')),
  path text not null,
  row_count int not null,
  byte_count bigint not null,
  sha256 text not null,
  from_id uuid not null,
  to_id uuid not null,
  created_at timestamptz(3) not null,
  replaces bigint,
  removed_by bigint,
  deleted_at timestamptz(3),
  owed uuid[],
  tried_at timestamptz(3),
  primary key (project_id, seq)
);
create index warehouse_parts_left_idx on warehouse_parts (project_id)
  where (removed_by is not null) and (deleted_at is null);
create index warehouse_parts_tried_idx on warehouse_parts (project_id, tried_at) where tried_at is not null;

create table custom_domains (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  domain text not null,
  label text not null unique,
  token text not null,
  status text not null,
  ssl_status text not null,
  txt text not null,
  routing text not null,
  check_error text,
  checked_at timestamptz(3),
  next_check_at timestamptz(3),
  pending_since timestamptz(3) not null,
  failing_since timestamptz(3),
  degraded_at timestamptz(3),
  plan_lost_at timestamptz(3),
  order_failures int not null default 0,
  ssl_error text,
  next_order_at timestamptz(3),
  lease uuid,
  lease_until timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  caa text not null default 'UNKNOWN',
  unknown_since timestamptz(3),
  tenant_suspended_at timestamptz(3),
  unique (tenant_id, domain)
);
create unique index custom_domains_held_key on custom_domains (domain)
  where status in ('VERIFIED', 'ACTIVE', 'DEGRADED');
create index custom_domains_check_idx on custom_domains (next_check_at) where next_check_at is not null;
create index custom_domains_order_idx on custom_domains (next_order_at) where next_order_at is not null;

create table custom_domain_certificates (
  domain_id uuid primary key references custom_domains on delete cascade,
  tenant_id uuid not null references tenants on delete cascade,
  chain text not null,
  sealed_key text not null,
  issuer text not null,
  not_before timestamptz(3) not null,
  not_after timestamptz(3) not null,
  renew_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  notice_days int
);
create index custom_domain_certificates_tenant_idx on custom_domain_certificates (tenant_id);

create table acme_challenges (
  token text primary key,
  domain_id uuid not null references custom_domains on delete cascade,
  answer text not null,
  expires_at timestamptz(3) not null
);
create index acme_challenges_domain_idx on acme_challenges (domain_id);
create index acme_challenges_expires_idx on acme_challenges (expires_at);

create table acme_accounts (
  directory_url text primary key,
  sealed_key text not null,
  account_url text,
  created_at timestamptz(3) not null
);

create table acme_orders (
  id uuid primary key,
  tenant_id uuid not null,
  domain text not null,
  ordered_at timestamptz(3) not null,
  expires_at timestamptz(3) not null
);
create index acme_orders_ordered_idx on acme_orders (ordered_at);
create index acme_orders_expires_idx on acme_orders (expires_at);

create table usage_changes (
  id bigint generated always as identity primary key,
  tenant_id uuid not null
);

create table billing_endings (
  subscription_id text primary key,
  tenant_id uuid not null references tenants on delete cascade,
  created_at timestamptz(3) not null
);
create index billing_endings_tenant_idx on billing_endings (tenant_id);

create table analytics_gains (
  project_id uuid,
  quarter smallint,
  day int,
  metric text,
  key text,
  document bytea not null,
  primary key (project_id, quarter, day, metric, key)
);
alter table analytics_gains alter column document set storage external;

create table uncounted_gains (
  project_id uuid,
  gain_id uuid,
  metric text not null,
  key text not null,
  at timestamptz(3) not null,
  primary key (project_id, gain_id)
);

create table sso_failures (
  tenant_id uuid references tenants on delete cascade,
  digest text,
  error text not null,
  message text not null,
  reason text,
  email text,
  request_id text not null,
  times int not null,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  primary key (tenant_id, digest)
);
create index sso_failures_expiry_idx on sso_failures (expires_at);
