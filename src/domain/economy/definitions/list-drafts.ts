import { type RawBuilder, sql } from "kysely";
import { containing } from "../../kernel/db.ts";
import { offsetOf, orderBy, type Ordered, type Orders, type PageQuery } from "../../kernel/paging.ts";
import { readCounted, type Work } from "../../kernel/work.ts";
import { Definition } from "./definitions.ts";
import type { DraftStatus } from "./drafts.ts";

/** A definition as it is shown: with its unpublished edits. */
export const DOCUMENT = sql`coalesce(draft, definition)`;

/** Orders that lists of all kinds with drafts have. */
export const DRAFT_ORDERS = {
  sortOrder: sql`(${DOCUMENT} ->> 'sortOrder')::int`,
  key: sql`key`,
  name: sql`${DOCUMENT} ->> 'name'`,
  createdAt: sql`created_at`,
  updatedAt: sql`updated_at`,
} as const;

type DraftQuery = PageQuery & {
  /** Default: all but ARCHIVED. */
  status?: DraftStatus | undefined;
  /** Substring of the name or key, case-insensitive. */
  search?: string | undefined;
};

/** How definitions of a kind with drafts are listed; `F`: what else a query may ask for. */
export type DraftList<S extends string, F> = {
  kind: "quest" | "adventure";
  orders: Orders<S>;
  /** Fields of the definition that say when it runs. */
  span: { from: string; until: string };
  /** Returns conditions on a row; undefined ones are not asked for. */
  where(asked: F, projectId: string): (RawBuilder<unknown> | undefined)[];
};

/** Reads a page of the definitions of a kind with drafts. */
export const listDrafts = async <S extends string, F>(
  work: Work,
  projectId: string,
  query: DraftQuery & Ordered<S> & F,
  { kind, orders, span, where }: DraftList<S, F>,
): Promise<{ drafts: Definition[]; total: number }> => {
  const { status, search } = query;
  const at = sql`${work.now.toISOString()}::timestamptz`;
  // As `draftStatusOf` decides.
  const statusNow = sql`
    case when status <> 'ACTIVE' then status
      when phase in ('ENDED', 'PAUSED') then phase
      when (definition ->> ${span.until})::timestamptz <= ${at} then 'ENDED'
      when (definition ->> ${span.from})::timestamptz > ${at} then 'SCHEDULED'
      else 'ACTIVE' end`;
  const like = search === undefined ? undefined : containing(search);
  const conditions = [
    status === undefined ? sql`status <> 'ARCHIVED'` : sql`${statusNow} = ${status}`,
    like === undefined ? undefined : sql`(name ilike ${like} or key ilike ${like})`,
    ...where(query, projectId),
  ].filter((one) => one !== undefined);
  const { rows, total } = await readCounted(
    work,
    (rest) => sql<{ id: string; total: number }>`
      select id, count(*) over () as total from definitions
      where project_id = ${projectId} and kind = ${kind} and ${sql.join(conditions, sql` and `)} ${rest}`,
    sql`order by ${orderBy(orders, query, sql`key`)} limit ${query.limit} offset ${offsetOf(query)}`,
  );
  const ids = rows.map(({ id }) => id);
  const found = await work.em.find(Definition, { projectId, id: { $in: ids } }, { disableIdentityMap: true });
  const byId = new Map(found.map((one) => [one.id, one]));
  return { drafts: ids.map((id) => byId.get(id)!), total };
};
