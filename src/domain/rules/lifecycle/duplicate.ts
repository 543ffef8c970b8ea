import { KEY_MAX } from "../../evaluation/language/syntax.ts";
import { conflict } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { Rule, type ShownRule } from "../rule.ts";
import { createRule, findRule } from "../rules.ts";

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
