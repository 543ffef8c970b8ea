import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { DAY_MS, eachActivePlayer, eachQuarter, eachTime, QUARTER_MS } from "./documents.ts";
import { type DocumentRow, eachPlayerOf, type JudgedPlayer, type Reading } from "./each-player.ts";
import type { Entries } from "./entries.ts";
import { NONE, Quarters, SPLIT, type Stretches } from "./quarters.ts";
import type { Rolled } from "./rolled.ts";

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
    which: types
      ? sql`event_type in (select json_array_elements_text(${JSON.stringify(types)}::json))
          and event_type <> '' and ${daysWithin(stretches)}`
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
export const eachFirstTime = (work: Work, rolled: Rolled, take: (firstMs: number) => void): Promise<void> =>
  eachPlayerOf(work, rolled, {
    which: sql`false`,
    take: () => undefined,
    keyOf: () => undefined,
    judge: ({ firstMs }) => take(firstMs),
  });
