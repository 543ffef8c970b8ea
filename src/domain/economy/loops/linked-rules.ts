import { sql } from "kysely";
import { createSizedCache } from "../../kernel/sized-cache.ts";
import type { Work } from "../../kernel/work.ts";
import type { RuleStatus } from "../../evaluation/running/rule-status.ts";
import { loadVersions } from "../../progression/published-rules.ts";
import { linksOf, type RuleLinks } from "./links.ts";

/** A rule with the properties that the graph needs. */
export type LinkedRule = { id: string; key: string; status: RuleStatus; links: RuleLinks };

/** Maximum number of cached rules of a process, and their bytes as JSON. */
const KEPT_MAX = 100_000;
const KEPT_BYTES_MAX = 32 * 1024 * 1024;

const kept = createSizedCache<RuleLinks>({ items: KEPT_MAX, bytes: KEPT_BYTES_MAX });

type Row = { id: string; key: string; status: RuleStatus; version: number; writer: string };

/**
 * Loads the published rules of a project with one of `statuses`, in order of creation. A version never
 * changes, so each process reads its document once. The cache key includes the writing transaction: a
 * rolled-back one leaves its version number to another document.
 */
export const loadLinkedRules = async (
  work: Work,
  projectId: string,
  statuses: readonly RuleStatus[],
): Promise<LinkedRule[]> => {
  const { rows } = await sql<Row>`
    select r.id, r.key, r.status, v.version, v.xmin::text as writer from rules r
    join rule_versions v on v.rule_id = r.id and v.version = r.published_version
    where r.project_id = ${projectId} and r.status = any(${`{${statuses.join(",")}}`}::text[])
    order by r.created_at, r.id`.execute(work.db);
  const found = new Map<string, RuleLinks>();
  const unknown: Row[] = [];
  for (const row of rows) {
    const links = kept.get(nameOf(row));
    if (links) found.set(row.id, links);
    else unknown.push(row);
  }
  await loadVersions(work, unknown, (row, definition) => {
    const name = nameOf(row);
    const links = linksOf(definition);
    const bytes = name.length + Buffer.byteLength(JSON.stringify(links));
    found.set(row.id, kept.keep(name, links, { owner: projectId, bytes }));
  });
  return rows.flatMap(({ id, key, status }) => {
    const links = found.get(id);
    return links ? [{ id, key, status, links }] : [];
  });
};

const nameOf = ({ id, version, writer }: Row): string => `${id} ${version} ${writer}`;
