import { LockMode } from "@mikro-orm/core";
import { audit } from "../../accounts/audit/audit.ts";
import { changeRunning, checkSize } from "../../economy/definitions/running.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import { KEY_MAX } from "../../evaluation/language/syntax.ts";
import { actorOf } from "../../kernel/caller.ts";
import { conflict, DomainError } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { RULE_MAX_BYTES } from "../../kernel/limits.ts";
import { bytesOf } from "../../kernel/hostile-json.ts";
import { changeConfig, type Work } from "../../kernel/work.ts";
import { addVersion } from "./publishing.ts";
import { createRule, findRule, presentRules, Rule, RuleVersion, type ShownRule } from "../rules.ts";

const NAME_MAX = 255;
/** Maximum number of copies of one rule with a generated key. */
const COPIES_MAX = 1_000;

/** Returns a free key: the rule's own with `-copy`, `-copy-2` and so on. */
const freeKey = async ({ em }: Work, { projectId, key }: Rule): Promise<string> => {
  const candidates = Array.from({ length: COPIES_MAX }, (_, i) => {
    const ending = i === 0 ? "-copy" : `-copy-${i + 1}`;
    return `${key.slice(0, KEY_MAX - ending.length)}${ending}`;
  });
  const taken = await em.find(Rule, { projectId, key: { $in: candidates } }, { fields: ["key"] });
  const names = new Set(taken.map((rule) => rule.key));
  const free = candidates.find((candidate) => !names.has(candidate));
  if (free === undefined) throw conflict("KEY_TAKEN", `there are ${COPIES_MAX} copies; give this one a key`);
  return free;
};

/**
 * Creates a DRAFT from a rule's draft; an archived one can be copied too.
 * @throws DomainError NOT_FOUND; CONFLICT: KEY_TAKEN, RULE_LIMIT
 */
export const duplicateRule = async (
  work: Work,
  projectId: string,
  ref: string,
  { key, name, createdBy }: { key?: string | undefined; name?: string | undefined; createdBy: string },
): Promise<ShownRule> => {
  const rule = await findRule(work, projectId, ref);
  const copy = {
    ...structuredClone(rule.draft),
    key: key ?? (await freeKey(work, rule)),
    name: name ?? `${rule.name.slice(0, NAME_MAX - " (copy)".length)} (copy)`,
  };
  return createRule(work, projectId, copy, createdBy);
};

/** Gap between two neighbours, so that a rule can be inserted by hand. */
const PRIORITY_STEP = 10;
const PRIORITY_MAX = 1_000;
const PRIORITY_MIN = -1_000;
/** Number of rules that fit into the range of priorities. */
export const ORDER_MAX = (PRIORITY_MAX - PRIORITY_MIN) / PRIORITY_STEP + 1;

/**
 * Gives rules the order of `refs` (ids or keys), the first one runs first: priorities are rewritten in steps
 * of 10, in drafts and, as a further version, in what is published. Rules that are not named keep theirs. All
 * or nothing.
 * @throws DomainError VALIDATION_ERROR: a rule that is unknown or named twice, TOO_LARGE with its new
 * priority; CONFLICT: INVALID_STATE for an archived one, RULE_LIMIT
 */
export const orderRules = async (
  work: Work,
  projectId: string,
  refs: readonly string[],
): Promise<ShownRule[]> => {
  await changeConfig(work, projectId);
  const rules = await findInOrder(work, projectId, refs);
  // Loads the published versions into the unit of work, with one statement.
  await presentRules(work, rules);
  const first = Math.min(PRIORITY_MAX, PRIORITY_STEP * rules.length);
  await changeRunning(work, { projectId, reason: "RULE_LIMIT" }, async () => {
    for (const [place, rule] of rules.entries())
      await prioritise(work, rule, { field: `ids.${place}`, priority: first - PRIORITY_STEP * place });
  });
  await auditOrder(work, projectId, rules);
  return presentRules(work, rules);
};

const findInOrder = async ({ em }: Work, projectId: string, refs: readonly string[]): Promise<Rule[]> => {
  const found = await em.find(
    Rule,
    { projectId, $or: [{ key: { $in: [...refs] } }, { id: { $in: refs.filter(isId) } }] },
    // In a fixed order, to prevent deadlocks between two requests.
    { lockMode: LockMode.PESSIMISTIC_WRITE, orderBy: { id: "asc" } },
  );
  const byRef = new Map(found.flatMap((rule) => [[rule.key, rule] as const, [rule.id, rule] as const]));
  const seen = new Set<Rule>();
  const details = refs.flatMap((ref, i) => {
    const rule = byRef.get(ref);
    const message = rule ? (seen.has(rule) ? "is named twice" : undefined) : "there is no such rule";
    if (rule) seen.add(rule);
    return message === undefined ? [] : [{ field: `ids.${i}`, message: `${ref}: ${message}` }];
  });
  const [problem] = details;
  if (problem) throw new DomainError("VALIDATION_ERROR", `${problem.field}: ${problem.message}`, { details });
  const archived = found.find(({ status }) => status === "ARCHIVED");
  if (archived) throw conflict("INVALID_STATE", `the rule ${archived.key} is archived`);
  return refs.map((ref) => byRef.get(ref)!);
};

type PriorityField = { field: string; priority: number };

/**
 * Returns a document with another priority. One that exceeds the size limit already may stay, but not grow.
 */
const placed = (document: RuleDocument, { field, priority }: PriorityField): RuleDocument => {
  const changed = { ...document, priority };
  if (bytesOf(changed) > bytesOf(document)) checkSize(field, changed, RULE_MAX_BYTES);
  return changed;
};

const prioritise = async (work: Work, rule: Rule, place: PriorityField): Promise<void> => {
  const { priority } = place;
  if (rule.draft.priority !== priority) {
    rule.draft = placed(rule.draft, place);
    rule.draftVersion++;
    rule.updatedAt = work.now;
  }
  if (rule.publishedVersion == null) return;
  const { definition } = await work.em.findOneOrFail(RuleVersion, {
    ruleId: rule.id,
    version: rule.publishedVersion,
  });
  if (definition.priority === priority) return;
  const publishedBy = work.by ? actorOf(work.by.caller) : "system";
  const changed = { definition: placed(definition, place), changeNote: "Put in order", publishedBy };
  addVersion(work, rule, changed);
};

const auditOrder = async (work: Work, projectId: string, rules: readonly Rule[]): Promise<void> => {
  const caller = work.by?.caller;
  if (caller?.kind !== "user" && caller?.kind !== "key") return;
  const data = { projectId, keys: rules.map(({ key }) => key) };
  const target = { type: "project", id: projectId };
  await audit(work, { action: "rule.ordered", target, tenantId: caller.tenantId, data });
};
