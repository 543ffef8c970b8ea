import { sql } from "kysely";
import { LOOP_KINDS } from "../loops/causes.ts";
import { COUNTERS_MAX } from "../../kernel/limits.ts";
import type { Work } from "../../kernel/work.ts";

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
