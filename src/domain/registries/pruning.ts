import { type RawBuilder, sql } from "kysely";
import { SPELLS_KEPT_MS } from "../economy/segments/members.ts";
import { IDEMPOTENCY_HOURS } from "../kernel/idempotency.ts";
import { CLOSED_KEPT_MS } from "../social/lobbies/fields.ts";
import { monthOf, monthStart, type Work } from "../kernel/work.ts";
import { CALENDAR_UNITS, type CalendarUnit, plainCalendar, windowNumber } from "../kernel/zones.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A kind of rows that expire. */
type Prune = {
  table: string;
  /** Selects the expired rows of `table`. */
  isOver: (now: Date) => RawBuilder<unknown>;
  /** A column that is cleared instead of deleting the row. */
  clears?: string;
  /** Dependent rows that are deleted too: those whose `column` contains the id, in the same project. */
  along?: { column: string; tables: readonly string[] };
};

/** How long what players have submitted for steps of quests is kept after the decision. */
const SUBMISSIONS_KEPT_MS = 180 * DAY_MS;

/** How long a cycle of a quest is kept that is over, unless it is the latest, or its rewards wait. */
const CYCLES_KEPT_MS = 400 * DAY_MS;

const ago = (now: Date, ms: number) => sql`${new Date(now.getTime() - ms).toISOString()}::timestamptz`;

const expired = (table: string, keptMs = 0): Prune => ({
  table,
  isOver: (now) => sql`expires_at <= ${ago(now, keptMs)}`,
});

/** How long counters over all players are kept: far longer than the windows that late events count in. */
const COUNTERS_KEPT_MS: Readonly<Record<CalendarUnit, number>> = {
  DAY: 70 * DAY_MS,
  WEEK: 400 * DAY_MS,
  MONTH: 400 * DAY_MS,
};

/**
 * Counters of limits and budgets of calendar windows. A counter of an old window may be recent: an import or
 * a backfill of old events must not restart it.
 */
const oldCounters = (unit: CalendarUnit): Prune => ({
  table: "shared_counters",
  isOver: (now) => {
    const keptMs = COUNTERS_KEPT_MS[unit];
    const oldest = windowNumber(unit, plainCalendar("UTC"), now.getTime() - keptMs);
    return sql`scope like ${sql.lit(`%rule:%:%:${unit}`)} and window_no < ${oldest}::bigint
      and touched_at <= ${ago(now, keptMs)}`;
  },
});

/** How long the usage of a tenant is kept, in months. */
const USAGE_KEPT_MONTHS = 24;

/** Rows of a tenant and month, of which there are few. */
const ofOldMonths = (table: string): Prune => ({
  table,
  isOver: (now) => sql`month < ${monthOf(monthStart(now, -USAGE_KEPT_MONTHS))}::int`,
});

/**
 * A new kind of expiring row is a line here, and an index in a migration. Dependent rows are deleted with it.
 */
