import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import type { Gain } from "../effects.ts";
import { withIndexes } from "../indexes.ts";
import type { Frame } from "../range.ts";
import { DAY_MS, QUARTER_MS } from "./documents.ts";
import { readDeleted, readGains, readGainsOf } from "./gains.ts";
import { areDivisible, Quarters, SPLIT, type Stretches } from "./quarters.ts";
import { WHOLE_DAY } from "./roll-up-gains.ts";
import { eachSum } from "./sums.ts";

/** Gains that the rollups lack, and such that they hold and that do not count: of more, all are read. */
const TAIL_MAX = 50_000;
/** Documents that are read at once. */
const ROWS_AT_ONCE = 5_000;

/** Sums by metric and key: for each stretch one. */
export type GainSum = { metric: Gain; key: string; sums: Float64Array };

class Sums {
  readonly #all = new Map<string, GainSum>();
  readonly #stretches: number;

  constructor(stretches: number) {
    this.#stretches = stretches;
  }

  of(metric: Gain, key: string): Float64Array {
    const name = `${metric} ${key}`;
    let found = this.#all.get(name);
    if (!found) this.#all.set(name, (found = { metric, key, sums: new Float64Array(this.#stretches) }));
    return found.sums;
  }

  get all(): GainSum[] {
    return [...this.#all.values()];
  }
}

const readWatermark = async ({ db }: Work, projectId: string): Promise<string | undefined> => {
  const { rows } = await sql<{ watermark: string | null; isolation: string }>`
    select gains_watermark::text as watermark, current_setting('transaction_isolation') as isolation
    from analytics_rollups where project_id = ${projectId}::uuid and halted_at is null`.execute(db);
  return rows[0]?.isolation === "repeatable read" ? (rows[0].watermark ?? undefined) : undefined;
};

type Asking = { work: Work; projectId: string; quarters: Quarters; sums: Sums };

/** Adds what the rollups do not know yet. Returns whether it was little enough. */
const addTail = async ({ work, projectId, quarters, sums }: Asking, watermark: string): Promise<boolean> => {
  const events = sql`select u.event_id from uncounted_events u where u.project_id = ${projectId}::uuid`;
  const limit = TAIL_MAX + 1;
  const [fresh, reverted, deleted] = await withIndexes(work, async () => [
    await readGains(work, projectId, { after: watermark, limit }),
    await readGainsOf(work, projectId, { events, watermark, limit }),
    await readDeleted(work, projectId, { watermark, limit }),
  ]);
  if (fresh.length + reverted.length + deleted.length > TAIL_MAX) return false;
  const add = (metric: Gain, key: string, { ms, amount }: { ms: number; amount: number }): void => {
    const stretch = quarters.of(ms);
    if (stretch >= 0) sums.of(metric, key)[stretch]! += amount;
  };
  for (const gain of fresh) if (gain.counts) add(gain.metric, gain.key, gain);
  for (const { metric, key, ms, amount } of reverted) add(metric, key, { ms, amount: -amount });
  for (const { metric, key, ms } of deleted) add(metric, key, { ms, amount: -1 });
  return true;
};

type Row = { day: number; quarter: number; metric: Gain; key: string; document: Uint8Array };

/** Reads documents in pages, each of which begins behind the last one. */
async function* pagesOf(work: Work, projectId: string, which: RawBuilder<unknown>): AsyncGenerator<Row[]> {
  const columns = sql`quarter, day, metric, key`;
  let last: Row | undefined;
  do {
    const isLater = last
      ? sql`and (${columns}) > (${last.quarter}::smallint, ${last.day}::int, ${last.metric}, ${last.key})`
      : sql``;
    const { rows }: { rows: Row[] } = await sql<Row>`
      select ${columns}, document from analytics_gains
      where project_id = ${projectId}::uuid and ${which} ${isLater}
      order by ${columns} limit ${sql.lit(ROWS_AT_ONCE)}`.execute(work.db);
    yield rows;
    last = rows.length === ROWS_AT_ONCE ? rows.at(-1) : undefined;
  } while (last);
}

const addDays = async ({ work, projectId, quarters, sums }: Asking, { cutsMs, untilMs }: Stretches) => {
  const [first, end] = [Math.floor(cutsMs[0]! / DAY_MS), Math.ceil(untilMs / DAY_MS)];
  const which = sql`quarter = ${sql.lit(WHOLE_DAY)} and day >= ${first}::int and day < ${end}::int`;
  for await (const rows of pagesOf(work, projectId, which))
    for (const { day, metric, key, document } of rows) {
      const own = sums.of(metric, key);
      const firstQuarter = (day * DAY_MS) / QUARTER_MS;
      eachSum(document, (quarter, sum) => {
        const stretch = quarters.at(firstQuarter + quarter);
        if (stretch >= 0) own[stretch]! += sum;
      });
    }
};

/** Adds quarters of an hour in which a stretch begins or ends. */
const addSplit = async ({ work, projectId, quarters, sums }: Asking, { cutsMs, untilMs }: Stretches) => {
  const numbers = new Set([...cutsMs, untilMs].map((ms) => Math.floor(ms / QUARTER_MS)));
  const split = [...numbers].filter((number) => quarters.at(number) === SPLIT);
  const dayOf = (number: number): number => Math.floor((number * QUARTER_MS) / DAY_MS);
  for (const number of split) {
    const day = dayOf(number);
    const which = sql`day = ${day}::int and quarter = ${number - (day * DAY_MS) / QUARTER_MS}::smallint`;
    for await (const rows of pagesOf(work, projectId, which))
      for (const { metric, key, document } of rows) {
        const own = sums.of(metric, key);
        eachSum(document, (ms, sum) => {
          const stretch = quarters.of(number * QUARTER_MS + ms);
          if (stretch >= 0) own[stretch]! += sum;
        });
      }
  }
};

/**
 * Adds up gains by stretches of time, of one snapshot. Returns undefined where they have to be read from
 * where they are stored: there are no rollups yet, or they are far behind.
 */
export const sumRolledGains = async (
  work: Work,
  { projectId, asOfMs }: Frame,
  given: Stretches,
): Promise<GainSum[] | undefined> => {
  const watermark = await readWatermark(work, projectId);
  if (watermark === undefined) return undefined;
  const stretches = { ...given, untilMs: Math.min(given.untilMs, asOfMs) };
  if (!areDivisible(stretches)) return undefined;
  const sums = new Sums(stretches.cutsMs.length);
  const asking = { work, projectId, quarters: new Quarters(stretches), sums };
  if (!(await addTail(asking, watermark))) return undefined;
  await addDays(asking, stretches);
  await addSplit(asking, stretches);
  return sums.all;
};
