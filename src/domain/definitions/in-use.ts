import { conflict } from "../errors.ts";
import { mentionsOf } from "../rules/language/named.ts";
import { loadPublished } from "../rules/rules.ts";
import type { Work } from "../work.ts";

/** Rules named in the message. */
const NAMED_MAX = 5;

/**
 * A definition that rules which run still name stays: they would fail or do nothing, with nobody told.
 * @throws DomainError CONFLICT: IN_USE, naming the rules
 */
export const refuseInUse = async (
  work: Work,
  projectId: string,
  { kind, key }: { kind: string; key: string },
): Promise<void> => {
  const rules = (await loadPublished(work, projectId)).filter(({ definition }) =>
    mentionsOf(definition).some((mention) => mention.kind === kind && mention.key === key),
  );
  if (rules.length === 0) return;
  const named = rules.slice(0, NAMED_MAX).map((rule) => rule.key);
  const more = rules.length > NAMED_MAX ? ` and ${rules.length - NAMED_MAX} more` : "";
  throw conflict("IN_USE", `rules name it: ${named.join(", ")}${more}; pause or change them first`);
};
