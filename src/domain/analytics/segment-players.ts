import { type RawBuilder, sql } from "kysely";
import { notFound } from "../kernel/errors.ts";
import { isoOf } from "../kernel/iso-time.ts";
import { offsetOf, type Page, pageOf, type PageQuery } from "../kernel/paging.ts";
import type { Work } from "../kernel/work.ts";
import type { Asked } from "./ask.ts";
import { eventsOf } from "./events.ts";
import type { Frame } from "./range.ts";
import {
  lastCompleteDay,
  type Place,
  placesAt,
  type SegmentGroup,
  SEGMENTS,
  segmentsOf,
} from "./segments.ts";

/** A player of a segment. */
export type SegmentPlayer = {
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  xp: number;
  level: number;
  lastActiveAt: string | null;
};

/** One row without a player where the page has none; `last_at`: null for one whose events are gone. */
type Row = { [F in Exclude<keyof SegmentPlayer, "lastActiveAt">]: SegmentPlayer[F] | null } & {
  last_at: Date | null;
  total: number;
};

/** The columns of a player `p` in a list. */
export const SHOWN = sql`p.id as "playerId", p.external_user_id as "externalUserId",
  p.display_name as "displayName", p.xp::float8 as xp, p.level`;

/** Times of the last events of the few players of a table `x`. */
export const lastTimesOf = (frame: Frame): RawBuilder<unknown> => sql`
  select e.player_id, max(e.at) as last_at from (${eventsOf(frame, {
    where: sql`e.external_user_id in (select q.external_user_id from players q join x
      on q.project_id = ${frame.projectId}::uuid and (q.id = x."playerId" or q.merged_into = x."playerId"))`,
  })}) e group by 1`;

/** A query of a page of some players, and of when each was active last. */
const pageOfPlaces = (frame: Frame, places: readonly Place[], page: PageQuery): RawBuilder<Row> => {
  const numbers = places.flatMap(({ who }) => (typeof who === "number" ? [who] : []));
  const ids = places.flatMap(({ who }) => (typeof who === "number" ? [] : [who.id]));
  return sql<Row>`
    with x as materialized (
      select ${SHOWN} from players p
      where p.project_id = ${frame.projectId}::uuid and p.id in (
        select n.player_id from analytics_players n where n.project_id = ${frame.projectId}::uuid
          and n.no = any(${`{${numbers.join(",")}}`}::int[])
        union all select unnest(${`{${ids.join(",")}}`}::uuid[]))
      order by p.id limit ${page.limit} offset ${offsetOf(page)})
    select ${places.length}::int as total, x.*, t.last_at
    from (select) one left join x on true left join (${lastTimesOf(frame)}) t on t.player_id = x."playerId"
    order by x."playerId"`;
};

/** A query of a page of the players of a segment, from events. */
const pageOfEvents = (
  frame: Frame,
  { group, segment, ...page }: PageQuery & { group: SegmentGroup; segment: string },
): RawBuilder<Row> => {
  const at = { lastDay: lastCompleteDay(frame), untilMs: frame.asOfMs };
  return sql<Row>`
    with s as materialized (
      select * from (${segmentsOf(frame, at)}) s where ${sql.ref(group)} = ${segment}),
    x as (
      select ${SHOWN}, s.last_at
      from s join players p on p.project_id = ${frame.projectId}::uuid and p.id = s.player_id
      order by p.id limit ${page.limit} offset ${offsetOf(page)})
    select c.total, x.* from (select count(*) as total from s) c left join x on true
    order by x."playerId"`;
};

/**
 * Reads a page of the players whom `readSegments` counts in a segment, by id; erased ones have no name.
 * @throws DomainError NOT_FOUND for a segment that the group does not have
 */
export const listSegmentPlayers = async (
  work: Work,
  { frame }: Asked,
  asked: PageQuery & { group: SegmentGroup; segment: string },
): Promise<Page<SegmentPlayer>> => {
  const { group, segment } = asked;
  if (!SEGMENTS[group].some(({ key }) => key === segment)) throw notFound("segment");
  const places = await placesAt(work, frame, { lastDay: lastCompleteDay(frame), untilMs: frame.asOfMs });
  const members = places?.filter(({ keys }) => keys[group] === segment);
  const query = members ? pageOfPlaces(frame, members, asked) : pageOfEvents(frame, asked);
  const { rows } = await query.execute(work.db);
  const players = rows.flatMap(({ total: _total, last_at: lastAt, ...player }) =>
    player.playerId === null ? [] : [{ ...player, lastActiveAt: isoOf(lastAt) }],
  );
  return pageOf(players as SegmentPlayer[], rows[0]!.total, asked);
};
