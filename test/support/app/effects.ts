import { sql } from "kysely";
import type { TestApp } from "./app.ts";
import { eventually } from "../eventually.ts";

/** Queues that empty by themselves, what time tells of, and what is counted or written a while afterwards. */
const SKIPPED = new Set([
  "analytics_days",
  "analytics_gains",
  "analytics_rollups",
  "email_outbox",
  "event_due",
  "event_q",
  "event_traces",
  "event_types",
  "idempotency_keys",
  "leaderboard_feed",
  "leaderboard_notices",
  "lobbies",
  "lobby_members",
  "outbox_q",
  "rule_stats",
  "segment_changes",
  "segment_sweeps",
  "usage_changes",
]);
/** Columns that move by themselves, in any table. */
const RESTLESS = ["last_used_at", "leader_id", "leader_score", "notice_round"];
/** What time, and work that goes on for a while, leave in columns of a table. */
const LEFT_BY_TIME: Readonly<Record<string, readonly string[]>> = {
  custom_domains: ["txt", "routing", "check_error", "checked_at", "next_check_at", "updated_at"],
  definitions: ["ends", "ends_changed"],
  email_logs: ["status", "attempts", "provider_message_id", "smtp_response", "error", "sent_at"],
  player_streaks: ["doc", "due_at", "updated_at"],
  players: ["seq", "updated_at"],
  webhook_deliveries: ["log", "error", "attempts", "due_at", "next_attempt_at", "status", "updated_at"],
  webhooks: ["failing_since", "last_failure_at"],
};
/** What is told of ranks, of lobbies as time goes by, and in the evening of streaks that end with the day. */
const TOLD_BY_TIME =
  "{leaderboard.rank_changed,leaderboard.new_leader,player.streak_at_risk,lobby.changed,lobby.closed}";

/** Waits until workers have done what was asked for. */
export const settle = ({ app }: TestApp): Promise<true> =>
  eventually(
    async () => {
      const { rows } = await app.transact(({ db }) =>
        sql<{ waiting: string }>`
          select (select count(*) from event_q) + (select count(*) from outbox_q)
            + (select count(*) from project_jobs where status in ('QUEUED', 'RUNNING')
              and due_at < now() + interval '1 day')
            + (select count(*) from leaderboard_periods where status = 'CLOSING')
            + (select count(*) from analytics_report_runs where told_at is null)
            + (select count(*) from segment_changes) as waiting`.execute(db),
      );
      return Number(rows[0]!.waiting) === 0;
    },
    { label: "the queues are empty" },
  );

type Owner = { tenantId: string } | { projectId: string };
type Table = { name: string; owner: "tenant_id" | "project_id" };

/** Which rows of a table are the owner's: of a tenant, those of all its projects too. */
const ownedBy = ({ owner: column }: Table, owner: Owner) => {
  if ("projectId" in owner) return sql`t.project_id = ${owner.projectId}::uuid`;
  if (column === "tenant_id") return sql`t.tenant_id = ${owner.tenantId}::uuid`;
  return sql`t.project_id in (select id from projects where tenant_id = ${owner.tenantId}::uuid)`;
};

/** How many rows the owner has in each table, with a hash of what is in them, once the queues are empty. */
export const rowsOf = async (api: TestApp, owner: Owner): Promise<Record<string, string>> => {
  await settle(api);
  return api.app.transact(async ({ db }) => {
    const columns = "projectId" in owner ? ["project_id"] : ["tenant_id", "project_id"];
    const { rows: tables } = await sql<Table>`
      select distinct on (relname) relname as name, attname as owner
      from pg_class c join pg_attribute a on a.attrelid = c.oid and attname = any(${`{${columns.join(",")}}`}::text[])
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      order by relname, attname = 'tenant_id' desc`.execute(db);
    const asked = tables
      .filter(({ name }) => !SKIPPED.has(name))
      .map((table) => {
        const restless = [...RESTLESS, ...(LEFT_BY_TIME[table.name] ?? [])];
        const told = table.name === "outbox" ? sql`and t.type <> all(${TOLD_BY_TIME})` : sql``;
        return sql`
          select ${table.name}::text as name, count(*) || ' ' || md5(string_agg(r, '|' order by r)) as print
          from (select (to_jsonb(t) - ${`{${restless.join(",")}}`}::text[])::text as r
            from ${sql.ref(table.name)} t where ${ownedBy(table, owner)} ${told}) as rows`;
      });
    // One statement: as many as there are tables would take longer than what is looked at.
    const { rows } = await sql<{ name: string; print: string | null }>`
      ${sql.join(asked, sql` union all `)}`.execute(db);
    return Object.fromEntries(rows.flatMap(({ name, print }) => (print === null ? [] : [[name, print]])));
  });
};
