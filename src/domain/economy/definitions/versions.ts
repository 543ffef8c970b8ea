import { sql } from "kysely";
import { readCounted } from "../../kernel/counting.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import type { Definition } from "./definition.ts";
import { shownTo } from "./secrets.ts";

/** A published version as the API shows it. */
export type ShownVersion = {
  version: number;
  definition: Json;
  publishedAt: string;
  /** Whether it is the version that runs. */
  isPublished: boolean;
};

type Owner = Pick<Definition, "id" | "projectId" | "kind" | "version">;
type Row = { version: number; definition: Json; published_at: Date | string };

/** Orders of the list. */
export const VERSION_ORDERS = { by: { version: sql`version` }, usual: "desc" } as const;

/** Lists the versions of a definition. */
export const listVersions = async (
  work: Work,
  { id, projectId, kind, version: current }: Owner,
  query: PageQuery & Ordered<SortOf<typeof VERSION_ORDERS>>,
): Promise<{ versions: ShownVersion[]; total: number }> => {
  const { rows, total } = await readCounted(
    work,
    (rest) => sql<Row & { total: string | number }>`
      select version, definition, published_at, count(*) over () as total from definition_versions
      where project_id = ${projectId} and definition_id = ${id} ${rest}`,
    sql`order by ${orderBy(VERSION_ORDERS, query, sql`version`)} limit ${query.limit} offset ${offsetOf(query)}`,
  );
  const versions = rows.map(({ version, definition, published_at }) => ({
    version,
    definition: shownTo(work.by?.caller, kind, definition),
    publishedAt: new Date(published_at).toISOString(),
    isPublished: version === current,
  }));
  return { versions, total };
};

/** @throws DomainError NOT_FOUND */
export const readVersion = async (
  { db }: Work,
  { id, projectId }: Pick<Owner, "id" | "projectId">,
  version: number,
): Promise<{ definition: Json }> => {
  const { rows } = await sql<{ definition: Json }>`
    select definition from definition_versions
    where project_id = ${projectId} and definition_id = ${id} and version = ${version}::bigint`.execute(db);
  if (!rows[0]) throw notFound(`version ${version}`);
  return rows[0];
};
