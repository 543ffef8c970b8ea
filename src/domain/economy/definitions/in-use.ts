import { sql } from "kysely";
import { conflict } from "../../kernel/errors.ts";
import { mentionsOf } from "../../evaluation/language/document.ts";
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
  if (definition.status !== "DRAFT") await refuseItem(work, projectId, definition);
};

/**
 * Refuses to stop a quest of an adventure that has not ended: nobody could complete it any more.
 * @throws DomainError CONFLICT: IN_USE, naming the adventures
 */
export const refuseItem = async (
  work: Work,
  projectId: string,
  { kind, key }: DefinitionName,
): Promise<void> => {
  const adventures = kind === "quest" ? await adventuresOf(work, projectId, [key]) : new Map();
  const inUse = itemInUse(adventures.get(key));
  if (inUse) throw inUse;
};

/** Returns the error that a quest is an item of adventures that have not ended; undefined without any. */
export const itemInUse = (adventures: readonly string[] | undefined): Error | undefined => {
  if (!adventures) return undefined;
  const named = adventures.slice(0, NAMED_MAX).join(", ");
  return conflict("IN_USE", `adventures have it as an item: ${named}; end or change them first`);
};

/** Reads the adventures that have not ended of which quests are items, by key of the quest. */
export const adventuresOf = async (
  { db, now }: Work,
  projectId: string,
  questKeys: readonly string[],
): Promise<Map<string, string[]>> => {
  const { rows } = await sql<{ quest: string; keys: string[] }>`
    select i ->> 'questKey' as quest, json_agg(d.key order by d.key) as keys
    from definitions d cross join lateral jsonb_array_elements(d.definition -> 'items') i
    where d.project_id = ${projectId} and d.kind = 'adventure' and d.status = 'ACTIVE'
      and d.phase <> 'ENDED'
      and (d.definition ->> 'endsAt')::timestamptz > ${now.toISOString()}::timestamptz
      and i ->> 'questKey' in (select jsonb_array_elements_text(${JSON.stringify(questKeys)}::jsonb))
    group by 1`.execute(db);
  return new Map(rows.map(({ quest, keys }) => [quest, keys]));
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
