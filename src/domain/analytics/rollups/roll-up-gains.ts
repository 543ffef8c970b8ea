import { type RawBuilder, sql } from "kysely";
import { type Gain, GAIN_ROWS } from "../events.ts";
import { DAY_MS, QUARTER_MS, STATEMENT_LENGTH } from "./documents.ts";
import { pagesIn } from "../../kernel/cursor.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import { tableTexts } from "../../kernel/json.ts";
import { inSlices, mapInSlices, type Steps } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";

/** What a player gained: when, in ms, and how much. */
type GainRow = {
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
const gainsUntil = (projectId: string, watermark: string): RawBuilder<GainRow> =>
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

/** Reads gains up to the watermark of some events, to be taken away. @param events a query of event_id */
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
  return rows.map((gain) => ({ ...gain, amount: -gain.amount }));
};

/** A gain that was deleted and that rollups may hold: what is told of one. */
type DeletedGain = Pick<GainRow, "id" | "metric" | "key" | "ms" | "amount">;

/** Reads gains that were deleted, to be taken away, by id. */
export const readDeleted = async (
  { db }: Work,
  projectId: string,
  { watermark, limit }: { watermark: string; limit: number },
): Promise<DeletedGain[]> => {
  const { rows } = await sql<DeletedGain>`
    select gain_id::text as id, metric, key, round(extract(epoch from at) * 1000)::float8 as ms,
      -1::float8 as amount
    from uncounted_gains where project_id = ${projectId}::uuid and gain_id <= ${watermark}::uuid
    order by gain_id limit ${sql.lit(limit)}`.execute(db);
  return rows;
};

/**
 * Sums by place, as bytes: for each place where there is something, in ascending order, how much larger its
 * number is than that of the one before, and the sum there. Numbers are of as many bytes as they need, as in
 * documents.ts, and up to 2^53 - 1.
 */

const EMPTY = new Uint8Array(0);

/** Reads the next number of a document: `at` is where. */
let at = 0;
const next = (bytes: Uint8Array): number => {
  let number = 0;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[at++]!;
    number += (byte & 127) * factor;
    if (byte < 128) return number;
  }
};

const push = (bytes: number[], number: number): void => {
  let rest = number;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  bytes.push(rest);
};

/** Calls `take` for each place of a document. It reads no documents itself. */
export const eachSum = (document: Uint8Array, take: (place: number, sum: number) => void): void => {
  at = 0;
  for (let place = 0; at < document.length;) {
    place += next(document);
    take(place, next(document));
  }
};

/** What all places of a document add up to. */
const totalOf = (document: Uint8Array): number => {
  let total = 0;
  eachSum(document, (_, sum) => void (total += sum));
  return total;
};

/** Returns a document with changes of places, which are added; without those of which nothing is left. */
const editedSums = (document: Uint8Array | undefined, changes: ReadonlyMap<number, number>): Uint8Array => {
  const bytes: number[] = [];
  const ordered = [...changes].toSorted(([a], [b]) => a - b);
  let [last, done] = [0, 0];
  const put = (place: number, sum: number): void => {
    if (sum <= 0) return;
    push(bytes, place - last);
    push(bytes, sum);
    last = place;
  };
  eachSum(document ?? EMPTY, (place, sum) => {
    for (; done < ordered.length && ordered[done]![0] < place; done++) put(...ordered[done]!);
    const isChanged = done < ordered.length && ordered[done]![0] === place;
    put(place, isChanged ? sum + ordered[done++]![1] : sum);
  });
  for (; done < ordered.length; done++) put(...ordered[done]!);
  return Uint8Array.from(bytes);
};

/**
 * Rollups of gains: of each UTC day, metric and key the sums by quarter of an hour, and of each quarter the
 * sums by ms, for questions that cut one. Nobody's in particular, since these questions ask for sums. They
 * hold what has ids up to a watermark of their own, and are told what stopped to count.
 */

/** Gains that one step adds; deleted ones that one step takes away. */
const GAINS_AT_ONCE = 20_000;
const DELETED_AT_ONCE = 2_000;
/** Gains of the events that one step takes away: each has some. */
const TAKEN_MAX = 1_000_000;
/** Documents that are in memory together, twice: those of a quarter may have megabytes. */
const DOCUMENTS_AT_ONCE = 100;

