import { conflict } from "../errors.ts";
import type { Json } from "../events.ts";
import type { RuleDocument } from "../rules/language/document.ts";
import { archiveRule, pauseRule, publishRule } from "../rules/lifecycle/publishing.ts";
import type { RuleStatus } from "../rules/rule.ts";
import { createRule, getRule, patchRule } from "../rules/rules.ts";
import type { Work } from "../work.ts";
import type { ConfigChange } from "./diff.ts";
import { type ConfigDocument } from "./document.ts";

type Step = { change: ConfigChange; given: { document: ConfigDocument }; actor: string };

/** Makes one rule what the document says, and publishes it where the document has it run. */
export const importRule = async (
  work: Work,
  projectId: string,
  { change, given, actor }: Step,
): Promise<void> => {
  const { key, action } = change;
  if (action === "ARCHIVE") {
    await archiveRule(work, projectId, key);
    return;
  }
  const { status, rule } = given.document.rules!.find((one) => one.rule.key === key)!;
  if (action === "CREATE") await createRule(work, projectId, rule, actor);
  else await changeDraft(work, projectId, rule);
  await work.em.flush();
  await bringTo(work, projectId, { key, status, actor });
};

const changeDraft = async (work: Work, projectId: string, rule: RuleDocument): Promise<void> => {
  const { draft, draftVersion } = await getRule(work, projectId, rule.key);
  const removed = Object.fromEntries(Object.keys(draft).map((field) => [field, null]));
  const patch = { ...removed, ...rule, draftVersion } as Json;
  await patchRule(work, projectId, rule.key, patch as never);
};

type Wanted = { key: string; status: RuleStatus; actor: string };

/** @throws DomainError CONFLICT RULE_PUBLISHED: a rule that was published once is never a DRAFT again */
const bringTo = async (work: Work, projectId: string, { key, status, actor }: Wanted): Promise<void> => {
  if (status === "DRAFT") return refusePublished(work, projectId, key);
  const mode = status === "SHADOW" ? "SHADOW" : "ACTIVE";
  await publishRule(work, projectId, key, { publishedBy: actor, changeNote: "Imported", mode });
  await work.em.flush();
  if (status === "PAUSED") await pauseRule(work, projectId, key);
};

const refusePublished = async (work: Work, projectId: string, key: string): Promise<void> => {
  const { publishedVersion } = await getRule(work, projectId, key);
  if (publishedVersion === null) return;
  throw conflict("RULE_PUBLISHED", "it is published here and cannot become a DRAFT; say PAUSED instead");
};
