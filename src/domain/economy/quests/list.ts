import { sql } from "kysely";
import type { Ordered, SortOf } from "../../kernel/paging.ts";
import type { Work } from "../../kernel/work.ts";
import { DOCUMENT, DRAFT_ORDERS, type DraftQuery, listDrafts } from "../definitions/list-drafts.ts";

/** Orders of the list. */
export const QUEST_ORDERS = { by: DRAFT_ORDERS, usual: "asc" } as const;

export type ListQuests = DraftQuery &
  Ordered<SortOf<typeof QUEST_ORDERS>> & {
    category?: string | undefined;
    tag?: string | undefined;
    /** Items of the adventure with this key, as it is published. */
    adventureKey?: string | undefined;
  };

const isItemOf = (projectId: string, adventureKey: string) => sql`exists (
  select 1 from definitions a
  where a.project_id = ${projectId} and a.kind = 'adventure' and a.key = ${adventureKey}
    and a.status = 'ACTIVE' and a.definition @> jsonb_build_object('items',
      jsonb_build_array(jsonb_build_object('questKey', definitions.key))))`;

/** Lists the quests of a project. */
export const listQuests = (work: Work, projectId: string, query: ListQuests) => {
  const { category, tag, adventureKey } = query;
  return listDrafts(work, projectId, query, {
    kind: "quest",
    orders: QUEST_ORDERS,
    span: { from: "availableFrom", until: "availableUntil" },
    where: [
      category === undefined ? undefined : sql`${DOCUMENT} ->> 'category' = ${category}`,
      tag === undefined ? undefined : sql`${DOCUMENT} -> 'tags' ? ${tag}`,
      adventureKey === undefined ? undefined : isItemOf(projectId, adventureKey),
    ],
  });
};