/** The number of the document with all quarters of a day. */
export const WHOLE_DAY = -1;

/** A document: `q` is the quarter of the day. */
type Place = { d: number; m: string; k: string; q: number };
type Edit = Place & { changes: Map<number, number> };
type DocumentRow = Place & { b: Uint8Array };

const nameOf = ({ d, m, k, q }: Place): string => JSON.stringify([d, m, k, q]);

class Edits {
  readonly all = new Map<string, Edit>();

  add(place: Place, moment: number, amount: number): void {
    const name = nameOf(place);
    let edit = this.all.get(name);
    if (!edit) this.all.set(name, (edit = { ...place, changes: new Map() }));
    edit.changes.set(moment, (edit.changes.get(moment) ?? 0) + amount);
  }
}

const readDocuments = async (
  { db }: Work,
  projectId: string,
  places: readonly Place[],
): Promise<Map<string, Uint8Array>> => {
  const keys = JSON.stringify(places.map(({ d, m, k, q }) => ({ d, m, k, q })));
  const { rows } = await sql<DocumentRow>`
    select a.day as d, a.metric as m, a.key as k, a.quarter as q, a.document as b from analytics_gains a
    join json_to_recordset(${keys}::json) as x(d int, m text, k text, q smallint)
      on a.day = x.d and a.metric = x.m and a.key = x.k and a.quarter = x.q
    where a.project_id = ${projectId}::uuid`.execute(db);
  return new Map(rows.map((row) => [nameOf(row), row.b]));
};

const writeDocuments = async ({ db }: Work, projectId: string, written: readonly DocumentRow[]) => {
  const rows = written.map(({ b, ...place }) => ({ ...place, b: Buffer.from(b).toString("base64") }));
  for (const text of tableTexts(rows, STATEMENT_LENGTH))
    await sql`
      with x as materialized (
        select * from json_to_recordset(${text}::json) as x(d int, m text, k text, q smallint, b text)),
      gone as (
        delete from analytics_gains a using x where a.project_id = ${projectId}::uuid and a.day = x.d
          and a.metric = x.m and a.key = x.k and a.quarter = x.q and x.b = '')
      insert into analytics_gains (project_id, quarter, day, metric, key, document)
      select ${projectId}::uuid, q, d, m, k, decode(b, 'base64') from x where b <> ''
      on conflict (project_id, quarter, day, metric, key) do update set document = excluded.document`.execute(
      db,
    );
};

/** Applies edits, a few at a time; `told` hears by how much the total of each changed. */
const applyEdits = async (
  work: Work,
  { projectId, edits }: { projectId: string; edits: Edits },
  told: (place: Place, by: number) => void = () => undefined,
): Promise<void> => {
  const all = [...edits.all.values()];
  for (let first = 0; first < all.length; first += DOCUMENTS_AT_ONCE) {
    const some = all.slice(first, first + DOCUMENTS_AT_ONCE);
    const found = await readDocuments(work, projectId, some);
    const written = await mapInSlices(some, ({ changes, ...place }): DocumentRow => {
      const old = found.get(nameOf(place));
      const b = editedSums(old, changes);
      told(place, totalOf(b) - (old ? totalOf(old) : 0));
      return { ...place, b };
    });
    await writeDocuments(work, projectId, written);
  }
};

/** A gain that is added, or taken away. */
type Change = Pick<GainRow, "metric" | "key" | "ms" | "amount">;

const write = async (work: Work, projectId: string, changes: readonly Change[]): Promise<void> => {
  const quarters = new Edits();
  for (const { metric: m, key: k, ms, amount } of changes) {
    const d = Math.floor(ms / DAY_MS);
    const q = Math.floor((ms - d * DAY_MS) / QUARTER_MS);
    quarters.add({ d, m, k, q }, ms - d * DAY_MS - q * QUARTER_MS, amount);
  }
  // A day has what its quarters have, whatever was found there to be taken away.
  const days = new Edits();
  await applyEdits(work, { projectId, edits: quarters }, ({ q, ...place }, by) => {
    if (by !== 0) days.add({ ...place, q: WHOLE_DAY }, q, by);
  });
  await applyEdits(work, { projectId, edits: days });
};

