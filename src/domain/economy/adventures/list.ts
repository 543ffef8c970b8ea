import { sql } from "kysely";
import { readCounted, type Work } from "../../kernel/work.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { containing } from "../../kernel/db.ts";
import { Definition } from "../definitions/definitions.ts";
import type { DraftStatus } from "../definitions/drafts.ts";

const DOCUMENT = sql`coalesce(draft, definition)`;

/** Orders of the list. */
export const ADVENTURE_ORDERS = {
  by: {
    sortOrder: sql`(${DOCUMENT} ->> 'sortOrder')::int`,
    key: sql`key`,
    name: sql`${DOCUMENT} ->> 'name'`,
    startsAt: sql`(${DOCUMENT} ->> 'startsAt')::timestamptz`,
    createdAt: sql`created_at`,
    updatedAt: sql`updated_at`,
  },
  usual: "asc",
} as const;

export type ListAdventures = PageQuery &
  Ordered<SortOf<typeof ADVENTURE_ORDERS>> & {
    /** Default: all but ARCHIVED. */
    status?: DraftStatus | undefined;
    season?: string | undefined;
    /** Those of which this quest is an item. */
    questKey?: string | undefined;
    /** Substring of the name or key, case-insensitive. */
    search?: string | undefined;
  };

/** The status of a row at a moment, as `draftStatusOf` decides. */
const statusAt = (now: Date) => sql`
  case when status <> 'ACTIVE' then status
    when phase in ('ENDED', 'PAUSED') then phase
    when (definition ->> 'endsAt')::timestamptz <= ${now.toISOString()}::timestamptz then 'ENDED'
    when (definition ->> 'startsAt')::timestamptz > ${now.toISOString()}::timestamptz then 'SCHEDULED'
    else 'ACTIVE' end`;

const hasItem = (questKey: string) => sql`${DOCUMENT} @> ${JSON.stringify({ items: [{ questKey }] })}::jsonb`;

/** Lists the adventures of a project. */
export const listAdventures = async (
  work: Work,
  projectId: string,
  query: ListAdventures,
): Promise<{ adventures: Definition[]; total: number }> => {
  const { status, season, questKey, search } = query;
  const like = search === undefined ? undefined : containing(search);
  const { rows, total } = await readCounted(
    work,
    (rest) => sql<{ id: string; total: number }>`
      select id, count(*) over () as total from definitions
      where project_id = ${projectId} and kind = 'adventure'
        and ${status === undefined ? sql`status <> 'ARCHIVED'` : sql`${statusAt(work.now)} = ${status}`}
        and ${season === undefined ? sql`true` : sql`${DOCUMENT} ->> 'season' = ${season}`}
        and ${questKey === undefined ? sql`true` : hasItem(questKey)}
        and ${like === undefined ? sql`true` : sql`(name ilike ${like} or key ilike ${like})`} ${rest}`,
    sql`order by ${orderBy(ADVENTURE_ORDERS, query, sql`key`)} limit ${query.limit} offset ${offsetOf(query)}`,
  );
  const ids = rows.map(({ id }) => id);
  const found = await work.em.find(Definition, { projectId, id: { $in: ids } }, { disableIdentityMap: true });
  const byId = new Map(found.map((one) => [one.id, one]));
  return { adventures: ids.map((id) => byId.get(id)!), total };
};
