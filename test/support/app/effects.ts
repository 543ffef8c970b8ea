import { type RawBuilder, sql } from "kysely";
import type { TestApp } from "./app.ts";
import { eventually } from "../eventually.ts";

/** What a request leaves behind besides its effect, and queues that empty by themselves. */
const SKIPPED = new Set([
  "mikro_orm_migrations",
  "idempotency_keys",
  "event_q",
  "event_due",
  "outbox_q",
  "email_outbox",
  // Counted in memory and written now and then.
  "rule_stats",
  "segment_sweeps",
  "segment_changes",
  // Rolled up by a job, minutes after what happened.
  "analytics_rollups",
  "analytics_days",
  "analytics_gains",
  // A queue of those whose counters changed.
  "usage_changes",
  // What is told of ranks follows when the index is up to date, and depends on what was told before.
  "leaderboard_feed",
  "leaderboard_notices",
  // Of a share of the events.
  "event_traces",
  "event_types",
]);
/** Columns that move with every request, every rank that is told, and every mail that a worker sends. */
const RESTLESS = [
  "last_used_at",
  "leader_id",
  "leader_score",
  "notice_round",
  "status",
  "attempts",
  "provider_message_id",
  "smtp_response",
  "error",
  "sent_at",
];

/** Rows by table, and a hash of what is in them. */
export type Effects = { counts: Record<string, number>; print: string };

/** Waits until workers have done what was asked for. */
const settle = ({ app }: TestApp): Promise<true> =>
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

/** What is told of ranks, of lobbies as time goes by, and in the evening of streaks that end with the day. */
const TOLD_BY_ITSELF =
  "{leaderboard.rank_changed,leaderboard.new_leader,player.streak_at_risk,lobby.changed}";
/** What such a word, and time, leave in tables. */
const LEFT_BY_IT: Readonly<Record<string, readonly string[]>> = {
  players: ["seq", "updated_at"],
  player_streaks: ["doc", "due_at", "updated_at"],
  // Attempts go on by themselves for hours, to addresses where nobody answers.
  webhook_deliveries: ["log", "error", "attempts", "due_at", "next_attempt_at", "updated_at"],
  webhooks: ["failing_since", "last_failure_at"],
  // The ends of adventures and quests, noted when something has moved them.
  definitions: ["ends", "ends_changed"],
  // Their records are looked for every minute.
  custom_domains: ["txt", "routing", "check_error", "checked_at", "next_check_at", "updated_at"],
};

type Table = { name: string; hasTenant: boolean; hasProject: boolean };

/** Whose rows count: the tenants', and all of the platform's own. */
const belongsTo = ({ name, hasTenant, hasProject }: Table, tenantIds: readonly string[]) => {
  const tenants = sql`any(${`{${tenantIds.join(",")}}`}::uuid[])`;
  const projects = sql`(select id from projects where tenant_id = ${tenants})`;
  if (name === "tenants") return sql`t.id = ${tenants}`;
  if (name === "outbox") return sql`t.project_id in ${projects} and t.type <> all(${TOLD_BY_ITSELF})`;
  if (hasTenant) return sql`(t.tenant_id = ${tenants} or t.tenant_id is null)`;
  if (hasProject) return sql`t.project_id in ${projects}`;
  if (name === "rule_versions")
    return sql`t.rule_id in (select id from rules where project_id in ${projects})`;
  return sql`true`;
};

/** Tables of which rows are added up, and not counted: which row counts is chance. */
const SUMMED: Readonly<Record<string, RawBuilder<unknown>>> = {
  usage_counters: sql`(select tenant_id, month, sum(events) as events, sum(players) as players
    from usage_counters group by tenant_id, month)`,
};

const countOf = (name: string) => (name in SUMMED ? sql`0` : sql`count(*)`);

/** How many rows of a table are theirs, and a hash of what is in them. */
const rowsIn = (table: Table, tenantIds: readonly string[]) => {
  const { name } = table;
  const always = name === "email_logs" ? RESTLESS : RESTLESS.slice(0, 4);
  const restless = [...always, ...(LEFT_BY_IT[name] ?? [])];
  return sql`
    select ${name}::text as name, ${countOf(name)} as count,
      md5(coalesce(string_agg(r, '|' order by r), '')) as print
    from (select (to_jsonb(t) - ${`{${restless.join(",")}}`}::text[])::text as r
      from ${SUMMED[name] ?? sql.ref(name)} t where ${belongsTo(table, tenantIds)}) as rows`;
};

/** What the tenants and the platform have in the database, once all is done that was asked for. */
export const readEffects = async (api: TestApp, tenantIds: readonly string[]): Promise<Effects> => {
  await settle(api);
  return api.app.transact(async ({ db }) => {
    const tables = await sql<Table>`
      select relname as name,
        exists (select from pg_attribute where attrelid = c.oid and attname = 'tenant_id') as "hasTenant",
        exists (select from pg_attribute where attrelid = c.oid and attname = 'project_id') as "hasProject"
      from pg_class c where relnamespace = 'public'::regnamespace
        and relkind in ('r', 'p') and not relispartition order by 1`.execute(db);
    const asked = tables.rows
      .filter(({ name }) => !SKIPPED.has(name))
      .map((table) => rowsIn(table, tenantIds));
    // One statement: as many as there are tables would be most of the time of a sweep.
    const { rows } = await sql<{ name: string; count: string; print: string }>`
      ${sql.join(asked, sql` union all `)}`.execute(db);
    const effects: Effects = { counts: {}, print: "" };
    for (const { name, count, print } of rows) {
      effects.counts[name] = Number(count);
      effects.print += `${name} ${print}\n`;
    }
    // By type, so that a difference says what it is.
    const { rows: types } = await sql<{ type: string; count: string }>`
      select type, count(*) as count from outbox t
      where ${belongsTo({ name: "outbox", hasTenant: false, hasProject: true }, tenantIds)}
      group by type`.execute(db);
    for (const { type, count } of types) effects.counts[`outbox ${type}`] = Number(count);
    return effects;
  });
};

/** By how many rows each table has grown. */
export const grownFrom = (before: Effects, after: Effects): Record<string, number> =>
  Object.fromEntries(
    Object.entries(after.counts).flatMap(([name, count]) => {
      const grown = count - (before.counts[name] ?? 0);
      return grown === 0 ? [] : [[name, grown]];
    }),
  );
