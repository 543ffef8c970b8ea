import { type RawBuilder, sql } from "kysely";
import { bucketOf, type Buckets } from "./buckets.ts";
import { eventsOf, instant, textList } from "./events.ts";
import type { Frame } from "./range.ts";

/** Event types that make a player active; undefined: every type. */
export type ActiveEvents = readonly string[] | undefined;

type Activity = {
  buckets: Buckets;
  /** Events before it are marked as not in the range; `buckets` may begin earlier. In ms. */
  startMs: number;
  untilMs: number;
  activeEvents?: ActiveEvents;
};

/**
 * A query of who did how much when: the columns player_id, d (the number of the bucket), in_range, events and
 * active (of those, events that make a player active).
 */
export const activityOf = (
  frame: Frame,
  { buckets, startMs, untilMs, activeEvents }: Activity,
): RawBuilder<unknown> => {
  const isActive =
    activeEvents === undefined ? sql`` : sql`filter (where e.event_type in ${textList(activeEvents)})`;
  return sql`
    select e.player_id, ${bucketOf(buckets, sql`e.at`)} as d, e.at >= ${instant(startMs)} as in_range,
      count(*) as events, count(*) ${isActive} as active
    from (${eventsOf(frame, { fromMs: buckets.startsMs[0]!, untilMs })}) e
    group by 1, 2, 3`;
};

/** A query of players with the time of their first event ever: the columns player_id and first_at. */
export const firstsOf = (frame: Frame): RawBuilder<unknown> => sql`
  select e.player_id, min(e.at) as first_at from (${eventsOf(frame)}) e group by 1`;
