import { sql } from "kysely";
import { pagesIn } from "../../kernel/cursor.ts";
import { inSlices, type Steps } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { DAY_MS, QUARTER_MS } from "./documents.ts";
import { gainsUntil } from "./gains.ts";
import { WHOLE_DAY } from "./roll-up-gains.ts";
import { eachSum } from "./sums.ts";

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

const nameOf = ({ day, metric, key }: Omit<SumRow, keyof Sums>): string => JSON.stringify([day, metric, key]);

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
      const name = nameOf(row);
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
    expected.set(nameOf(row), { ...row, byQuarter: row.amount });
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
