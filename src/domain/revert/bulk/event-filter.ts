import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { idFloor, NIL_ID, partitionOf } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { FUTURE_LIMIT_MS } from "../../tracking/event-input.ts";
import { boundOf, type EventStatus, readPlainStatuses } from "../../tracking/events.ts";

/** Which events are meant; all that is given must hold. */
export type EventFilter = {
  eventIds?: readonly string[] | undefined;
  /** A player's events, with those of players merged into it. */
  playerId?: string | undefined;
  eventType?: string | undefined;
  /** Of the events' own time: from inclusive, to exclusive. */
  from?: string | undefined;
  to?: string | undefined;
  /** Of their arrival. */
  receivedFrom?: string | undefined;
  receivedTo?: string | undefined;
};

/** The filter as a job has stored it. */
export const StoredFilter = z.object({
  eventIds: z.array(z.string()).optional(),
  playerId: z.string().optional(),
  eventType: z.string().optional(),
  from: z.string().optional(),
  to: z.string().optional(),
  receivedFrom: z.string().optional(),
  receivedTo: z.string().optional(),
});

/** Events of a project that match a filter and arrived no later than the event `upTo`. */
export type Selection = {
  projectId: string;
  filter: EventFilter;
  upTo: string;
  /** The external ids of the filter's player. */
  names: readonly string[] | undefined;
};

/** Opens the selection of a filter. */
export const openSelection = async (
  { db }: Work,
  { projectId, filter, upTo }: Omit<Selection, "names">,
): Promise<Selection> => {
  const { playerId } = filter;
  if (playerId === undefined) return { projectId, filter, upTo, names: undefined };
  const found = await sql<{ name: string }>`
    select external_user_id as name from players
    where project_id = ${projectId} and (id = ${playerId} or merged_into = ${playerId})`.execute(db);
  return { projectId, filter, upTo, names: found.rows.map(({ name }) => name) };
};

const most = (a: string, b: string): string => (a > b ? a : b);
const floorOf = (text: string | undefined, earlierMs = 0): string =>
  text === undefined ? NIL_ID : idFloor(Math.max(0, Date.parse(text) - earlierMs));

/** Matches the range of ids outside of which nothing can match: those are in the order of arrival. */
const isInRange = ({ projectId, filter, upTo }: Selection): RawBuilder<unknown> => {
  const { from, receivedFrom, receivedTo } = filter;
  // The time of an event may be later than its arrival by this much.
  const first = most(floorOf(from, FUTURE_LIMIT_MS), floorOf(receivedFrom));
  const isBefore = receivedTo === undefined ? sql`true` : sql`e.id < ${floorOf(receivedTo)}::uuid`;
  return sql`e.project_id = ${projectId} and e.id >= ${first}::uuid and e.id <= ${upTo}::uuid
    and ${isBefore}`;
};

/** What no index serves. */
const matches = ({ eventType, eventIds, from, to }: EventFilter): RawBuilder<unknown> => {
  const all = [
    // What Laurel has sent itself is reverted with what it was sent for.
    eventIds === undefined && eventType === undefined && sql`e.event_type not like 'system.%'`,
    eventType !== undefined && sql`e.event_type = ${eventType}`,
    from !== undefined && sql`e.occurred_at >= ${boundOf(from)}::timestamptz`,
    to !== undefined && sql`e.occurred_at < ${boundOf(to)}::timestamptz`,
  ].filter((one) => one !== false);
  return all.length === 0 ? sql`true` : sql.join(all, sql` and `);
};

export type MatchedEvent = {
  id: string;
  externalUserId: string;
  status: EventStatus;
};

/** `next`: where to continue; undefined when all were examined. */
export type MatchedPage = { events: MatchedEvent[]; next: string | undefined };

/** Examines the next events, in the order of their arrival, and returns those that match. */
export const readMatched = async (
  work: Work,
  selection: Selection,
  { after, limit }: { after: string; limit: number },
): Promise<MatchedPage> => {
  const { projectId, filter, names } = selection;
  const ids = filter.eventIds?.filter((id) => id > after).slice(0, limit);
  const isNamed = ids === undefined ? sql`true` : sql`e.id = any(${`{${ids.join(",")}}`}::uuid[])`;
  const next = sql`${isInRange(selection)} and e.id > ${after}::uuid and ${isNamed}`;
  // Each name by its own index look-up: in the order of ids alone, all events of the project would be read.
  const source =
    names === undefined
      ? sql`(select * from tracked_events e where ${next} order by e.id limit ${limit}) e`
      : sql`json_array_elements_text(${JSON.stringify(names)}::json) as w(name) cross join lateral (
          select * from tracked_events e where ${next} and e.external_user_id = w.name
          order by e.external_user_id, e.id limit ${limit}) e`;
  const found = await sql<{ id: string; name: string; isMatch: boolean }>`
    select e.id, e.external_user_id as name, ${matches(filter)} as "isMatch" from ${source}
    order by e.id limit ${limit}`.execute(work.db);
  const some = found.rows.filter(({ isMatch }) => isMatch);
  const statuses = await readPlainStatuses(
    work,
    projectId,
    some.map(({ id }) => id),
  );
  const end = ids ? ids.at(-1) : found.rows.at(-1)?.id;
  const isAll = (ids ?? found.rows).length < limit;
  return {
    events: some.map(({ id, name: externalUserId }) => ({ id, externalUserId, status: statuses.get(id)! })),
    next: isAll ? undefined : end,
  };
};

/** Whether an event can be reverted: it has effects, or waits. */
export const isOpen = ({ status }: Pick<MatchedEvent, "status">): boolean =>
  status === "PROCESSED" || status === "PENDING";

type Next = { players: number; events: number; without: ReadonlySet<string> };

/**
 * Chooses the events to revert next: all those of some players on the page, each player's latest first. The
 * players are of as few partitions as possible, so that other players' events are processed meanwhile.
 */
export const chooseEvents = async (
  { db }: Work,
  selection: Selection,
  open: readonly MatchedEvent[],
  { players, events, without }: Next,
): Promise<string[]> => {
  const { projectId, filter } = selection;
  const byName = Map.groupBy(open, ({ externalUserId }) => externalUserId);
  const names = [...byName.keys()]
    .map((name) => ({ name, part: partitionOf(projectId, name) }))
    .toSorted((a, b) => a.part - b.part)
    .slice(0, players)
    .map(({ name }) => name);
  const known = names.flatMap((name) =>
    byName
      .get(name)!
      .map(({ id }) => id)
      .toReversed(),
  );
  // Those on the page are all that are named, or all of the one player, or nearly.
  if (filter.eventIds || known.length >= events) return known.slice(0, events);
  const found = await sql<{ id: string }>`
    select e.id from json_array_elements_text(${JSON.stringify(names)}::json) with ordinality as w(name, o)
    cross join lateral (
      select e.external_user_id, e.id from tracked_events e
      where ${isInRange(selection)} and e.external_user_id = w.name and ${matches(filter)}
        and e.id <> all(${`{${[...without].join(",")}}`}::uuid[])
        and not exists (select 1 from event_results r
          where r.project_id = e.project_id and r.event_id = e.id)
      order by e.external_user_id desc, e.id desc limit ${events}) e
    order by w.o, e.id desc limit ${events}`.execute(db);
  return found.rows.map(({ id }) => id);
};
