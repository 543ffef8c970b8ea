import { sql } from "kysely";
import type { Work } from "../../work.ts";
import type { RuleStatus } from "../rule.ts";
import { loadVersions } from "../version-pages.ts";
import { linksOf, type RuleLinks } from "./links.ts";

/** A rule with what the graph needs of it. */
export type LinkedRule = { id: string; key: string; status: RuleStatus; links: RuleLinks };

/** Bytes of links that a process keeps, as JSON. */
const KEPT_BYTES_MAX = 32 * 1024 * 1024;

type Kept = { links: RuleLinks; bytes: number };

const kept = new Map<string, Kept>();
let keptBytes = 0;

const keep = (name: string, links: RuleLinks): RuleLinks => {
  const bytes = name.length + Buffer.byteLength(JSON.stringify(links));
  forget(name);
  kept.set(name, { links, bytes });
  keptBytes += bytes;
  while (keptBytes > KEPT_BYTES_MAX && kept.size > 1) forget(kept.keys().next().value!);
  return links;
};

/** What is kept under a name, which is then the last to go. */
const recall = (name: string): RuleLinks | undefined => {
  const known = kept.get(name);
  if (!known) return undefined;
  kept.delete(name);
  kept.set(name, known);
  return known.links;
};

const forget = (name: string): void => {
  keptBytes -= kept.get(name)?.bytes ?? 0;
  kept.delete(name);
};

type Row = { id: string; key: string; status: RuleStatus; version: number; writer: string };

/**
 * The published rules of a project that have one of `statuses`, in the order of their creation. A version
 * never changes, so that its document is read once in a process. The transaction that wrote it is part of its
 * name: what was rolled back leaves its number to another document.
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
    const links = recall(nameOf(row));
    if (links) found.set(row.id, links);
    else unknown.push(row);
  }
  await loadVersions(work, unknown, (row, definition) => {
    found.set(row.id, keep(nameOf(row), linksOf(definition)));
  });
  return rows.flatMap(({ id, key, status }) => {
    const links = found.get(id);
    return links ? [{ id, key, status, links }] : [];
  });
};

const nameOf = ({ id, version, writer }: Row): string => `${id} ${version} ${writer}`;
