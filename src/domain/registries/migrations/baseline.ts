import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Migration } from "@mikro-orm/migrations";
import { ACCOUNTS_ROLE, WEB_ROLE } from "../../kernel/db.ts";
import {
  byProject,
  byProjectAndAccounts,
  byRule,
  byTenant,
  createRole,
  forAccounts,
  OWN_PROJECT,
} from "./row-security.ts";

const named = (text: string): string[] => text.trim().split(/\s+/);

const PROJECT_TABLES = named(`
  analytics_days analytics_export_pieces analytics_exports analytics_firsts analytics_gains analytics_listed
  analytics_players analytics_report_runs analytics_reports analytics_rollups analytics_unknown badge_awards
  chat_channels chat_members chat_messages chat_reactions chat_reports chat_sanctions chat_word_lists
  currency_holds currency_lots definition_versions definitions event_dedupe event_due event_q event_results
  event_traces event_types inbox_messages leaderboard_entries leaderboard_feed leaderboard_notices
  leaderboard_periods leaderboard_results leaderboards ledger_entries level_curves lobbies lobby_bans
  lobby_invites lobby_matches lobby_members outbox outbox_q player_adventures player_badges player_balances
  player_boosts player_identities player_merges player_quests player_segments player_states player_streaks
  players prize_codes project_jobs quest_codes quest_submissions reward_grants rule_executions
  rule_schedules rule_stats rules score_reviews segment_changes segment_spells segment_sweeps
  shared_counters streak_runs tracked_events uncounted_events uncounted_gains warehouse_changes
  warehouse_parts warehouse_projects
`);
/** Of one tenant each; the accounts role sees all. */
const TENANT_TABLES = named(`
  audit_log billing_customers billing_endings custom_domain_certificates custom_domains email_logs
  email_outbox idempotency_keys identities invitations known_origins oauth_flows passkeys projects
  recovery_codes refresh_tokens sessions sso_certificate_notices sso_configurations sso_domains
  sso_failures sso_flows sso_identities totp_secrets usage_changes usage_counters usage_notices user_tokens
  users webhook_deliveries webhook_events webhook_feeds webhooks
`);
const ACCOUNT_TABLES = named(`
  acme_accounts acme_challenges acme_orders blog_posts consumed_ids email_suppressions ip_blocks oauth_codes
  platform_admins platform_tokens
`);
const SEQUENCES = "event_q_seq_seq, outbox_q_seq_seq";

/** Second barrier between tenants: the database hides rows that a request's statements forget to filter. */
const ROW_SECURITY = [
  ...PROJECT_TABLES.flatMap((table) => byProject(table)),
  ...byProjectAndAccounts("api_keys"),
  ...byRule("rule_versions"),
  ...byTenant("tenants", "id"),
  ...TENANT_TABLES.flatMap((table) => byTenant(table)),
  ...OWN_PROJECT,
  ...ACCOUNT_TABLES.flatMap(forAccounts),
  `revoke update, delete on audit_log from ${WEB_ROLE}, ${ACCOUNTS_ROLE}`,
];

export const BASELINE = "20261129000002-baseline";
/** What the newest migration was called before they became one. */
export const BEFORE_BASELINE = "20261129000002-next-totp-expiry";

export class Baseline extends Migration {
  override up(): void {
    const roles = `${WEB_ROLE}, ${ACCOUNTS_ROLE}`;
    for (const role of [WEB_ROLE, ACCOUNTS_ROLE]) this.addSql(createRole(role));
    const schema = readFileSync(join(import.meta.dirname, "baseline.sql"), "utf8");
    for (const statement of schema.split(/;\n+(?=\S|$)/)) if (statement) this.addSql(statement);
    this.addSql(`grant usage on schema public to ${roles}`);
    this.addSql(`grant usage on sequence ${SEQUENCES} to ${roles}`);
    for (const statement of ROW_SECURITY) this.addSql(statement);
  }

  override down(): void {
    throw new Error("The first migration made everything: drop the database instead");
  }
}
