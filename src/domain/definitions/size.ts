import type { SqlEntityManager } from "@mikro-orm/sql";
import { sql } from "kysely";
import { conflict, invalid } from "../errors.ts";
import { COUNTERS_MAX, DEFINITION_MAX_BYTES, PROJECT_MAX_BYTES } from "../limits.ts";
import { bytesOf } from "../oversize.ts";
import type { Work } from "../work.ts";

/** Reason of a 400 for a document that is too large. */
export const TOO_LARGE = "TOO_LARGE";

/**
 * Refuses a document that is too large to be kept, as it would be kept.
 * @throws DomainError VALIDATION_ERROR with the reason TOO_LARGE
 */
export const checkSize = (name: string, document: object, max = DEFINITION_MAX_BYTES): void => {
  const bytes = bytesOf(document);
  if (bytes > max) throw invalid(name, `must be at most ${max} bytes of JSON, and has ${bytes}`, TOO_LARGE);
};

/** Bytes that a condition takes at least which reads a counter of its own. */
const CONDITION_BYTES_MIN = 60;

type ProjectSize = { bytes: number; counters: number };

/** What runs in a project: one statement, and another one where it may read too many counters. */
const sizeOf = async (work: Work, projectId: string): Promise<ProjectSize> => {
  const bytes = await bytesOfAll(work, projectId);
  const mayBeMany = bytes > COUNTERS_MAX * CONDITION_BYTES_MIN;
  return { bytes, counters: mayBeMany ? await countCounters(work, projectId) : 0 };
};

/** Different metrics that rules, badges and segments read. */
const countCounters = async ({ db }: Work, projectId: string): Promise<number> => {
  const found = await sql<{ n: string | number }>`
    select count(distinct metric) as n from (
      select jsonb_path_query(v.definition->'conditions', 'strict $.**.metric') as metric
      from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${projectId} and r.status in ('ACTIVE', 'SHADOW')
      union all select jsonb_path_query(definition, 'strict $.**.metric') from definitions
      where project_id = ${projectId} and status = 'ACTIVE' and kind in ('badge', 'segment')
    ) those where jsonb_typeof(metric) = 'object'`.execute(db);
  return Number(found.rows[0]!.n);
};

/** Bytes of everything of a project that evaluation reads, as PostgreSQL writes JSON: one statement. */
const bytesOfAll = async ({ db }: Work, projectId: string): Promise<number> => {
  const found = await sql<{ bytes: string | number }>`
    select coalesce(sum(bytes), 0) as bytes from (
      select octet_length(v.definition::text) as bytes
      from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${projectId} and r.status in ('ACTIVE', 'SHADOW')
      union all select octet_length(definition::text) from definitions
      where project_id = ${projectId} and status = 'ACTIVE'
      union all select octet_length(definition::text) from leaderboards
      where project_id = ${projectId} and status <> 'ARCHIVED') those`.execute(db);
  return Number(found.rows[0]!.bytes);
};

/** Transactions that make many changes and are looked at once, at their end. */
const together = new WeakSet<SqlEntityManager>();

/**
 * Makes changes of what runs in a project, and refuses them when the project has become larger than it may
 * be. One that was larger before may still shrink. Call it under the project's config lock; inside another
 * call of the same transaction only the outer one looks.
 * @throws DomainError CONFLICT with `reason`
 */
export const withinProjectSize = async <T>(
  work: Work,
  { projectId, reason }: { projectId: string; reason: string },
  change: () => Promise<T>,
): Promise<T> => {
  if (together.has(work.em)) return change();
  const before = await sizeOf(work, projectId);
  together.add(work.em);
  try {
    const changed = await change();
    await work.em.flush();
    refuseLarger(await sizeOf(work, projectId), { before, reason });
    return changed;
  } finally {
    together.delete(work.em);
  }
};

const refuseLarger = (
  after: ProjectSize,
  { before, reason }: { before: ProjectSize; reason: string },
): void => {
  const refuse = (limit: string) => conflict(reason, `a project may have ${limit}`);
  if (after.bytes > Math.max(PROJECT_MAX_BYTES, before.bytes))
    throw refuse(`${PROJECT_MAX_BYTES} bytes of active rules, definitions and leaderboards together`);
  if (after.counters > Math.max(COUNTERS_MAX, before.counters))
    throw refuse(`${COUNTERS_MAX} different metrics of active rules, badges and segments together`);
};
