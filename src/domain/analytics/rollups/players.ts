import { type RawBuilder, sql } from "kysely";
import { countAtMost, type Gain, textList, withIndexes } from "../events.ts";
import type { Frame } from "../range.ts";
import { DAY_MS, eachActivePlayer, eachQuarter, eachTime, QUARTER_MS } from "./documents.ts";
import {
  type DocumentRow,
  eachPlayerOf,
  type Entries,
  type JudgedPlayer,
  type Reading,
} from "./each-player.ts";
import { eachSum, readDeleted, readGains, readGainsOf, WHOLE_DAY } from "./roll-up-gains.ts";
import type { Rolled } from "./rolled.ts";
import { localKey, type Work } from "../../kernel/work.ts";

/**
 * Stretches of time: the one at `i` is `[cutsMs[i], cutsMs[i + 1])`, the last one ends at `untilMs`.
 * `areCounted`: how many events there were in a stretch is of interest too, which is the default.
 */
export type Stretches = {
  cutsMs: readonly number[];
  untilMs: number;
  types?: readonly string[] | undefined;
  areCounted?: boolean | undefined;
  /** Players without a stretch are not judged, and of the others nobody asks when their first event was. */
  isOfActive?: boolean | undefined;
};

const QUARTERS_OF_DAY = DAY_MS / QUARTER_MS;

/** Quarters of an hour in which a stretch begins or ends: of each, days with all of their events are read. */
const SPLIT_MAX = 8;
/** No stretch, and more than one. */
const NONE = -1;
const SPLIT = -2;

/** Which stretch each quarter of an hour is part of. */
class Quarters {
  readonly first: number;
  readonly #stretches: Int32Array;
  readonly splitDays = new Set<number>();
  readonly #cutsMs: readonly number[];
  readonly #untilMs: number;
  splits = 0;

  constructor({ cutsMs, untilMs }: Stretches) {
    this.#cutsMs = cutsMs;
    this.#untilMs = untilMs;
    this.first = Math.floor(cutsMs[0]! / QUARTER_MS);
    const last = Math.ceil(Math.max(untilMs, cutsMs[0]!) / QUARTER_MS);
    this.#stretches = new Int32Array(last - this.first);
    const edges = [...cutsMs, untilMs].toSorted((a, b) => a - b);
    let [stretch, edge] = [NONE, 0];
    for (let i = 0; i < this.#stretches.length; i++) {
      const startMs = (this.first + i) * QUARTER_MS;
      while (stretch + 1 < cutsMs.length && cutsMs[stretch + 1]! <= startMs) stretch++;
      while (edge < edges.length && edges[edge]! <= startMs) edge++;
      const isSplit = edge < edges.length && edges[edge]! < startMs + QUARTER_MS;
      this.#stretches[i] = isSplit ? SPLIT : startMs >= untilMs ? NONE : stretch;
      if (!isSplit) continue;
      this.splits++;
      this.splitDays.add(Math.floor(startMs / DAY_MS));
    }
  }

  /** The stretch of a quarter by its number since 1970. */
  at(quarter: number): number {
    const place = quarter - this.first;
    return place < 0 || place >= this.#stretches.length ? NONE : this.#stretches[place]!;
  }

