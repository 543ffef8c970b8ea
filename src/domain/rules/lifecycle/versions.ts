import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import { type Rule, RuleVersion } from "../rule.ts";
import { findRule } from "../rules.ts";

/** A published version as the API shows it. */
export type ShownVersion = {
  version: number;
  definition: RuleDocument;
  changeNote: string | null;
  publishedBy: string;
  publishedAt: string;
  /** Whether it is the version that runs, or would. */
  isPublished: boolean;
};

/** Orders of the list. */
export const VERSION_ORDERS = { by: { version: sql`version` }, usual: "desc" } as const;

/** Lists a rule's versions, newest first. @throws DomainError NOT_FOUND */
export const listVersions = async (
  work: Work,
  projectId: string,
  ref: string,
  query: PageQuery & Ordered<SortOf<typeof VERSION_ORDERS>>,
): Promise<{ versions: ShownVersion[]; total: number }> => {
  const rule = await findRule(work, projectId, ref);
  const total = await work.em.count(RuleVersion, { ruleId: rule.id });
  const page = await sql<VersionRow>`
    select version, definition, change_note, published_by, published_at from rule_versions
    where rule_id = ${rule.id} order by ${orderBy(VERSION_ORDERS, query, sql`version`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  const versions = page.rows.map(({ version, definition, ...row }) => ({
    version,
    definition,
    changeNote: row.change_note,
    publishedBy: row.published_by,
    publishedAt: new Date(row.published_at).toISOString(),
    isPublished: version === rule.publishedVersion,
  }));
  return { versions, total };
};

type VersionRow = Pick<ShownVersion, "version" | "definition"> & {
  change_note: string | null;
  published_by: string;
  published_at: Date | string;
};

/** @throws DomainError NOT_FOUND */
export const findVersion = async (
  { em }: Work,
  { id }: Pick<Rule, "id">,
  version: number,
): Promise<RuleVersion> => {
  const found = await em.findOne(RuleVersion, { ruleId: id, version });
  if (!found) throw notFound(`version ${version}`);
  return found;
};

/** Whether the draft equals the published version. */
export const isDraftPublished = async (work: Work, rule: Rule): Promise<boolean> => {
  if (rule.publishedVersion == null) return false;
  const { definition } = await findVersion(work, rule, rule.publishedVersion);
  return isDeepStrictEqual(definition, rule.draft);
};