/** Undefined before the first step. */
const readWatermark = async ({ db }: Work, projectId: string): Promise<string | undefined> => {
  const { rows } = await sql<{ watermark: string | null }>`
    select gains_watermark::text as watermark from analytics_rollups
    where project_id = ${projectId}::uuid and halted_at is null`.execute(db);
  return rows[0]?.watermark ?? undefined;
};

const writeWatermark = async (
  { db, serverNow }: Work,
  projectId: string,
  watermark: string,
): Promise<void> => {
  await sql`
    insert into analytics_rollups (project_id, watermark, players, rolled_up_at, gains_watermark)
    values (${projectId}::uuid, ${NIL_ID}::uuid, 0, ${serverNow.toISOString()}, ${watermark}::uuid)
    on conflict (project_id) do update set gains_watermark = excluded.gains_watermark,
      rolled_up_at = excluded.rolled_up_at`.execute(db);
};

/** Documents without a watermark are what is left of those that somebody forgot who knew no gains. */
const forget = async ({ db }: Work, projectId: string): Promise<void> => {
  await sql`delete from analytics_gains where project_id = ${projectId}::uuid`.execute(db);
};

/** Takes deleted gains that the rollups hold, and all of those that they now never will. */
const takeDeleted = async (work: Work, projectId: string, watermark: string): Promise<DeletedGain[]> => {
  const held = await readDeleted(work, projectId, { watermark, limit: DELETED_AT_ONCE });
  const ids = `{${held.map(({ id }) => id).join(",")}}`;
  await sql`
    delete from uncounted_gains where project_id = ${projectId}::uuid
      and (gain_id > ${watermark}::uuid or gain_id = any(${ids}::uuid[]))`.execute(work.db);
  return held;
};

/**
 * Moves a project's rollups of gains on by one step, in the transaction of the step of its events.
 * @param taken events that stopped to count, of which nobody is told after this step
 * @param limit the id before which gains are added
 * @param settled the id before which nothing is committed any more
 * @returns whether there is more to do at once
 */
export const rollUpGains = async (
  work: Work,
  projectId: string,
  { taken, limit, settled }: { taken: readonly string[]; limit: string; settled: string },
): Promise<boolean> => {
  const known = await readWatermark(work, projectId);
  const watermark = known ?? NIL_ID;
  if (known === undefined) await forget(work, projectId);
  const events = sql`select unnest(${`{${taken.join(",")}}`}::uuid[])`;
  const reverted =
    taken.length === 0 ? [] : await readGainsOf(work, projectId, { events, watermark, limit: TAKEN_MAX });
  const deleted = await takeDeleted(work, projectId, watermark);
  const fresh = await readGains(work, projectId, { after: watermark, until: limit, limit: GAINS_AT_ONCE });
  await write(work, projectId, [...fresh.filter((gain) => gain.is_held), ...reverted, ...deleted]);
  const isMore = fresh.length === GAINS_AT_ONCE;
  const reached = [watermark, fresh.at(-1)?.id ?? watermark, isMore ? watermark : settled].toSorted().at(-1)!;
  if (reached > watermark || known === undefined) await writeWatermark(work, projectId, reached);
  return isMore || deleted.length === DELETED_AT_ONCE;
};

/** Something that the rollups say otherwise than what is stored. */
export type Difference = { day: number | null; eventType: string; what: string };

/** Documents of the first page: nobody knows how large they are. */
const FIRST_DOCUMENTS = 10;
/** Sums of amounts times ms are compared by what is left of them: none is larger than 2^53. */
const LEFT = 2 ** 25;

/** What is compared of a day: sums that no other gains have but by chance. */
type Sums = {
  amount: number;
  /** Amounts times the quarters of the day. */
  quarters: number;
  /** Amounts times ms of the day, and what is left of that. */
  times: number;
  /** As `amount`, as the documents of quarters have it. */
  byQuarter: number;
};

