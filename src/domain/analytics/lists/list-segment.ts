import { sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../../accounts/audit/definitions.ts";
import { createDefinition, getDefinition } from "../../economy/definitions/definitions.ts";
import { segmentKind } from "../../economy/segments/kind.ts";
import { moveAll } from "../../economy/segments/members.ts";
import { DESIGNERS } from "../../kernel/access.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { jobKind, type Step } from "../../long-work/job-kind.ts";
import { queueJob } from "../../long-work/project-jobs.ts";
import type { Asked } from "../ask.ts";
import { findListed, type ListQuestion } from "./list-question.ts";

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

export type NewListSegment = {
  definition: { key: string; name: string; description?: string | undefined };
  /** Ids of its players. */
  ids: readonly string[];
  createdBy: string;
};

export type ListSegment = { segmentId: string; segmentKey: string; players: number; jobId: string | null };

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
