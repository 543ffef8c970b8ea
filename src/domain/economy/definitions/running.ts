import { sql } from "kysely";
import { refuseNewLoops, standingLoops } from "../loops/loops.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import { fnv1a } from "../../kernel/ids.ts";
import {
  COUNTERS_MAX,
  DEFINITION_MAX_BYTES,
  KEPT_MAX_BYTES,
  PROJECT_MAX_BYTES,
} from "../../kernel/limits.ts";
import { bytesOf } from "../../kernel/hostile-json.ts";
import { unanswered } from "../../kernel/statements.ts";
import { localKey, LOCK_SPACES, type Work } from "../../kernel/work.ts";
import { LOOP_KINDS } from "../loops/causes.ts";

export type RunningState = {
  /** Total size of everything that evaluation reads, as PostgreSQL's JSON text. */
  bytes: number;
  /** The same of everything that an export of the project has, and therefore an import must take. */
  keptBytes: number;
  rules: number;
  definitions: number;
  /** Number of distinct metrics that rules, badges and segments read; 0 where there cannot be too many. */
  counters: number;
  /**
   * A digest of the documents by which rules can trigger one another: equal ones share it, in any project.
   */
  links: string;
};

/** Rules, and the definitions that may be part of a loop. */
const LINKING = `{${["rule", ...LOOP_KINDS].join(",")}}`;

/** Maximum number of metrics of one document: each condition may have its own. */
const DOCUMENT_METRICS_MAX = 50;

type Row = Record<"bytes" | "resting" | "rules" | "definitions" | "counting", number> & {
  links: string | null;
};

/** Reads a project's running state in one statement, and another one where it may read too many counters. */
export const readRunningState = async (work: Work, projectId: string): Promise<RunningState> => {
  const { rows } = await sql<Row>`
    select coalesce(sum(bytes), 0) as bytes,
      (select coalesce(sum(coalesce(v.bytes, r.draft_bytes)), 0)
        from rules r left join rule_versions v on v.rule_id = r.id and v.version = r.published_version
        where r.project_id = ${projectId} and r.status in ('DRAFT', 'PAUSED')) as resting,
      count(*) filter (where has_metric) as counting,
      count(*) filter (where kind = 'rule') as rules,
      count(*) filter (where kind not in ('rule', 'leaderboard')) as definitions,
      md5(string_agg(kind || ' ' || key || ' ' || digest, ',' order by kind, key)
        filter (where kind = any(${LINKING}::text[]))) as links
    from (
      select 'rule' as kind, r.key, v.bytes, v.digest, v.has_metric
      from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${projectId} and r.status in ('ACTIVE', 'SHADOW')
      union all select kind, key, bytes, digest, has_metric from definitions
      where project_id = ${projectId} and status = 'ACTIVE'
      union all select 'leaderboard', key, bytes, digest, has_metric from leaderboards
      where project_id = ${projectId} and status <> 'ARCHIVED') those`.execute(work.db);
  const { bytes, resting, rules, definitions, counting, links } = rows[0]!;
  const mayBeMany = counting > COUNTERS_MAX / DOCUMENT_METRICS_MAX;
  const counters = mayBeMany ? await countCounters(work, projectId) : 0;
  return {
    bytes,
    keptBytes: bytes + resting,
    rules,
    definitions,
    counters,
    links: links ?? "",
  };
};

/** Reads `keptBytes` alone. */
export const readKeptBytes = async ({ db }: Work, projectId: string): Promise<number> => {
  const found = await sql<{ bytes: number }>`
    select coalesce(sum(bytes), 0) as bytes from (
      select coalesce(v.bytes, r.draft_bytes) as bytes
      from rules r left join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${projectId} and r.status <> 'ARCHIVED'
      union all select bytes from definitions where project_id = ${projectId} and status = 'ACTIVE'
      union all select bytes from leaderboards
      where project_id = ${projectId} and status <> 'ARCHIVED') those`.execute(db);
  return found.rows[0]!.bytes;
};

