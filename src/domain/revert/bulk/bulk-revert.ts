import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { ADMINS } from "../../kernel/caller.ts";
import { conflict, DomainError } from "../../kernel/errors.ts";
import { idFloor, newId, NIL_ID, partitionOf } from "../../kernel/ids.ts";
import { savepoint, type Work } from "../../kernel/work.ts";
import {
  type JobInProgress,
  jobKind,
  type ProjectJob,
  queueJob,
  type Step,
} from "../../long-work/project-jobs.ts";
import { getPlayer } from "../../progression/players/players.ts";
import { GROUP_MAX, noSums, Sums, withResults } from "./sums.ts";
import { type HowToRevert, ON_SHORTFALL, type Reverted, revertEvents } from "../revert-events.ts";
import { FUTURE_LIMIT_MS } from "../../kernel/limits.ts";
import { auditEvent, boundOf, type EventStatus, readPlainStatuses } from "../../tracking/events.ts";

/** Counts events of which the ledger is still kept, but no longer what they have emitted. */
const countUnknown = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<number> => {
  if (eventIds.length === 0) return 0;
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from unnest(${`{${eventIds.join(",")}}`}::uuid[]) as u(id)
    cross join lateral (
      select 1 from ledger_entries l where l.project_id = ${projectId} and l.event_id = u.id limit 1) l
    left join lateral (
      select 1 as is_known from outbox o
      where o.project_id = ${projectId} and o.event_id = u.id limit 1) o on true
    where o.is_known is null`.execute(db);
  return rows[0]!.n;
};

/** Which events are meant, as a job stores it; all that is given must hold. */
const EventFilter = z.object({
  eventIds: z.array(z.string()).optional(),
  /** A player's events, with those of players merged into it. */
  playerId: z.string().optional(),
  eventType: z.string().optional(),
  /** Of the events' own time: from inclusive, to exclusive. */
  from: z.string().optional(),
  to: z.string().optional(),
  /** Of their arrival. */
  receivedFrom: z.string().optional(),
  receivedTo: z.string().optional(),
});
type EventFilter = z.output<typeof EventFilter>;

/** Events of a project that match a filter and arrived no later than the event `upTo`. */
type Selection = {
  projectId: string;
  filter: EventFilter;
  upTo: string;
  /** The external ids of the filter's player. */
  names: readonly string[] | undefined;
};

/** Opens the selection of a filter. */
const openSelection = async (
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

type MatchedEvent = {
  id: string;
  externalUserId: string;
  status: EventStatus;
};

/** `next`: where to continue; undefined when all were examined. */
type MatchedPage = { events: MatchedEvent[]; next: string | undefined };

/** Examines the next events, in the order of their arrival, and returns those that match. */
const readMatched = async (
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
const isOpen = ({ status }: Pick<MatchedEvent, "status">): boolean =>
  status === "PROCESSED" || status === "PENDING";

type Next = { players: number; events: number; without: ReadonlySet<string> };

/**
 * Chooses the events to revert next: all those of some players on the page, each player's latest first. The
 * players are of as few partitions as possible, so that other players' events are processed meanwhile.
 */
const chooseEvents = async (
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

/** Number of events examined per step to find those that are reverted next. */
const PAGE = 2_000;
/** Number of events per player of a step: as many players are in a transaction as have this many in it. */
const EVENTS_PER_PLAYER = 10;
/** Maximum number of events of a job that cannot be reverted. */
export const REFUSED_MAX = 1_000;

type Progress = { after: string; sums: Sums; how: HowToRevert };

/**
 * Reverts the next events of a selection, of some players together. Where that is too much for a transaction,
 * or an amount is missing that must not be, the next step tries half as many, until a single event is known
 * to be refused.
 * @returns `after`: the last event that needs not be examined again; undefined when none is left
 * @throws DomainError CONFLICT TOO_MANY_REFUSED
 */
const revertNext = async (
  work: Work,
  selection: Selection,
  { after, sums, how }: Progress,
): Promise<{ after: string | undefined; sums: Sums }> => {
  const without = new Set(Object.keys(sums.refused));
  const page = await readMatched(work, selection, { after, limit: PAGE });
  const open = page.events.filter((one) => isOpen(one) && !without.has(one.id));
  if (open.length === 0) return { after: page.next, sums };
  const players = Math.max(1, Math.floor(sums.size / EVENTS_PER_PLAYER));
  const eventIds = await chooseEvents(work, selection, open, { players, events: sums.size, without });
  return { after, sums: await revertThose(work, selection.projectId, { eventIds, sums, how }) };
};

type Those = { eventIds: readonly string[]; sums: Sums; how: HowToRevert };

const revertThose = async (work: Work, projectId: string, { eventIds, sums, how }: Those): Promise<Sums> => {
  try {
    const reverted = await savepoint(work, () => revertEvents(work, projectId, { eventIds, ...how }));
    const next = withResults(sums, reverted.results);
    const size = Math.min(GROUP_MAX, 2 * sums.size);
    return refuse({ ...next, size }, unrevertedOf(eventIds, reverted));
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== "CONFLICT") throw error;
    const [first, ...others] = eventIds;
    if (others.length > 0) return { ...sums, size: Math.ceil(eventIds.length / 2) };
    return refuse(sums, { [first!]: reasonOf(error) });
  }
};

const reasonOf = ({ reason, code }: DomainError): string => reason ?? code;

/** Events that another has sent are reverted with that one, and have no result of their own. */
const unrevertedOf = (eventIds: readonly string[], { refused }: Reverted): Readonly<Record<string, string>> =>
  Object.fromEntries(eventIds.flatMap((id) => (refused.has(id) ? [[id, refused.get(id)!]] : [])));

const refuse = (sums: Sums, more: Readonly<Record<string, string>>): Sums => {
  const refused = { ...sums.refused, ...more };
  if (Object.keys(refused).length > REFUSED_MAX)
    throw conflict("TOO_MANY_REFUSED", `more than ${REFUSED_MAX} of the events cannot be reverted`);
  return { ...sums, refused };
};

/** Maximum number of events of one job. */
export const BULK_EVENTS_MAX = 100_000;
/** Number of events examined per step while they are counted. */
const COUNTED_PAGE = 5_000;
/** Number of events named in a result. */
const FIRST_IDS = 10;
/** Number of players counted; more are told as at least as many. */
const PLAYERS_MAX = 10_000;
/** Share of the progress, in percent, when everything is counted. */
const COUNTED_PERCENT = 10;

const Params = z.object({
  filter: EventFilter,
  /** Events that arrived later are not meant. */
  upTo: z.string(),
  reason: z.string(),
  onShortfall: z.enum(ON_SHORTFALL),
  dryRun: z.boolean(),
});
type Params = z.output<typeof Params>;

/** What the events were when they were counted. */
const Counted = z.object({
  matched: z.int().default(0),
  statuses: z.record(z.string(), z.int()).default({}),
  /** Events of which only the ledger is still known. */
  unknown: z.int().default(0),
  firstEventIds: z.array(z.string()).default([]),
  /** Hashes of the players' external ids. */
  players: z.array(z.string()).default([]),
});
type Counted = z.output<typeof Counted>;

const State = z.object({
  isCounted: z.boolean().default(false),
  /** The last event that was examined. */
  after: z.string().default(NIL_ID),
  counted: Counted.prefault({}),
  sums: Sums.default(noSums()),
});
type State = z.output<typeof State>;

const HASH_LENGTH = 9;

/** Different for each job, so that it tells nothing about the player. */
const hashOf = (jobId: string, name: string): string =>
  createHash("sha256").update(`${jobId} ${name}`).digest("base64url").slice(0, HASH_LENGTH);

const countPage = async (
  work: Work,
  selection: Selection,
  { jobId, ...state }: State & { jobId: string },
): Promise<State> => {
  const page = { after: state.after, limit: COUNTED_PAGE };
  const { events, next } = await readMatched(work, selection, page);
  const { matched, firstEventIds, unknown } = state.counted;
  const statuses = { ...state.counted.statuses };
  for (const { status } of events) statuses[status] = (statuses[status] ?? 0) + 1;
  const players = new Set(state.counted.players);
  for (const { externalUserId } of events)
    if (players.size < PLAYERS_MAX) players.add(hashOf(jobId, externalUserId));
  if (matched + events.length > BULK_EVENTS_MAX)
    throw conflict("TOO_MANY_EVENTS", `the filter matches more than ${BULK_EVENTS_MAX} events: narrow it`);
  const processed = events.filter(({ status }) => status === "PROCESSED").map(({ id }) => id);
  const counted: Counted = {
    matched: matched + events.length,
    statuses,
    unknown: unknown + (await countUnknown(work, selection.projectId, processed)),
    firstEventIds: [...firstEventIds, ...events.filter(isOpen).map(({ id }) => id)].slice(0, FIRST_IDS),
    players: [...players],
  };
  return { ...state, counted, isCounted: next === undefined, after: next ?? NIL_ID };
};

/** What a dry run answers, and the first part of the result of a revert. */
const summaryOf = ({ matched, statuses, players, unknown, firstEventIds }: Counted) => ({
  matched,
  players: players.length,
  ...(players.length < PLAYERS_MAX ? {} : { hasMorePlayers: true }),
  firstEventIds,
  waiting: statuses["PENDING"] ?? 0,
  unknown,
});

/** Events that are not reverted, by status or by the code of the reason. */
const skippedOf = ({ statuses }: Counted, more: Readonly<Record<string, number>>): Record<string, number> => {
  const of = (status: string): number => statuses[status] ?? 0;
  const all = { REVERTED: of("REVERTED"), FAILED: of("FAILED"), REJECTED: of("REJECTED"), ...more };
  return Object.fromEntries(Object.entries(all).filter(([, n]) => n > 0));
};

const dryResult = (counted: Counted): Step => {
  const revertible = (counted.statuses["PROCESSED"] ?? 0) + (counted.statuses["PENDING"] ?? 0);
  return {
    result: { dryRun: true, ...summaryOf(counted), revertible, skipped: skippedOf(counted, {}) },
  };
};

const resultOf = ({ counted, sums }: State): Step => {
  const { refused, reverted, reversed, lives, shortfall, cancelled, left } = sums;
  const byReason: Record<string, number> = {};
  for (const reason of Object.values(refused)) byReason[reason] = (byReason[reason] ?? 0) + 1;
  const known = skippedOf(counted, byReason);
  const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, n) => sum + n, 0);
  // Others may have reverted some meanwhile.
  const meanwhile = counted.matched - reverted - sumOf(Object.values(known));
  const skipped = meanwhile > 0 ? { ...known, REVERTED: (known["REVERTED"] ?? 0) + meanwhile } : known;
  return {
    result: {
      dryRun: false,
      ...summaryOf(counted),
      reverted,
      skipped,
      refused: Object.entries(refused).map(([eventId, reason]) => ({ eventId, reason })),
      reversed,
      lives,
      shortfall,
      cancelled,
      left: left.toSorted(),
    },
  };
};

const step = async (work: Work, job: JobInProgress<Params>): Promise<Step> => {
  const { projectId, params, createdBy: actor } = job;
  const { filter, upTo, dryRun, reason, onShortfall } = params;
  const selection = await openSelection(work, { projectId, filter, upTo });
  const state = State.parse(job.state);
  if (!state.isCounted) {
    const next = await countPage(work, selection, { ...state, jobId: job.id });
    if (next.isCounted && dryRun) return dryResult(next.counted);
    return { state: next, progress: next.isCounted ? COUNTED_PERCENT : 0 };
  }
  const how = { reason, onShortfall, actor };
  const { after, sums } = await revertNext(work, selection, { ...state, how });
  const next = { ...state, sums, after: after ?? state.after };
  if (after === undefined) return resultOf(next);
  const { matched } = state.counted;
  const share = matched === 0 ? 1 : sums.reverted / matched;
  return { state: next, progress: COUNTED_PERCENT + (100 - COUNTED_PERCENT) * Math.min(1, share) };
};

/** Reverts many events, player by player; each event in one transaction with the job's own progress. */
export const bulkRevert = jobKind({
  kind: "BULK_REVERT",
  access: { scope: "players:write", roles: ADMINS },
  params: Params,
  step,
});

/** Maximum number of events that a filter may name. */
export const BULK_EVENT_IDS_MAX = 10_000;

/** With `dryRun`, the job counts and changes nothing. */
type BulkRevert = HowToRevert & {
  /** `playerRef` as in `{playerId}`. */
  filter: Omit<EventFilter, "playerId"> & { playerRef?: string | undefined };
  dryRun: boolean;
};

/**
 * Starts reverting the events that match a filter and have arrived until now.
 * @throws DomainError NOT_FOUND for an unknown player; CONFLICT JOB_LIMIT
 */
export const startBulkRevert = async (
  work: Work,
  projectId: string,
  { filter, reason, onShortfall, dryRun, actor }: BulkRevert,
): Promise<ProjectJob> => {
  const { eventIds, playerRef, ...others } = filter;
  // By the id of Laurel: what is stored names nobody.
  const rest: EventFilter =
    playerRef === undefined
      ? others
      : { ...others, playerId: (await getPlayer(work, projectId, playerRef)).id };
  const ids = eventIds && [...new Set(eventIds.map((id) => id.toLowerCase()))].toSorted();
  const params = {
    filter: { ...rest, ...(ids ? { eventIds: ids } : {}) },
    upTo: newId(),
    reason,
    onShortfall,
    dryRun,
  };
  const job = await queueJob(work, projectId, { kind: bulkRevert, params, createdBy: actor });
  const named = ids ? { ...rest, eventIds: ids.length } : rest;
  const data = { projectId, reason, onShortfall, dryRun, filter: named };
  await auditEvent(work, "event.bulk_revert_requested", { id: job.id, ...data });
  return job;
};
