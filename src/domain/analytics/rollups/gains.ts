import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { type Gain, GAIN_ROWS } from "../effects.ts";

/** What a player gained: when, in ms, and how much. */
export type GainRow = {
  id: string;
  metric: Gain;
  key: string;
  ms: number;
  amount: number;
  /** Whether it counts: its event was not reverted, if it is of one. */
  counts: boolean;
  /** Whether rollups that have come to it hold it: until they take that its event was reverted they do. */
  is_held: boolean;
};

/** Adds to rows `x` of gains the columns of a GainRow. */
const withTimes = (projectId: string, rows: RawBuilder<unknown>): RawBuilder<GainRow> => sql<GainRow>`
  select y.*, y.counts or exists (select 1 from uncounted_events u
      where u.project_id = ${projectId}::uuid and u.event_id = y.event_id) as is_held
  from (
    select x.id::text as id, x.metric, x.key, x.amount, x.event_id,
      not exists (select 1 from event_results r where r.project_id = ${projectId}::uuid
        and r.event_id = x.event_id and r.status = 'REVERTED') as counts,
      round(extract(epoch from coalesce(e.occurred_at, x.created_at)) * 1000)::float8 as ms
    from (${rows}) x
    left join tracked_events e on e.project_id = ${projectId}::uuid and e.id = x.event_id) y`;

/** All gains of a project with ids up to the watermark. */
export const gainsUntil = (projectId: string, watermark: string): RawBuilder<GainRow> =>
  withTimes(
    projectId,
    sql.join(
      GAIN_ROWS.map(({ rowsOf }) => sql`(${rowsOf(projectId, sql`l.id <= ${watermark}::uuid`)})`),
      sql` union all `,
    ),
  );

/** Reads the oldest gains with ids between two, both excluded, by id. */
export const readGains = async (
  { db }: Work,
  projectId: string,
  { after, until, limit }: { after: string; until?: string; limit: number },
): Promise<GainRow[]> => {
  const isBefore = until === undefined ? sql`` : sql`and l.id < ${until}::uuid`;
  const parts = GAIN_ROWS.map(({ rowsOf }) => {
    const rows = rowsOf(projectId, sql`l.id > ${after}::uuid ${isBefore}`);
    return sql`(${rows} order by l.id limit ${sql.lit(limit)})`;
  });
  const oldest = sql`${sql.join(parts, sql` union all `)} order by id limit ${sql.lit(limit)}`;
  const { rows } = await withTimes(projectId, oldest).execute(db);
  return rows.toSorted((a, b) => (a.id < b.id ? -1 : 1));
};

/** Reads gains up to the watermark of some events. @param events a query of event_id */
export const readGainsOf = async (
  { db }: Work,
  projectId: string,
  { events, watermark, limit }: { events: RawBuilder<unknown>; watermark: string; limit: number },
): Promise<GainRow[]> => {
  const parts = GAIN_ROWS.map(
    ({ rowsOf }) =>
      sql`(${rowsOf(projectId, sql`l.event_id in (${events}) and l.id <= ${watermark}::uuid`)})`,
  );
  const some = sql`${sql.join(parts, sql` union all `)} limit ${sql.lit(limit)}`;
  const { rows } = await withTimes(projectId, some).execute(db);
  return rows;
};

/** Gains that were deleted and that rollups may hold: what is told of one, by id. */
export type DeletedGain = Pick<GainRow, "id" | "metric" | "key" | "ms">;

export const readDeleted = async (
  { db }: Work,
  projectId: string,
  { watermark, limit }: { watermark: string; limit: number },
): Promise<DeletedGain[]> => {
  const { rows } = await sql<DeletedGain>`
    select gain_id::text as id, metric, key, round(extract(epoch from at) * 1000)::float8 as ms
    from uncounted_gains where project_id = ${projectId}::uuid and gain_id <= ${watermark}::uuid
    order by gain_id limit ${sql.lit(limit)}`.execute(db);
  return rows;
};
