import { sql } from "kysely";
import { DOCUMENT, DRAFT_ORDERS, type DraftList } from "../definitions/list-drafts.ts";

type Filters = {
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

/** How quests are listed. */
export const questList: DraftList<keyof typeof DRAFT_ORDERS, Filters> = {
  kind: "quest",
  orders: { by: DRAFT_ORDERS, usual: "asc" },
  span: { from: "availableFrom", until: "availableUntil" },
  where: ({ category, tag, adventureKey }, projectId) => [
    category === undefined ? undefined : sql`${DOCUMENT} ->> 'category' = ${category}`,
    tag === undefined ? undefined : sql`${DOCUMENT} -> 'tags' ? ${tag}`,
    adventureKey === undefined ? undefined : isItemOf(projectId, adventureKey),
  ],
};
