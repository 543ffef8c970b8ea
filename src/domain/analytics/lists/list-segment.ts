import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import type { ActiveBy } from "../active-players.ts";
import type { Asked } from "../ask.ts";
import { type CohortNumber, type CohortQuestion, findCohortPlayers } from "../cohorts.ts";
import {
  type Against,
  type ExperimentGroup,
  findExperimentPlayers,
  type Population,
  readGroups,
} from "../experiments/experiment.ts";
import { findFunnelPlayers, type FunnelNumber, type FunnelQuestion } from "../funnels.ts";
import { type ActiveEvents, findMeasured, type ListedMetric } from "../measure-players.ts";
import { findRetained, type RetentionNumber, type RetentionQuestion } from "../retention.ts";
import { eventsOf } from "../events.ts";
import type { Frame } from "../range.ts";
import { findSegmentPlayers, type SegmentGroup } from "../segments.ts";
import { createDefinition, getDefinition } from "../../economy/definitions/definitions.ts";
import { moveAll, segmentKind } from "../../economy/segments/members.ts";
import { DESIGNERS } from "../../kernel/caller.ts";
import { invalid } from "../../kernel/errors.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { offsetOf, type Page, pageOf, type PageQuery } from "../../kernel/paging.ts";
import type { Work } from "../../kernel/work.ts";
import { jobKind, queueJob, type Step } from "../../long-work/project-jobs.ts";

/** The questions whose numbers are of players that can be listed. */
export const LISTED = ["overview", "retention", "cohorts", "funnels", "segments", "experiments"] as const;

/** A number of a question: its players are a list. */
export type ListQuestion =
  | { of: "overview"; question: { activeEvents?: ActiveEvents }; number: { metric: ListedMetric } }
  | { of: "experiments"; question: ExperimentQuestion; number: { group: ExperimentGroup } }
  | { of: "retention"; question: RetentionQuestion; number: RetentionNumber }
  | { of: "cohorts"; question: CohortQuestion; number: CohortNumber }
  | { of: "funnels"; question: FunnelQuestion; number: FunnelNumber }
  | { of: "segments"; question: ActiveBy; number: { group: SegmentGroup; segment: string } };

type ExperimentQuestion = { ruleId: string; against?: Against | undefined; population: Population };

/**
 * Finds the players whom a question counts in a number, on the way on which it counts them.
 * @returns a query of their ids, in the column player_id
 * @throws DomainError VALIDATION_ERROR as the question, and for a number that it does not have; NOT_FOUND for
 *   a segment or a rule that there is not
 */
export const findListed = async (
  work: Work,
  asked: Asked,
  list: ListQuestion,
): Promise<RawBuilder<unknown>> => {
  switch (list.of) {
    case "overview":
      return findMeasured({ work, ...asked, activeEvents: list.question.activeEvents }, list.number.metric);
    case "experiments": {
      const { ruleId, against, population } = list.question;
      const groups = await readGroups(work, asked.frame.projectId, { ruleRef: ruleId, against });
      return findExperimentPlayers(work, asked, { groups, population }, list.number.group);
    }
    case "retention":
      return (await findRetained(work, asked, list.question, list.number)).query(asked.frame);
    case "cohorts":
      return findCohortPlayers(work, asked, list.question, list.number);
    case "funnels":
      return (await findFunnelPlayers(work, asked, list.question, list.number)).query(asked.frame);
    case "segments":
      return findSegmentPlayers(work, asked.frame, list.number, list.question);
  }
};

/** A player in a list. */
type ListedPlayer = {
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  xp: number;
  level: number;
  lastActiveAt: string | null;
};

/** One row without a player where the page has none; `last_at`: null for one whose events are gone. */
type Row = { [F in Exclude<keyof ListedPlayer, "lastActiveAt">]: ListedPlayer[F] | null } & {
  last_at: Date | null;
  total: number;
};

/** Times of the last events of the few players of a table `x`. */
const lastTimesOf = (frame: Frame): RawBuilder<unknown> => sql`
  select e.player_id, max(e.at) as last_at from (${eventsOf(frame, {
    where: sql`e.external_user_id in (select q.external_user_id from players q join x
      on q.project_id = ${frame.projectId}::uuid and (q.id = x."playerId" or q.merged_into = x."playerId"))`,
  })}) e group by 1`;

