import { Migration } from "@mikro-orm/migrations";
import {
  byProject,
  byProjectAndAccounts,
  byRule,
  byTenant,
  createRole,
  forAccounts,
} from "./row-security.ts";
import { ACCOUNTS_ROLE, WEB_ROLE } from "../../kernel/row-roles.ts";

const PROJECT_TABLES = [
  "level_curves",
  "rules",
  "leaderboards",
  "players",
  "player_states",
  "tracked_events",
  "event_dedupe",
  "event_q",
  "event_due",
  "event_results",
  "leaderboard_entries",
  "ledger_entries",
  "outbox",
  "outbox_q",
];
const TENANT_TABLES = [
  "users",
  "projects",
  "sessions",
  "refresh_tokens",
  "user_tokens",
  "identities",
  "oauth_flows",
  "invitations",
  "idempotency_keys",
  "email_logs",
  "email_outbox",
];
const ACCOUNT_TABLES = [
  "oauth_codes",
  "consumed_ids",
  "ip_blocks",
  "email_suppressions",
  "platform_admins",
  "platform_tokens",
  "blog_posts",
];

/** Second barrier between tenants: the database hides rows that a request's statements forget to filter. */
export class Migration20261121000006 extends Migration {
  override up(): void {
    const roles = `${WEB_ROLE}, ${ACCOUNTS_ROLE}`;
    for (const statement of [
      createRole(WEB_ROLE),
      createRole(ACCOUNTS_ROLE),
      `grant usage on schema public to ${roles}`,
      `grant usage on all sequences in schema public to ${roles}`,
      ...byTenant("tenants", "id"),
      ...TENANT_TABLES.flatMap((table) => byTenant(table)),
      ...byProjectAndAccounts("api_keys"),
      ...PROJECT_TABLES.flatMap(byProject),
      ...byRule("rule_versions"),
      ...ACCOUNT_TABLES.flatMap(forAccounts),
      ...byTenant("audit_log"),
      `revoke update, delete on audit_log from ${roles}`,
    ])
      this.addSql(statement);
  }

  override down(): void {
    const owned = [
      "tenants",
      ...TENANT_TABLES,
      "api_keys",
      ...PROJECT_TABLES,
      "rule_versions",
      ...ACCOUNT_TABLES,
      "audit_log",
    ];
    // The roles stay: other databases of the server may have them.
    for (const table of owned) {
      for (const role of [WEB_ROLE, ACCOUNTS_ROLE]) {
        this.addSql(`drop policy if exists ${role}_rows on ${table}`);
        this.addSql(`revoke all on ${table} from ${role}`);
      }
      this.addSql(`alter table ${table} disable row level security`);
    }
  }
}