type SumRow = { day: number; metric: string; key: string } & Omit<Sums, "byQuarter">;

type Row = { day: number; quarter: number; metric: string; key: string; document: Uint8Array };

const gainName = ({ day, metric, key }: Omit<SumRow, keyof Sums>): string =>
  JSON.stringify([day, metric, key]);

const readExpected = async ({ db }: Work, projectId: string): Promise<SumRow[]> => {
  const state = await sql<{ watermark: string | null }>`
    select gains_watermark::text as watermark from analytics_rollups
    where project_id = ${projectId}::uuid`.execute(db);
  const watermark = state.rows[0]?.watermark;
  if (!watermark) return [];
  const { rows } = await sql<SumRow>`
    select day, metric, key, sum(amount)::float8 as amount,
      sum(amount * floor(ms / ${sql.lit(QUARTER_MS)}))::float8 as quarters,
      (sum(amount::numeric * ms::numeric) % ${sql.lit(LEFT)})::float8 as times
    from (
      select metric, key, amount, floor(ms / ${sql.lit(DAY_MS)})::int as day,
        ms - floor(ms / ${sql.lit(DAY_MS)}) * ${sql.lit(DAY_MS)} as ms
      from (
        select metric, key, ms, amount from (${gainsUntil(projectId, watermark)}) g where g.is_held
        union all
        select metric, key, round(extract(epoch from at) * 1000)::float8, 1 from uncounted_gains
        where project_id = ${projectId}::uuid and gain_id <= ${watermark}::uuid) x) y
    group by 1, 2, 3`.execute(db);
  return rows;
};

const noSums = (): Sums => ({ amount: 0, quarters: 0, times: 0, byQuarter: 0 });

function* addSums(sums: Sums, { quarter, document }: Row): Steps<void> {
  if (quarter === WHOLE_DAY)
    eachSum(document, (place, sum) => {
      sums.amount += sum;
      sums.quarters += sum * place;
    });
  else
    eachSum(document, (place, sum) => {
      sums.byQuarter += sum;
      sums.times = (sums.times + (sum % LEFT) * (quarter * QUARTER_MS + place)) % LEFT;
    });
  yield;
}

const readFound = async (work: Work, projectId: string) => {
  const found = new Map<string, Sums>();
  let documents = 0;
  const pages = await pagesIn<Row>(
    work,
    sql`select day, quarter, metric, key, document from analytics_gains
      where project_id = ${projectId}::uuid`,
    FIRST_DOCUMENTS,
  );
  for (let rows = await pages.next(); rows.length > 0; rows = await pages.next())
    for (const row of rows) {
      const name = gainName(row);
      const sums = found.get(name) ?? noSums();
      found.set(name, sums);
      await inSlices(addSums(sums, row));
      documents++;
    }
  return { found, documents };
};

/**
 * Holds a project's rollups of gains against what is stored, up to their watermark. The transaction must see
 * one snapshot. Level-ups that retention has dropped are missing: of days with such, rollups know more.
 */
export const verifyGains = async (
  work: Work,
  projectId: string,
): Promise<{ documents: number; differences: Difference[] }> => {
  const { found, documents } = await readFound(work, projectId);
  const expected = new Map<string, Sums>();
  for (const row of await readExpected(work, projectId))
    expected.set(gainName(row), { ...row, byQuarter: row.amount });
  const names: readonly (keyof Sums)[] = ["amount", "quarters", "times", "byQuarter"];
  const differences: Difference[] = [];
  for (const name of new Set([...expected.keys(), ...found.keys()])) {
    const [has, should] = [found.get(name) ?? noSums(), expected.get(name) ?? noSums()];
    const wrong = names.find((one) => has[one] !== should[one]);
    if (wrong === undefined) continue;
    const [day, metric, key] = JSON.parse(name) as [number, string, string];
    differences.push({ day, eventType: key === "" ? metric : `${metric}:${key}`, what: WHAT[wrong] });
  }
  return { documents, differences };
};

const WHAT: Readonly<Record<keyof Sums, string>> = {
  amount: "amount",
  quarters: "quarters of an hour",
  times: "times",
  byQuarter: "amount by quarter of an hour",
};
