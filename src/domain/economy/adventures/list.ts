import { sql } from "kysely";
import { DOCUMENT, DRAFT_ORDERS, type DraftList } from "../definitions/list-drafts.ts";

const by = { ...DRAFT_ORDERS, startsAt: sql`(${DOCUMENT} ->> 'startsAt')::timestamptz` };

type Filters = {
  season?: string | undefined;
  /** Those of which this quest is an item. */
  questKey?: string | undefined;
};

const hasItem = (questKey: string) => sql`${DOCUMENT} @> ${JSON.stringify({ items: [{ questKey }] })}::jsonb`;

/** How adventures are listed. */
export const adventureList: DraftList<keyof typeof by, Filters> = {
  kind: "adventure",
  orders: { by, usual: "asc" },
  span: { from: "startsAt", until: "endsAt" },
  where: ({ season, questKey }) => [
    season === undefined ? undefined : sql`${DOCUMENT} ->> 'season' = ${season}`,
    questKey === undefined ? undefined : hasItem(questKey),
  ],
};
