import { sql } from "kysely";
import type { Ordered, SortOf } from "../../kernel/paging.ts";
import type { Work } from "../../kernel/work.ts";
import { DOCUMENT, DRAFT_ORDERS, type DraftQuery, listDrafts } from "../definitions/list-drafts.ts";

/** Orders of the list. */
export const ADVENTURE_ORDERS = {
  by: { ...DRAFT_ORDERS, startsAt: sql`(${DOCUMENT} ->> 'startsAt')::timestamptz` },
  usual: "asc",
} as const;

export type ListAdventures = DraftQuery &
  Ordered<SortOf<typeof ADVENTURE_ORDERS>> & {
    season?: string | undefined;
    /** Those of which this quest is an item. */
    questKey?: string | undefined;
  };

const hasItem = (questKey: string) => sql`${DOCUMENT} @> ${JSON.stringify({ items: [{ questKey }] })}::jsonb`;

/** Lists the adventures of a project. */
export const listAdventures = (work: Work, projectId: string, query: ListAdventures) => {
  const { season, questKey } = query;
  return listDrafts(work, projectId, query, {
    kind: "adventure",
    orders: ADVENTURE_ORDERS,
    span: { from: "startsAt", until: "endsAt" },
    where: [
      season === undefined ? undefined : sql`${DOCUMENT} ->> 'season' = ${season}`,
      questKey === undefined ? undefined : hasItem(questKey),
    ],
  });
};
