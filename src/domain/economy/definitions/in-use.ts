import { sql } from "kysely";
import { conflict } from "../../kernel/errors.ts";
import { mentionsOf } from "../../evaluation/language/mentions.ts";
import { loadPublished } from "../../progression/published-rules.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";

/** Maximum number of rules named in the message. */
const NAMED_MAX = 5;

/** A definition by its kind and key; a DRAFT is named by nothing that is published. */
type DefinitionName = { kind: string; key: string; status?: string };

/**
 * Refuses to archive a definition that running rules still name: they would fail or do nothing, unnoticed.
 * @throws DomainError CONFLICT: IN_USE, naming the rules
 */
export const refuseInUse = async (
  work: Work,
  projectId: string,
  definition: DefinitionName,
): Promise<void> => {
  (await createInUse(work, projectId))(definition);
  if (definition.kind === "quest" && definition.status !== "DRAFT")
    await refuseItem(work, projectId, definition.key);
};

/** Refuses to archive a quest of an adventure that has not ended: nobody could complete it any more. */
const refuseItem = async ({ db, now }: Work, projectId: string, questKey: string): Promise<void> => {
  const item = JSON.stringify({ items: [{ questKey }] });
  const { rows } = await sql<{ key: string }>`
    select key from definitions
    where project_id = ${projectId} and kind = 'adventure' and status = 'ACTIVE' and phase <> 'ENDED'
      and (definition ->> 'endsAt')::timestamptz > ${now.toISOString()}::timestamptz
      and definition @> ${item}::jsonb
    order by key limit ${NAMED_MAX}`.execute(db);
  if (rows.length === 0) return;
  const named = rows.map(({ key }) => key).join(", ");
  throw conflict("IN_USE", `adventures have it as an item: ${named}; end or change them first`);
};

/** Like `refuseInUse` for many definitions, reading the rules once. */
export const createInUse = async (
  work: Work,
  projectId: string,
): Promise<(definition: DefinitionName) => void> => {
  const users = new Map<string, Set<string>>();
  await mapInSlices(await loadPublished(work, projectId), (rule) => {
    for (const { kind, key } of mentionsOf(rule.definition)) {
      const name = `${kind} ${key}`;
      users.set(name, (users.get(name) ?? new Set()).add(rule.key));
    }
  });
  return ({ kind, key }) => {
    const rules = [...(users.get(`${kind} ${key}`) ?? [])];
    if (rules.length === 0) return;
    const more = rules.length > NAMED_MAX ? ` and ${rules.length - NAMED_MAX} more` : "";
    const named = rules.slice(0, NAMED_MAX).join(", ");
    throw conflict("IN_USE", `rules name it: ${named}${more}; pause or change them first`);
  };
};
