import { sql } from "kysely";
import { type Bucket, compileRollout } from "../../evaluation/running/rollout.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { findRule } from "../../rules/rules.ts";

/** What players who have a rule are compared with: those held out, or those whom the rollout leaves out. */
export const AGAINST = ["holdout", "excluded"] as const;
export type Against = (typeof AGAINST)[number];

type Rollout = NonNullable<RuleDocument["rollout"]>;

/** The groups into which the published version of a rule divides players. */
export type RuleGroups = {
  rule: { id: string; key: string; version: number; publishedAt: string };
  rollout: Pick<Rollout, "percent" | "holdoutPercent" | "salt">;
  against: Against;
};

const againstOf = ({ percent, holdoutPercent }: Rollout, asked: Against | undefined): Against => {
  if (asked === "holdout" && holdoutPercent === 0)
    throw invalid("against", "the rule holds nobody out: rollout.holdoutPercent is 0");
  if (asked === "excluded" && percent === 100)
    throw invalid("against", "the rollout leaves nobody out: rollout.percent is 100");
  return asked ?? (holdoutPercent > 0 ? "holdout" : "excluded");
};

/**
 * Reads the groups of a rule.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for a rule that is not published, or applies to
 *   everybody; VALIDATION_ERROR for a group that it does not have
 */
export const readGroups = async (
  work: Work,
  projectId: string,
  { ruleRef, against }: { ruleRef: string; against?: Against | undefined },
): Promise<RuleGroups> => {
  const rule = await findRule(work, projectId, ruleRef);
  const { rows } = await sql<{ version: number; definition: RuleDocument; publishedAt: Date | string }>`
    select version, definition, published_at as "publishedAt" from rule_versions
    where rule_id = ${rule.id}::uuid and version = ${rule.publishedVersion ?? 0}::int`.execute(work.db);
  const [published] = rows;
  if (!published) throw conflict("INVALID_STATE", "the rule is not published, so it has no groups");
  const { rollout } = published.definition;
  if (!rollout || !compileRollout(rule.key, rollout))
    throw conflict(
      "INVALID_STATE",
      "the rule applies to everybody: give it a rollout.percent below 100 or a holdoutPercent",
    );
  const { percent, holdoutPercent, salt } = rollout;
  return {
    rule: {
      id: rule.id,
      key: rule.key,
      version: published.version,
      publishedAt: new Date(published.publishedAt).toISOString(),
    },
    rollout: { percent, holdoutPercent, ...(salt === undefined ? {} : { salt }) },
    against: againstOf(rollout, against),
  };
};

export type Group = "treated" | "control";

/** Returns what tells a player's group, by the hash by which the rule does; undefined for one in neither. */
export const groupOf = ({
  rule,
  rollout,
  against,
}: RuleGroups): ((playerId: string) => Group | undefined) => {
  const bucketOf = compileRollout(rule.key, rollout)!;
  const control: Bucket = against === "holdout" ? "HELD" : "OUT";
  return (playerId) => {
    const bucket = bucketOf(playerId);
    if (bucket === "IN") return "treated";
    return bucket === control ? "control" : undefined;
  };
};
