import { sql } from "kysely";
import { COUNTERS_MAX } from "../limits.ts";
import type { Work } from "../work.ts";

export type RunningState = {
  /** Of everything that evaluation reads, as PostgreSQL writes JSON. */
  bytes: number;
  rules: number;
  definitions: number;
  /** Different metrics that rules, badges and segments read; 0 where there cannot be too many. */
  counters: number;
  /** A name of the documents by which rules can set one another off: equal ones have one, in any project. */
  links: string;
};

/** Bytes that a condition takes at least which reads a counter of its own. */
const CONDITION_BYTES_MIN = 60;

type Row = Record<"bytes" | "rules" | "definitions", string | number> & { links: string | null };

/** What runs in a project: one statement, and another one where it may read too many counters. */
export const readRunningState = async (work: Work, projectId: string): Promise<RunningState> => {
  const { rows } = await sql<Row>`
    select coalesce(sum(octet_length(text)), 0) as bytes,
      count(*) filter (where kind = 'rule') as rules,
      count(*) filter (where kind not in ('rule', 'leaderboard')) as definitions,
      md5(string_agg(kind || ' ' || key || ' ' || md5(text), ',' order by kind, key)
        filter (where kind in ('rule', 'badge', 'level', 'reward', 'segment', 'streak'))) as links
    from (
      select 'rule' as kind, r.key, v.definition::text as text
      from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${projectId} and r.status in ('ACTIVE', 'SHADOW')
      union all select kind, key, definition::text from definitions
      where project_id = ${projectId} and status = 'ACTIVE'
      union all select 'leaderboard', key, definition::text from leaderboards
      where project_id = ${projectId} and status <> 'ARCHIVED' offset 0) those`.execute(work.db);
  const { rules, definitions, links } = rows[0]!;
  const bytes = Number(rows[0]!.bytes);
  const mayBeMany = bytes > COUNTERS_MAX * CONDITION_BYTES_MIN;
  const counters = mayBeMany ? await countCounters(work, projectId) : 0;
  return { bytes, rules: Number(rules), definitions: Number(definitions), counters, links: links ?? "" };
};

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