/** Reads some of the players of a query, by id, and how many all of them are; erased ones have no name. */
const readSome = async (
  { db }: Work,
  frame: Frame,
  listed: RawBuilder<unknown>,
  { after = NIL_ID, limit, offset = 0 }: { after?: string | undefined; limit: number; offset?: number },
): Promise<{ players: ListedPlayer[]; total: number }> => {
  const { rows } = await sql<Row>`
    with l as materialized (select player_id from (${listed}) q),
    x as materialized (
      select p.id as "playerId", p.external_user_id as "externalUserId", p.display_name as "displayName",
        p.xp::float8 as xp, p.level
      from l join players p on p.project_id = ${frame.projectId}::uuid and p.id = l.player_id
      where p.id > ${after}::uuid order by p.id limit ${limit} offset ${offset})
    select (select count(*) from l) as total, x.*, t.last_at
    from (select) one left join x on true left join (${lastTimesOf(frame)}) t on t.player_id = x."playerId"
    order by x."playerId"`.execute(db);
  const players = rows.flatMap(({ total: _total, last_at: lastAt, ...player }) =>
    player.playerId === null ? [] : [{ ...player, lastActiveAt: isoOf(lastAt) }],
  ) as ListedPlayer[];
  return { players, total: rows[0]!.total };
};

/**
 * Reads a page of the players whom `readSegments` counts in a segment, by id.
 * @throws DomainError NOT_FOUND for a segment that the group does not have
 */
export const listSegmentPlayers = async (
  work: Work,
  { frame }: Asked,
  asked: PageQuery & ActiveBy & { group: SegmentGroup; segment: string },
): Promise<Page<ListedPlayer>> => {
  const listed = await findSegmentPlayers(work, frame, asked, asked);
  const some = { limit: asked.limit, offset: offsetOf(asked) };
  const { players, total } = await readSome(work, frame, listed, some);
  return pageOf(players, total, asked);
};

/** `cursor`: the id of the last player of the page before. */
type ListPage = { cursor?: string | undefined; limit: number };

type PlayerList = {
  data: ListedPlayer[];
  pagination: { limit: number; total: number; nextCursor: string | null };
};

/**
 * Reads a page of the players behind a number, by id: each is on one page, whatever comes between two of
 * them, as long as the number stays the same.
 * @throws DomainError as `findListed`
 */
export const listPlayersBehind = async (
  work: Work,
  asked: Asked,
  list: ListQuestion,
  { cursor, limit }: ListPage,
): Promise<PlayerList> => {
  const listed = await findListed(work, asked, list);
  const { players, total } = await readSome(work, asked.frame, listed, { after: cursor, limit: limit + 1 });
  const data = players.slice(0, limit);
  const nextCursor = players.length > limit ? data.at(-1)!.playerId : null;
  return { data, pagination: { limit, total, nextCursor } };
};

/** Maximum players of a list that becomes a segment. */
export const LIST_SEGMENT_MAX = 100_000;
/** Players who are put in at once: of more, a job puts in as many with each step. */
export const LIST_AT_ONCE = 500;
/** How long players wait to be put in, in ms: those that a cancelled job has left are deleted then. */
const WAITING_MS = 7 * 86_400_000;

/**
 * Returns the ids of the players behind a number, in order, without those who were erased.
 * @throws DomainError VALIDATION_ERROR for more than LIST_SEGMENT_MAX; as `findListed`
 */
export const readListIds = async (work: Work, asked: Asked, list: ListQuestion): Promise<string[]> => {
  const listed = await findListed(work, asked, list);
  const { rows } = await sql<{ id: string }>`
    select p.id::text as id from (${listed}) q
    join players p on p.project_id = ${asked.frame.projectId}::uuid and p.id = q.player_id
    where p.status <> 'ERASED' order by p.id limit ${sql.lit(LIST_SEGMENT_MAX + 1)}`.execute(work.db);
  if (rows.length > LIST_SEGMENT_MAX)
    throw invalid("list", `has more than ${LIST_SEGMENT_MAX.toLocaleString("en")} players`);
  return rows.map(({ id }) => id);
};

