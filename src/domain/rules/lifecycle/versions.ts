import { isDeepStrictEqual } from "node:util";
import { notFound } from "../../errors.ts";
import { offsetOf, type PageQuery } from "../../paging.ts";
import type { Work } from "../../work.ts";
import type { RuleDocument } from "../language/document.ts";
import { type Rule, RuleVersion } from "../rule.ts";
import { findRule } from "../rules.ts";

/** A published version as the API shows it. */
export type ShownVersion = {
  version: number;
  definition: RuleDocument;
  changeNote: string | null;
  publishedBy: string;
  publishedAt: string;
  /** The one that runs, or would. */
  isPublished: boolean;
};

/** A page of a rule's versions, newest first. @throws DomainError NOT_FOUND */
export const listVersions = async (
  work: Work,
  projectId: string,
  ref: string,
  query: PageQuery,
): Promise<{ versions: ShownVersion[]; total: number }> => {
  const rule = await findRule(work, projectId, ref);
  const [found, total] = await work.em.findAndCount(
    RuleVersion,
    { ruleId: rule.id },
    { orderBy: { version: "desc" }, limit: query.limit, offset: offsetOf(query) },
  );
  const versions = found.map(({ version, definition, changeNote, publishedBy, publishedAt }) => ({
    version,
    definition,
    changeNote: changeNote ?? null,
    publishedBy,
    publishedAt: publishedAt.toISOString(),
    isPublished: version === rule.publishedVersion,
  }));
  return { versions, total };
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

/** Whether the draft is just what is published. */
export const isDraftPublished = async (work: Work, rule: Rule): Promise<boolean> => {
  if (rule.publishedVersion == null) return false;
  const { definition } = await findVersion(work, rule, rule.publishedVersion);
  return isDeepStrictEqual(definition, rule.draft);
};
