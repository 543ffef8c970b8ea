import { sql } from "kysely";
import type { PropertyFilter } from "../event-series.ts";
import { whereOf } from "../event-series.ts";
import { eventsOf } from "../events.ts";
import { untilAsOf } from "../range.ts";
import { readFilters } from "../trend-query.ts";
import { type ReportQuestion, rowReport } from "./report.ts";
import type { Stretch } from "./stretches.ts";

/** Parameters `filter[eventType]` and `filter[properties.x]`. */
type EventQuery = Readonly<Record<string, unknown>>;

const msOf = (column: string) => sql`(extract(epoch from ${sql.ref(column)}) * 1000)::float8`;

const conditionsOf = (filters: readonly PropertyFilter[], uptoId: string | undefined) => {
  const conditions = [
    ...(filters.length > 0 ? [whereOf(filters)!] : []),
    ...(uptoId === undefined ? [] : [sql`e.id <= ${uptoId}::uuid`]),
  ];
  return conditions.length === 0 ? {} : { where: sql.join(conditions, sql` and `) };
};

const spanOf = ({ asked: { frame, range } }: ReportQuestion<EventQuery>): Stretch => untilAsOf(frame, range);

/**
 * Events as they were sent: a file of NDJSON is what POST /events/batch takes. One without a key gets its id
 * as such, so that taking it in twice stores it once.
 */
export const eventReport = rowReport<EventQuery>({
  table: "tracked_events",
  columns: [
    { name: "externalUserId", type: "text", select: sql`e.external_user_id` },
    { name: "eventType", type: "text", select: sql`e.event_type` },
    { name: "timestamp", type: "time", select: msOf("e.at") },
    { name: "idempotencyKey", type: "text", select: sql`coalesce(e.idempotency_key, e.id::text)` },
    { name: "properties", type: "json", select: sql`e.properties::text` },
    { name: "eventId", type: "text", select: sql`e.id::text`, isExtra: true },
    { name: "playerId", type: "text", select: sql`e.player_id::text`, isExtra: true },
    { name: "receivedAt", type: "time", select: msOf("e.received_at"), isExtra: true },
  ],
  keys: [
    { select: sql`e.at`, type: "timestamptz" },
    { select: sql`e.id`, type: "uuid" },
  ],
  span: spanOf,
  from: (question) => {
    const { asked, query, uptoId, stretch } = question;
    const { frame } = asked;
    const { types, filters } = readFilters(query);
    const { startMs, endMs } = stretch ?? spanOf(question);
    const selection = { fromMs: startMs, untilMs: endMs, types, ...conditionsOf(filters, uptoId) };
    return sql`from (${eventsOf(frame, selection)}) e where true`;
  },
});