const countCounters = async ({ db }: Work, projectId: string): Promise<number> => {
  const found = await sql<{ n: number }>`
    select count(distinct metric) as n from (
      select jsonb_path_query(v.definition->'conditions', 'strict $.**.metric') as metric
      from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${projectId} and r.status in ('ACTIVE', 'SHADOW') and v.has_metric
      union all select jsonb_path_query(definition, 'strict $.**.metric') from definitions
      where project_id = ${projectId} and status = 'ACTIVE' and kind in ('badge', 'segment') and has_metric
      union all select jsonb_path_query(definition, '$.steps[*] ? (@.countFrom == "LIFETIME").metric')
      from definitions where project_id = ${projectId} and status = 'ACTIVE' and kind = 'quest' and has_metric
      union all select jsonb_path_query(condition, 'strict $.**.metric')
      from definitions cross join lateral jsonb_path_query(definition, '$.steps[*].condition') as condition
      where project_id = ${projectId} and status = 'ACTIVE' and kind = 'quest' and has_metric
    ) those where jsonb_typeof(metric) = 'object'`.execute(db);
  return found.rows[0]!.n;
};

/** Reason of a 400 for a document that is too large. */
export const TOO_LARGE = "TOO_LARGE";

/**
 * Refuses a document that is too large, measured as it would be stored.
 * @throws DomainError VALIDATION_ERROR with the reason TOO_LARGE
 */
export const checkSize = (name: string, document: object, max = DEFINITION_MAX_BYTES): void => {
  const bytes = bytesOf(document);
  if (bytes > max) throw invalid(name, `must be at most ${max} bytes of JSON, and has ${bytes}`, TOO_LARGE);
};

/** Whether a change is in progress: changes inside it are checked once, at its end. */
const CHANGING = localKey("changeRunning", () => false);

type RunningChange = {
  projectId: string;
  /** Reason of the refusal when the project becomes too large. */
  reason: string;
  /** Set for a change of one rule that `makeRun` has found to close no loop. */
  isLoopChecked?: true;
  /** The project that is being copied, if any: its loops may be copied too. */
  copied?: string | undefined;
};

/**
 * The only way to change what runs in a project: rules, definitions, leaderboards. Refuses the change when
 * the project exceeds its size limit, except that one that exceeded it before may still shrink, and when
 * rules could newly trigger one another endlessly. Must be called under the project's config lock; of nested
 * calls in one transaction only the outer one checks.
 * @throws DomainError CONFLICT with `reason`; EndlessLoops; an Unprepared, for `transact`
 */
export const changeRunning = async <T>(
  work: Work,
  { projectId, reason, isLoopChecked, copied }: RunningChange,
  change: () => Promise<T>,
): Promise<T> => {
  if (work.local.get(CHANGING)) return change();
  const before = await readRunningState(work, projectId);
  const standing = await standingLoops(work, copied === undefined ? [projectId] : [projectId, copied]);
  work.local.set(CHANGING, true);
  try {
    const changed = await change();
    await work.em.flush();
    const after = await readRunningState(work, projectId);
    refuseLarger(after, { before, reason });
    if (!isLoopChecked && after.rules > 0 && after.links !== before.links)
      await refuseNewLoops(work, projectId, standing);
    return changed;
  } finally {
    work.local.set(CHANGING, false);
  }
};

/**
 * Refuses a draft that has become larger when the project keeps too much with it. One transaction of a
 * project at a time does so, until it has ended: others would not see its draft. To be called when the draft
 * is written.
 * @throws DomainError CONFLICT RULE_LIMIT
 */
export const refuseLargeDraft = async (work: Work, projectId: string): Promise<void> => {
  await unanswered(
    work.db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.DRAFTS}::int, ${fnv1a(projectId) | 0}::int)`,
  );
  if ((await readKeptBytes(work, projectId)) > KEPT_MAX_BYTES) throw keepsTooMuch("RULE_LIMIT");
};

const keepsTooMuch = (reason: string) =>
  conflict(
    reason,
    `a project may have ${KEPT_MAX_BYTES} bytes of rules, drafts and paused ones included, definitions and ` +
      "leaderboards together",
  );

const refuseLarger = (
  after: RunningState,
  { before, reason }: { before: RunningState; reason: string },
): void => {
  const refuse = (limit: string) => conflict(reason, `a project may have ${limit}`);
  if (after.bytes > Math.max(PROJECT_MAX_BYTES, before.bytes))
    throw refuse(`${PROJECT_MAX_BYTES} bytes of active rules, definitions and leaderboards together`);
  if (after.keptBytes > Math.max(KEPT_MAX_BYTES, before.keptBytes)) throw keepsTooMuch(reason);
  if (after.counters > Math.max(COUNTERS_MAX, before.counters))
    throw refuse(`${COUNTERS_MAX} different metrics of active rules, badges and segments together`);
};