  /** The stretch that all quarters of a UTC day are part of, or of which none is; SPLIT: it is not one. */
  ofDay(day: number): number {
    if ((day + 1) * DAY_MS <= this.#cutsMs[0]! || day * DAY_MS >= this.#untilMs) return NONE;
    // Stretches are in the order of time: what is between two quarters of one is part of it too.
    const stretch = this.at(day * QUARTERS_OF_DAY);
    return stretch >= 0 && stretch === this.at((day + 1) * QUARTERS_OF_DAY - 1) ? stretch : SPLIT;
  }

  /** The stretch of a time. */
  of(ms: number): number {
    const stretch = this.at(Math.floor(ms / QUARTER_MS));
    if (stretch !== SPLIT) return stretch;
    if (ms < this.#cutsMs[0]! || ms >= this.#untilMs) return NONE;
    return countAtMost(this.#cutsMs, ms) - 1;
  }
}

/** Of all time: a question that cuts it more often than documents can tell apart reads events. */
export const areDivisible = (stretches: Stretches): boolean => new Quarters(stretches).splits <= SPLIT_MAX;

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
type TailGain = { metric: Gain; key: string; ms: number; amount: number };

/** Reads what the rollups do not know yet; undefined where there are none, or where it is too much. */
const readTail = async (work: Work, projectId: string): Promise<TailGain[] | undefined> => {
  const watermark = await readWatermark(work, projectId);
  if (watermark === undefined) return undefined;
  const events = sql`select u.event_id from uncounted_events u where u.project_id = ${projectId}::uuid`;
  const limit = TAIL_MAX + 1;
  const [fresh, reverted, deleted] = await withIndexes(work, async () => [
    await readGains(work, projectId, { after: watermark, limit }),
    await readGainsOf(work, projectId, { events, watermark, limit }),
    await readDeleted(work, projectId, { watermark, limit }),
  ]);
  if (fresh.length + reverted.length + deleted.length > TAIL_MAX) return undefined;
  return [...fresh.filter(({ counts }) => counts), ...reverted, ...deleted];
};

const TAILS = localKey("gains behind rollups", () => new Map<string, Promise<TailGain[] | undefined>>());

/** As `readTail`, once for all questions of this transaction. */
const tailOf = (work: Work, projectId: string): Promise<TailGain[] | undefined> => {
  const known = work.local.get(TAILS);
  const tail = known.get(projectId) ?? readTail(work, projectId);
  known.set(projectId, tail);
  return tail;
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
  const stretches = { ...given, untilMs: Math.min(given.untilMs, asOfMs) };
  const tail = areDivisible(stretches) ? await tailOf(work, projectId) : undefined;
  if (tail === undefined) return undefined;
  const sums = new Sums(stretches.cutsMs.length);
  const asking = { work, projectId, quarters: new Quarters(stretches), sums };
  for (const { metric, key, ms, amount } of tail) {
    const stretch = asking.quarters.of(ms);
    if (stretch >= 0) sums.of(metric, key)[stretch]! += amount;
  }
  await addDays(asking, stretches);
  await addSplit(asking, stretches);
  return sums.all;
};

/**
 * One player: when the first event ever was, and in which stretches there were how many events, if they are
 * counted.
 */
export type RolledPlayer = {
  who: JudgedPlayer["who"];
  firstMs: number;
  /** How many stretches there are: the arrays may be longer, and are the next player's then. */
  size: number;
  /** Ascending, each once. */
  stretches: Float64Array;
  counts: Int32Array;
};

const daysWithin = ({ cutsMs, untilMs }: Stretches): RawBuilder<unknown> =>
  sql`day between ${Math.floor(cutsMs[0]! / DAY_MS)}::int and ${Math.ceil(untilMs / DAY_MS)}::int`;

/** Reads when players were active: by quarters of an hour, where all types count, and by events otherwise. */
const readingOf = (
  stretches: Stretches & { areCounted: boolean },
  judge: (player: RolledPlayer) => void,
): Reading => {
  const { types, areCounted } = stretches;
  const quarters = new Quarters(stretches);
  const splitDays = `{${[...quarters.splitDays].join(",")}}`;
  const wanted = types && new Set(types);
  const byQuarters = ({ day, event_type: type, document }: DocumentRow, entries: Entries): void => {
    const firstQuarter = (day * DAY_MS) / QUARTER_MS;
    const whole = type === "" ? quarters.ofDay(day) : SPLIT;
    if (whole === NONE) return;
    if (whole !== SPLIT) eachActivePlayer(document, areCounted, (player, n) => entries.add(player, whole, n));
    else if (type === "")
      eachQuarter(document, (player, quarter, count) => {
        const stretch = quarters.at(firstQuarter + quarter);
        if (stretch >= 0) entries.add(player, stretch, count);
      });
    else
      eachTime(document, (player, ms) => {
        const at = day * DAY_MS + ms;
        if (quarters.at(Math.floor(at / QUARTER_MS)) !== SPLIT) return;
        const stretch = quarters.of(at);
        if (stretch >= 0) entries.add(player, stretch, 1);
      });
  };
  const byEvents = ({ day, document }: DocumentRow, entries: Entries): void =>
    eachTime(document, (player, ms) => {
      const stretch = quarters.of(day * DAY_MS + ms);
      if (stretch >= 0) entries.add(player, stretch, 1);
    });
  return {
    isOfActive: stretches.isOfActive,
    which: types
      ? sql`event_type in ${textList(types)} and event_type <> '' and ${daysWithin(stretches)}`
      : sql`(event_type = '' or day = any(${splitDays}::int[])) and ${daysWithin(stretches)}`,
    take: types ? byEvents : byQuarters,
    keyOf: ({ type, ms }) => {
      const stretch = wanted && !wanted.has(type) ? NONE : quarters.of(ms);
      return stretch >= 0 ? stretch : undefined;
    },
    judge: ({ who, firstMs, size, keys, counts }) =>
      judge({ who, firstMs, size: ascending(keys, counts, size), stretches: keys, counts }),
  };
};

/** Sorts stretches, and counts each once, where they are. Returns how many are left. */
const ascending = (keys: Float64Array, counts: Int32Array, size: number): number => {
  let isAscending = true;
  let isOnce = true;
  for (let i = 1; i < size; i++) {
    if (keys[i - 1]! > keys[i]!) isAscending = false;
    else if (keys[i - 1] === keys[i]) isOnce = false;
  }
  if (!isAscending) sortTogether(keys, counts, size);
  return isAscending && isOnce ? size : countOnce(keys, counts, size);
};

const sortTogether = (keys: Float64Array, counts: Int32Array, size: number): void => {
  // Both in one number: a stretch is below 2^21, a count below 2^31.
  for (let i = 0; i < size; i++) keys[i] = keys[i]! * 2 ** 31 + counts[i]!;
  keys.subarray(0, size).sort();
  for (let i = 0; i < size; i++) {
    counts[i] = keys[i]! % 2 ** 31;
    keys[i] = Math.floor(keys[i]! / 2 ** 31);
  }
};

/** Adds up equal neighbours. Returns how many are left. */
const countOnce = (keys: Float64Array, counts: Int32Array, all: number): number => {
  let size = 0;
  for (let i = 0; i < all; i++) {
    if (size > 0 && keys[size - 1] === keys[i]!) counts[size - 1]! += counts[i]!;
    else {
      keys[size] = keys[i]!;
      counts[size++] = counts[i]!;
    }
  }
  return size;
};

/** Judges all players with an event before `asOf`, by the stretches in which they were active. */
export const eachRolledPlayer = (
  work: Work,
  rolled: Rolled,
  stretches: Stretches,
  judge: (player: RolledPlayer) => void,
): Promise<void> => {
  const untilMs = Math.min(stretches.untilMs, rolled.frame.asOfMs);
  // What was taken back is subtracted from what there was.
  const areCounted = stretches.areCounted !== false || rolled.hasUncounted;
  return eachPlayerOf(work, rolled, readingOf({ ...stretches, untilMs, areCounted }, judge));
};

/** Calls `take` with the time of the first event ever of all players who had one before `asOf`. */
export const eachRolledFirst = (work: Work, rolled: Rolled, take: (firstMs: number) => void): Promise<void> =>
  eachPlayerOf(work, rolled, {
    which: sql`false`,
    take: () => undefined,
    keyOf: () => undefined,
    judge: ({ firstMs }) => take(firstMs),
  });

/** The time of the first event of all players; undefined without any. */
export const findFirstTime = async (work: Work, rolled: Rolled): Promise<number | undefined> => {
  let firstMs = Infinity;
  await eachRolledFirst(work, rolled, (ms) => void (firstMs = Math.min(firstMs, ms)));
  return firstMs === Infinity ? undefined : firstMs;
};
