import { sql } from "kysely";
import { readCounted, type Work } from "../../kernel/work.ts";
import type { DraftStatus } from "../definitions/drafts.ts";
import { Definition } from "../definitions/definitions.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { containing } from "../../kernel/db.ts";

const DOCUMENT = sql`coalesce(draft, definition)`;

/** Orders of the list. */
export const QUEST_ORDERS = {
  by: {
    sortOrder: sql`(${DOCUMENT} ->> 'sortOrder')::int`,
    key: sql`key`,
    name: sql`${DOCUMENT} ->> 'name'`,
    createdAt: sql`created_at`,
    updatedAt: sql`updated_at`,
  },
  usual: "asc",
} as const;

export type ListQuests = PageQuery &
  Ordered<SortOf<typeof QUEST_ORDERS>> & {
    /** Default: all but ARCHIVED. */
    status?: DraftStatus | undefined;
    category?: string | undefined;
    tag?: string | undefined;
    /** Items of the adventure with this key, as it is published. */
    adventureKey?: string | undefined;
    /** Substring of the name or key, case-insensitive. */
    search?: string | undefined;
  };

/** The status of a row at a moment, as `draftStatusOf` decides. */
const statusAt = (now: Date) => sql`
  case when status <> 'ACTIVE' then status
    when phase in ('ENDED', 'PAUSED') then phase
    when (definition ->> 'availableUntil')::timestamptz <= ${now.toISOString()}::timestamptz then 'ENDED'
    when (definition ->> 'availableFrom')::timestamptz > ${now.toISOString()}::timestamptz then 'SCHEDULED'
    else 'ACTIVE' end`;

const isItemOf = (projectId: string, adventureKey: string) => sql`exists (
  select 1 from definitions a
  where a.project_id = ${projectId} and a.kind = 'adventure' and a.key = ${adventureKey}
    and a.status = 'ACTIVE' and a.definition @> jsonb_build_object('items',
      jsonb_build_array(jsonb_build_object('questKey', definitions.key))))`;

/** Lists the quests of a project. */
export const listQuests = async (
  work: Work,
  projectId: string,
  query: ListQuests,
): Promise<{ quests: Definition[]; total: number }> => {
  const { status, category, tag, adventureKey, search } = query;
  const like = search === undefined ? undefined : containing(search);
  const { rows, total } = await readCounted(
    work,
    (rest) => sql<{ id: string; total: number }>`
      select id, count(*) over () as total from definitions
      where project_id = ${projectId} and kind = 'quest'
        and ${status === undefined ? sql`status <> 'ARCHIVED'` : sql`${statusAt(work.now)} = ${status}`}
        and ${category === undefined ? sql`true` : sql`${DOCUMENT} ->> 'category' = ${category}`}
        and ${tag === undefined ? sql`true` : sql`${DOCUMENT} -> 'tags' ? ${tag}`}
        and ${adventureKey === undefined ? sql`true` : isItemOf(projectId, adventureKey)}
        and ${like === undefined ? sql`true` : sql`(name ilike ${like} or key ilike ${like})`} ${rest}`,
    sql`order by ${orderBy(QUEST_ORDERS, query, sql`key`)} limit ${query.limit} offset ${offsetOf(query)}`,
  );
  const ids = rows.map(({ id }) => id);
  const found = await work.em.find(Definition, { projectId, id: { $in: ids } }, { disableIdentityMap: true });
  const byId = new Map(found.map((one) => [one.id, one]));
  return { quests: ids.map((id) => byId.get(id)!), total };
};