const idsOf = (ids: readonly string[]): string => `{${ids.join(",")}}`;

/** Puts players in; those merged meanwhile resolve to the other one, and erased ones stay out. */
const putIn = async (work: Work, projectId: string, key: string, ids: readonly string[]): Promise<number> => {
  const { rows } = await sql<{ id: string }>`
    select id::text as id from players where project_id = ${projectId}::uuid
      and id = any(${idsOf(ids)}::uuid[]) and status <> 'ERASED'`.execute(work.db);
  return moveAll(work, projectId, { playerIds: rows.map(({ id }) => id), key, isMember: true });
};

type NewListSegment = {
  definition: { key: string; name: string; description?: string | undefined };
  /** Ids of its players. */
  ids: readonly string[];
  createdBy: string;
};

type ListSegment = { segmentId: string; segmentKey: string; players: number; jobId: string | null };

/**
 * Makes a STATIC segment of players. Of more than LIST_AT_ONCE, a job puts them in.
 * @throws DomainError CONFLICT KEY_TAKEN, DEFINITION_LIMIT, JOB_LIMIT
 */
export const createListSegment = async (
  work: Work,
  projectId: string,
  { definition, ids, createdBy }: NewListSegment,
): Promise<ListSegment> => {
  const { description, ...named } = definition;
  const segment = await createDefinition(work, projectId, segmentKind, {
    definition: { ...named, ...(description === undefined ? {} : { description }), kind: "STATIC" },
    createdBy,
  });
  await auditDefinition(work, "segment.members_added", segment);
  const made = { segmentId: segment.id, segmentKey: segment.key, players: ids.length };
  if (ids.length <= LIST_AT_ONCE) {
    if (ids.length > 0) await putIn(work, projectId, segment.key, ids);
    return { ...made, jobId: null };
  }
  const params = { segmentKey: segment.key, players: ids.length };
  const job = await queueJob(work, projectId, { kind: listSegment, params, createdBy });
  const expiresAt = new Date(work.serverNow.getTime() + WAITING_MS).toISOString();
  await sql`
    insert into analytics_listed (project_id, job_id, player_id, expires_at)
    select ${projectId}::uuid, ${job.id}::uuid, id, ${expiresAt}::timestamptz
    from unnest(${idsOf(ids)}::uuid[]) as t(id)`.execute(work.db);
  return { ...made, jobId: job.id };
};

const State = z.object({ done: z.number().default(0), added: z.number().default(0) });
const Params = z.object({ segmentKey: z.string(), players: z.number() });

/** Puts the players of a list into its segment; ends where that was archived. */
export const listSegment = jobKind({
  kind: "LIST_SEGMENT",
  access: { scope: "config:manage", roles: DESIGNERS },
  params: Params,
  step: async (work, { id, projectId, params, state }): Promise<Step> => {
    const { segmentKey, players } = params;
    const { done, added } = State.parse(state);
    const segment = await getDefinition(work, projectId, segmentKind, segmentKey);
    const isArchived = segment.status === "ARCHIVED";
    const ofJob = sql`project_id = ${projectId}::uuid and job_id = ${id}::uuid`;
    const { rows } = await sql<{ id: string }>`
      select player_id::text as id from analytics_listed where ${ofJob}
      order by player_id limit ${isArchived ? 0 : LIST_AT_ONCE}`.execute(work.db);
    if (rows.length === 0) {
      await sql`delete from analytics_listed where ${ofJob}`.execute(work.db);
      return { result: { segmentKey, added, isArchived } };
    }
    const ids = rows.map((row) => row.id);
    // In the order of an erasure: players first.
    const moved = await putIn(work, projectId, segmentKey, ids);
    await sql`
      delete from analytics_listed where ${ofJob} and player_id = any(${idsOf(ids)}::uuid[])`.execute(
      work.db,
    );
    const next = { done: done + ids.length, added: added + moved };
    return { state: next, progress: Math.min(99, (100 * next.done) / players) };
  },
});
