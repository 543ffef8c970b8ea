import { sql } from "kysely";
import { nextSlice } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import type { RuleDocument } from "../evaluation/language/document.ts";
import type { RuleStatus } from "../evaluation/running/outcome.ts";
import type { PublishedRule } from "../evaluation/running/compile.ts";

/** Documents read by one statement: a page of large ones is parsed within a slice or two. */
export const PAGE_RULES = 25;

type Version = { id: string; version: number };

/**
 * Reads published versions of rules in pages, yielding to the event loop in between.
 * @param take called once for each version found
 */
export const loadVersions = async <V extends Version>(
  { db }: Work,
  versions: readonly V[],
  take: (version: V, definition: RuleDocument) => void,
): Promise<void> => {
  for (let from = 0; from < versions.length; from += PAGE_RULES) {
    if (from > 0) await nextSlice();
    const page = new Map(versions.slice(from, from + PAGE_RULES).map((one) => [one.id, one]));
    const ids = `{${[...page.keys()].join(",")}}`;
    const numbers = `{${[...page.values()].map(({ version }) => version).join(",")}}`;
    const { rows } = await sql<{ id: string; definition: RuleDocument }>`
      select v.rule_id as id, v.definition
      from unnest(${ids}::uuid[], ${numbers}::int[]) as u(id, version)
      join rule_versions v on v.rule_id = u.id and v.version = u.version`.execute(db);
    for (const { id, definition } of rows) take(page.get(id)!, definition);
  }
};

type Row = { id: string; key: string; status: RuleStatus; created_at: Date; version: number };

/** As `loadPublished`, in pages. */
export const loadPublishedInPages = async (work: Work, projectId: string): Promise<PublishedRule[]> => {
  const { rows } = await sql<Row>`
    select id, key, status, created_at, published_version as version from rules
    where project_id = ${projectId} and status in ('ACTIVE', 'SHADOW')`.execute(work.db);
  const found: PublishedRule[] = [];
  await loadVersions(work, rows, ({ id, key, status, created_at: createdAt, version }, definition) => {
    found.push({ id, key, version, createdAt, definition, isShadow: status === "SHADOW" });
  });
  return found;
};

type PublishedRow = {
  id: string;
  key: string;
  version: number;
  status: RuleStatus;
  created_at: Date;
  definition: RuleDocument;
};

/** Loads the published versions of the running rules of a project, SHADOW included. */
export const loadPublished = async (work: Work, projectId: string): Promise<PublishedRule[]> => {
  const found = await sql<PublishedRow>`
    select r.id, r.key, r.status, r.created_at, v.version, v.definition
    from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
    where r.project_id = ${projectId} and r.status in ('ACTIVE', 'SHADOW')`.execute(work.db);
  return found.rows.map(({ created_at, status, ...rule }) => ({
    ...rule,
    createdAt: created_at,
    isShadow: status === "SHADOW",
  }));
};