export const PRUNES: readonly Prune[] = [
  expired("ip_blocks"),
  expired("consumed_ids"),
  expired("known_origins"),
  expired("oauth_flows"),
  expired("oauth_codes"),
  expired("sso_flows"),
  expired("sso_failures"),
  expired("acme_challenges"),
  expired("acme_orders"),
  expired("email_suppressions"),
  expired("inbox_messages"),
  expired("event_traces"),
  expired("webhook_events"),
  expired("webhook_deliveries"),
  // Texts of failed mails that nobody has sent again.
  { table: "email_outbox", isOver: (now) => sql`keep_until <= ${ago(now, 0)}` },
  expired("user_tokens", 7 * DAY_MS),
  expired("refresh_tokens", 30 * DAY_MS),
  {
    table: "sessions",
    isOver: (now) => sql`least(expires_at, revoked_at) <= ${ago(now, 30 * DAY_MS)}`,
  },
  // Secrets of authenticator apps that nobody has confirmed within an hour: of a first one, and of another.
  {
    table: "totp_secrets",
    isOver: (now) => sql`confirmed_at is null and created_at <= ${ago(now, HOUR_MS)}`,
  },
  {
    table: "totp_secrets",
    clears: "next_sealed",
    isOver: (now) => sql`next_sealed is not null and next_created_at <= ${ago(now, HOUR_MS)}`,
  },
  // The snapshot of a player before a merge; the merge itself stays recorded.
  {
    table: "player_merges",
    clears: "source_snapshot",
    isOver: (now) => sql`source_snapshot is not null and created_at <= ${ago(now, 30 * DAY_MS)}`,
  },
  // Including exports of players.
  {
    table: "project_jobs",
    clears: "result",
    isOver: (now) => sql`result is not null and finished_at <= ${ago(now, DAY_MS)}`,
  },
  // Backfills record since when counters of rules and quests count; abandoned erasures, where to continue.
  {
    table: "project_jobs",
    isOver: (now) => sql`finished_at <= ${ago(now, 30 * DAY_MS)}
      and not (kind in ('BACKFILL', 'QUEST_BACKFILL') and status = 'SUCCEEDED')
      and not (kind = 'PLAYER_ERASE' and state <> '{}')`,
  },
  ...CALENDAR_UNITS.map(oldCounters),
  ...["usage_counters", "usage_notices"].map(ofOldMonths),
  {
    table: "lobbies",
    isOver: (now) => sql`status = 'CLOSED' and ended_at <= ${ago(now, CLOSED_KEPT_MS)}`,
    along: {
      column: "lobby_id",
      tables: ["lobby_members", "lobby_invites", "lobby_bans", "lobby_matches"],
    },
  },
  // Files of analytics, also those that were never completed.
  { ...expired("analytics_exports"), along: { column: "export_id", tables: ["analytics_export_pieces"] } },
  expired("analytics_listed"),
  {
    table: "analytics_report_runs",
    clears: "result",
    isOver: (now) => sql`result is not null and result_until <= ${ago(now, 0)}`,
  },
  expired("analytics_report_runs"),
  // What is decided about; what waits for a decision is kept.
  {
    table: "quest_submissions",
    isOver: (now) => sql`closed_at <= ${ago(now, SUBMISSIONS_KEPT_MS)}`,
  },
  // The latest cycle of each quest stays: it has the number of completions.
  {
    table: "player_quests",
    isOver: (now) => sql`over_at <= ${ago(now, CYCLES_KEPT_MS)}`,
  },
  { table: "segment_spells", isOver: (now) => sql`left_at <= ${ago(now, SPELLS_KEPT_MS)}` },
  { table: "rule_stats", isOver: (now) => sql`hour <= ${ago(now, 400 * DAY_MS)}` },
  {
    table: "idempotency_keys",
    isOver: (now) => sql`created_at <= ${ago(now, IDEMPOTENCY_HOURS * HOUR_MS)}`,
  },
];

/**
 * Deletes up to `limit` rows. Rows locked by another transaction are left for the next run.
 * @returns the number of deleted rows
 */
export const prune = async (
  { db, now }: Work,
  { table, isOver, clears, along }: Prune,
  limit: number,
): Promise<number> => {
  const name = sql.ref(table);
  const change =
    clears === undefined ? sql`delete from ${name}` : sql`update ${name} set ${sql.ref(clears)} = null`;
  const rows = sql`where ctid = any(array(
      select ctid from ${sql.ref(table)} where ${isOver(now)} limit ${limit} for update skip locked))`;
  const gone = await (along ? deleteWith(name, rows, along) : sql`${change} ${rows} returning 1`).execute(db);
  return gone.rows.length;
};

/** Deletes rows and their dependents in one statement. */
const deleteWith = (
  name: RawBuilder<unknown>,
  rows: RawBuilder<unknown>,
  { column, tables }: NonNullable<Prune["along"]>,
): RawBuilder<unknown> => {
  const arms = tables.map(
    (table, i) => sql`${sql.ref(`along${i}`)} as (
      delete from ${sql.ref(table)} t using gone
      where t.project_id = gone.project_id and t.${sql.ref(column)} = gone.id)`,
  );
  return sql`with gone as (delete from ${name} ${rows} returning project_id, id), ${sql.join(arms)}
    select from gone`;
};
