import { sql } from "kysely";
import { awaitConfigLane, changeConfig } from "../../kernel/config-lock.ts";
import { conflict, DomainError, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { savepoint } from "../../kernel/savepoint.ts";
import { RuleDocument } from "../../evaluation/language/document.ts";
import { namedProblems } from "../named.ts";
import type { Rule } from "../rule.ts";
import type { RuleStatus } from "../../evaluation/running/rule-status.ts";
import { lockRule } from "../rules.ts";
import { cyclesWith } from "../../economy/loops/cycles.ts";
import { loopText } from "../../economy/loops/loops.ts";
import { problemsOf, refusal } from "./validate.ts";
import { cycleText } from "../../economy/loops/loop-text.ts";

/** A rule as it was checked, before anything was locked. */
export type FoundRule = {
  id: string;
  key: string;
  status: RuleStatus;
  draft: RuleDocument;
  draftVersion: number;
  publishedVersion: number | null;
  /** Config version of the project. */
  configVersion: number;
};

/** Chooses which of a rule's documents to run. */
type Choose = (rule: FoundRule) => RuleDocument | Promise<RuleDocument>;

export const readDraft = ({ draft }: FoundRule): RuleDocument => draft;

export type Runnable = {
  /** Locked, like the project's definitions. */
  rule: Rule;
  definition: RuleDocument;
  /** Cycles that end by themselves. */
  warnings: string[];
};

type RuleRef = { projectId: string; ref: string };

/** Maximum number of checks without the lock; if definitions keep changing, the last one is under it. */
const FREE_CHECKS_MAX = 3;

/** Thrown when the project or the rule has changed since it was checked. */
class Stale extends Error {}

/**
 * Locks a rule and its project's definitions for a change of what runs, after checking that the document can
 * run there. The expensive check is done before the lock, for which every batch of events waits; under the
 * lock it is only verified that the check is still valid.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE; VALIDATION_ERROR: the document's names must exist,
 * and rules must not trigger one another endlessly (its reason is then RULE_LOOP)
 */
export const lockRunnable = async (work: Work, place: RuleRef, choose: Choose): Promise<Runnable> => {
  awaitConfigLane(work, place.projectId);
  await work.em.flush();
  for (let tries = 0; tries < FREE_CHECKS_MAX; tries++) {
    try {
      const checked = await checkFreely(work, place, choose);
      return await savepoint(work, async () => ({ rule: await lockAs(work, place, checked), ...checked }));
    } catch (error) {
      // The lock was released with the savepoint.
      if (!(error instanceof Stale)) throw error;
    }
  }
  await changeConfig(work, place.projectId);
  const rule = await lockRule(work, place.projectId, place.ref);
  const checked = await check(work, place, await findAsIs(work, place), choose);
  return { rule, ...checked };
};

type Checked = { found: FoundRule; definition: RuleDocument; warnings: string[] };

/** A refusal counts only if nothing has changed during the check. */
const checkFreely = async (work: Work, place: RuleRef, choose: Choose): Promise<Checked> => {
  const found = await findAsIs(work, place);
  try {
    return await check(work, place, found, choose);
  } catch (error) {
    if (!(error instanceof DomainError) || isSame(found, await findAsIs(work, place))) throw error;
    throw new Stale();
  }
};

const lockAs = async (work: Work, { projectId, ref }: RuleRef, { found }: Checked): Promise<Rule> => {
  await changeConfig(work, projectId);
  const locked = await findAsIs(work, { projectId, ref });
  // The lock itself counts as one change.
  if (!isSame({ ...found, configVersion: found.configVersion + 1 }, locked)) throw new Stale();
  const rule = await lockRule(work, projectId, ref);
  if (rule.draftVersion !== found.draftVersion) throw new Stale();
  return rule;
};

const isSame = (a: FoundRule, b: FoundRule): boolean =>
  a.id === b.id && a.draftVersion === b.draftVersion && a.configVersion === b.configVersion;

type Row = Omit<FoundRule, "configVersion"> & { configVersion: string | number };

/** Uses a statement instead of an entity: a managed entity would not be read again under the lock. */
const findAsIs = async ({ db }: Work, { projectId, ref }: RuleRef): Promise<FoundRule> => {
  const id = isId(ref) ? ref : null;
  const { rows } = await sql<Row>`
    select r.id, r.key, r.status, r.draft, r.draft_version as "draftVersion",
      r.published_version as "publishedVersion", p.config_version as "configVersion"
    from rules r join projects p on p.id = r.project_id
    where r.project_id = ${projectId} and (r.id = ${id}::uuid or r.key = ${ref})
    order by r.id = ${id}::uuid desc nulls last limit 1`.execute(db);
  const [row] = rows;
  if (!row) throw notFound("rule");
  if (row.status === "ARCHIVED") throw conflict("INVALID_STATE", "the rule is archived");
  return { ...row, configVersion: Number(row.configVersion) };
};

const check = async (
  work: Work,
  { projectId }: RuleRef,
  found: FoundRule,
  choose: Choose,
): Promise<Checked> => {
  const definition = checkDocument(await choose(found));
  const named = await namedProblems(work, projectId, definition);
  if (named.length > 0) throw refusal(named);
  const { id, key, status } = found;
  const cycles = await cyclesWith(work, projectId, { id, key, status, definition });
  const endless = cycles.filter(({ isBounded }) => !isBounded);
  if (endless.length === 0) return { found, definition, warnings: cycles.map(cycleText) };
  const details = endless.map((cycle) => ({ field: "triggers", message: loopText(cycle) }));
  throw refusal(details, "RULE_LOOP");
};

/** Validates a rule's published document again: the schema may have changed since it was saved. */
const checkDocument = (document: unknown): RuleDocument => {
  const parsed = RuleDocument.safeParse(document);
  if (!parsed.success) throw refusal(problemsOf(parsed.error));
  return parsed.data;
};
