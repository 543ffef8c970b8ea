import { sql } from "kysely";
import { tableTexts } from "../../kernel/json-text.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import { inSlices, mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { DAY_MS, QUARTER_MS, STATEMENT_LENGTH } from "./documents.ts";
import { type DeletedGain, type GainRow, readDeleted, readGains, readGainsOf } from "./gains.ts";
import { editedSums, totalOf } from "./sums.ts";

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

  add(place: Place, at: number, amount: number): void {
    const name = nameOf(place);
    let edit = this.all.get(name);
    if (!edit) this.all.set(name, (edit = { ...place, changes: new Map() }));
    edit.changes.set(at, (edit.changes.get(at) ?? 0) + amount);
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
  for (const text of await inSlices(tableTexts(rows, STATEMENT_LENGTH)))
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
type Change = Pick<GainRow, "metric" | "key" | "ms"> & { amount: number };

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
  await write(work, projectId, [
    ...fresh.filter((gain) => gain.is_held),
    ...reverted.map((gain) => ({ ...gain, amount: -gain.amount })),
    ...deleted.map((gain) => ({ ...gain, amount: -1 })),
  ]);
  const isMore = fresh.length === GAINS_AT_ONCE;
  const reached = [watermark, fresh.at(-1)?.id ?? watermark, isMore ? watermark : settled].toSorted().at(-1)!;
  if (reached > watermark || known === undefined) await writeWatermark(work, projectId, reached);
  return isMore || deleted.length === DELETED_AT_ONCE;
};
