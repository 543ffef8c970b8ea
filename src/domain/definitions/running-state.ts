import { sql } from "kysely";
import type { Work } from "../work.ts";

export type RunningState = {
  /** Of everything that evaluation reads, as PostgreSQL writes JSON. */
  bytes: number;
  rules: number;
  definitions: number;
  /** A name of the documents by which rules can set one another off: equal ones have one, in any project. */
  links: string;
};

type Row = Record<Exclude<keyof RunningState, "links">, string | number> & { links: string | null };

/** What runs in a project: one statement. */
export const readRunningState = async ({ db }: Work, projectId: string): Promise<RunningState> => {
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
      where project_id = ${projectId} and status <> 'ARCHIVED' offset 0) those`.execute(db);
  const { bytes, rules, definitions, links } = rows[0]!;
  return { bytes: Number(bytes), rules: Number(rules), definitions: Number(definitions), links: links ?? "" };
};
