import { type RawBuilder, sql } from "kysely";
import { idFloor } from "../kernel/ids.ts";
import type { Frame } from "./range.ts";

/** How much earlier than its own time an event may be received, in ms: the clocks of clients may be ahead. */
const AHEAD_MS = 86_400_000;
/** How much the clock that stamps ids may differ from the one that checks times, in ms. */
const CLOCKS_MS = 60_000;

/** A parameter that is an instant. */
export const instant = (ms: number): RawBuilder<unknown> => sql`${new Date(ms).toISOString()}::timestamptz`;

/** A parameter that is a list of texts. */
export const textList = (texts: readonly string[]): RawBuilder<unknown> =>
  sql`(select json_array_elements_text(${JSON.stringify(texts)}::json))`;

/** Which events a question is about; bounds in ms, half-open. */
export type EventSelection = {
  fromMs?: number;
  untilMs?: number;
  /** Default: all types. */
  types?: readonly string[] | undefined;
  /** A further condition on `e`, the row of `tracked_events`. */
  where?: RawBuilder<unknown> | undefined;
};

/**
 * A query of a project's events as analytics count them, with the columns id, player_id (the player who has
 * them now: the target of a merge), event_type, at, properties, and as they came: external_user_id,
 * idempotency_key, received_at. Rejected and reverted events do not count, nor the server's own, nor those at
 * `asOf` or later; failed ones do. When an event arrived does not matter.
 */
export const eventsOf = (
  { projectId, asOfMs, aheadMs }: Frame,
  { fromMs, untilMs = asOfMs, types, where }: EventSelection = {},
): RawBuilder<unknown> => {
  // An event is received at most a day before its time, and partitions of ids before that need not be read.
  const since =
    fromMs === undefined
      ? sql``
      : sql`and e.occurred_at >= ${instant(fromMs)}
        and e.id >= ${idFloor(fromMs - AHEAD_MS - CLOCKS_MS - aheadMs)}::uuid`;
  return sql`
    select e.id, coalesce(p.merged_into, p.id) as player_id, e.event_type, e.occurred_at as at, e.properties,
      e.external_user_id, e.idempotency_key, e.received_at
    from tracked_events e
    join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
    where e.project_id = ${projectId}::uuid and e.occurred_at < ${instant(Math.min(untilMs, asOfMs))}
      ${since} ${types === undefined ? sql`` : sql`and e.event_type in ${textList(types)}`}
      ${where === undefined ? sql`` : sql`and ${where}`}
      and not starts_with(e.event_type, 'system.')
      and not exists (select 1 from event_results r where r.project_id = e.project_id and r.event_id = e.id
        and r.status in ('REJECTED', 'REVERTED'))`;
};
