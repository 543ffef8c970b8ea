import { type RawBuilder, sql } from "kysely";
import { DomainError } from "../kernel/errors.ts";
import { inSlices, type Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";

/**
 * Players' histories as questions need them: the database packs what a player did into one value, and plain
 * loops judge one player after the other. Nothing of a player is kept behind his turn.
 */

/** Events of a player that are held at once, and those that one question reads. */
export const PLAYER_EVENTS_MAX = 250_000;
export const QUESTION_EVENTS_MAX = 20_000_000;
/** As above of a player, where nothing but when they were is read. */
const PLAYER_STRETCHES_MAX = 4_000_000;
/** Bytes of a player's values of a breakdown; as JSON they may be six times as many. */
export const PLAYER_VALUES_MAX_BYTES = 1024 * 1024;
/** Players per statement at first, at most, at most with values, and the bytes that should come at once. */
const FIRST_ROWS = 100;
const ROWS_MAX = 5_000;
const ROWS_WITH_VALUES_MAX = 50;
const BYTES_AT_ONCE = 4 * 1024 * 1024;

/** Bits of an event that are marks; its time is above them. */
const MARK_BITS = 14;
const MARK_MASK = (1 << MARK_BITS) - 1;
/** What one of the upper 32 bits of a packed event is worth, in ms. */
const HIGH_MS = 2 ** (32 - MARK_BITS);

/** Events of one player by time. Bit i of `marks` says whether the event is what the question calls i. */
export type PlayerEvents = {
  size: number;
  /** In ms. */
  at: Float64Array;
  marks: Uint16Array;
  /** The breakdown's values that were asked for, in the order of their events. */
  values: readonly (string | null)[];
};

/** `playerId`: null unless it is asked for. */
type Row = { packed: string | null; values: string | null; size: number; playerId: string | null };

const tooMany = (message: string): DomainError => new DomainError("VALIDATION_ERROR", message);

/** Reads the rows of a query through a cursor, as many at a time as are few enough bytes. */
const eachRow = async <R extends Row>(
  { db }: Work,
  { query, most = ROWS_MAX }: { query: RawBuilder<unknown>; most?: number },
  take: (row: R) => Steps<void>,
): Promise<void> => {
  await sql`declare histories no scroll cursor for ${query}`.execute(db);
  for (let count = Math.min(FIRST_ROWS, most); ;) {
    const { rows } = await sql<R>`fetch forward ${sql.lit(count)} from histories`.execute(db);

    await inSlices(takeAll(rows, take));
    if (rows.length < count) break;
    const bytes = rows.reduce((largest, row) => Math.max(largest, bytesOf(row)), 1);
    count = Math.max(1, Math.min(2 * count, most, Math.floor(BYTES_AT_ONCE / bytes)));
  }
  await sql`close histories`.execute(db);
};

const bytesOf = ({ packed, values }: Row): number => (packed?.length ?? 0) + (values?.length ?? 0);

function* takeAll<R>(rows: readonly R[], take: (row: R) => Steps<void>): Steps<void> {
  for (const row of rows) {
    yield* take(row);
    yield;
  }
}

/** Counts what a question has read. @throws DomainError VALIDATION_ERROR beyond the limits */
class Reading {
  #events = 0;

  packed({ packed, size }: Row, most: number): Buffer {
    this.#events += size;
    if (packed === null)
      throw tooMany(
        `A player has more than ${most.toLocaleString("en")} of these events: take a shorter range`,
      );
    if (this.#events > QUESTION_EVENTS_MAX)
      throw tooMany(
        `These are more than ${QUESTION_EVENTS_MAX.toLocaleString("en")} events: take a shorter range`,
      );
    return Buffer.from(packed, "base64");
  }
}

type PackedQuery = {
  /** Columns player_id, at, id, marks (int), and value (text) if `values` is given. */
  events: RawBuilder<unknown>;
  /** Events before it are only seen by `having`. In ms. */
  fromMs: number;
  /** Condition on the group of a player's events `r`. */
  having: RawBuilder<unknown>;
  /** Of which events `r` the values are read: of all in the order of times, or of the first one alone. */
  values?: { where: RawBuilder<unknown>; isFirstOnly: boolean } | undefined;
  /** Equal times are in the order of ids, as they came in. */
  isInOrder: boolean;
  /** Whose events they are is read too. */
  isNamed: boolean;
};

const nameOf = (isNamed: boolean): RawBuilder<unknown> =>
  isNamed ? sql`r.player_id::text as "playerId"` : sql`null as "playerId"`;

const packedQuery = ({
  events,
  fromMs,
  having,
  values,
  isInOrder,
  isNamed,
}: PackedQuery): RawBuilder<unknown> => {
  const base = sql`${fromMs}::float8`;
  const isRead = sql`filter (where r.at >= ${new Date(fromMs).toISOString()}::timestamptz)`;
  // The groups take their rows in the order of a sorted subquery.
  const source = isInOrder ? sql`select * from (${events}) r order by player_id, at, id` : events;
  const one = sql`int8send(((round(date_part('epoch', r.at) * 1000) - ${base})::int8
    << ${sql.lit(MARK_BITS)}) | r.marks::int8)`;
  return sql`
    select case when count(*) ${isRead} <= ${sql.lit(PLAYER_EVENTS_MAX)}
        then encode(coalesce(string_agg(${one}, '') ${isRead}, ''), 'base64') end as packed,
      (count(*) ${isRead})::float8 as size, ${values ? valuesOf(values) : sql`null`} as values,
      ${nameOf(isNamed)}
    from (${values ? measured(source, values) : source}) r group by r.player_id having ${having}`;
};

/** What a value takes beside its text. */
const VALUE_BYTES = 3;

/** Adds to events how many bytes their values and those before take: an aggregate has no limit itself. */
const measured = (source: RawBuilder<unknown>, { where }: NonNullable<PackedQuery["values"]>) => sql`
  select r.*, coalesce(
    sum(coalesce(octet_length(r.value), 0) + ${sql.lit(VALUE_BYTES)}) filter (where ${where})
      over (partition by r.player_id order by r.at, r.id rows unbounded preceding), 0) as bytes
  from (${source}) r`;

/** The values as a JSON list; an empty text where they are too many. */
const valuesOf = ({ where, isFirstOnly }: NonNullable<PackedQuery["values"]>): RawBuilder<unknown> => {
  const most = sql.lit(PLAYER_VALUES_MAX_BYTES);
  const few = sql`filter (where ${where} and r.bytes <= ${most})`;
  if (isFirstOnly) return sql`json_build_array((array_agg(r.value) ${few})[1])::text`;
  return sql`case when max(r.bytes) filter (where ${where}) > ${most} then ''
    else (json_agg(r.value) ${few})::text end`;
};

/** Unpacks events; sorts them by time unless the database has. */
const unpack = (bytes: Buffer, fromMs: number, isInOrder: boolean): Omit<PlayerEvents, "values"> => {
  bytes.swap64();
  const size = bytes.length / 8;
  const copy = new Uint8Array(bytes.length);
  copy.set(bytes);
  if (!isInOrder && size > 1) new BigInt64Array(copy.buffer).sort();
  const halves = new Uint32Array(copy.buffer);
  const at = new Float64Array(size);
  const marks = new Uint16Array(size);
  for (let i = 0; i < size; i++) {
    const low = halves[2 * i]!;
    at[i] = fromMs + halves[2 * i + 1]! * HIGH_MS + (low >>> MARK_BITS);
    marks[i] = low & MARK_MASK;
  }
  return { size, at, marks };
};

const readValues = ({ values }: Row): (string | null)[] => {
  if (values === "") throw tooMany("A player has too many values of the breakdown: take a shorter range");
  return values === null ? [] : (JSON.parse(values) as (string | null)[]);
};

/**
 * Reads players' events, one player after the other in no order.
 * @throws DomainError VALIDATION_ERROR for more events than a question, or one player of it, may have
 */
export const eachPlayer = async (
  work: Work,
  query: PackedQuery,
  judge: (player: PlayerEvents, playerId: string | null) => Steps<void>,
): Promise<void> => {
  const reading = new Reading();
  const asked = { query: packedQuery(query), ...(query.values ? { most: ROWS_WITH_VALUES_MAX } : {}) };
  await eachRow(work, asked, function* (row) {
    const events = unpack(reading.packed(row, PLAYER_EVENTS_MAX), query.fromMs, query.isInOrder);
    const values = readValues(row);
    yield* judge({ ...events, values }, row.playerId);
  });
};

/** A player with when the first of all events was, and the stretches in which he did something. */
export type PlayerStretches = {
  who: string;
  firstMs: number;
  size: number;
  /** Ascending, each once. */
  stretches: Float64Array;
  /** By place: how many events there were. */
  counts: Int32Array;
};

/** Counts numbers that ascend. */
const countRuns = (numbers: Int16Array): Pick<PlayerStretches, "size" | "stretches" | "counts"> => {
  const stretches = new Float64Array(numbers.length);
  const counts = new Int32Array(numbers.length);
  let size = 0;
  for (const number of numbers) {
    if (size === 0 || stretches[size - 1] !== number) stretches[size++] = number;
    counts[size - 1]! += 1;
  }
  return { size, stretches, counts };
};

/**
 * Reads the stretches of time in which each player did something, one player after the other in no order.
 * @param events a query with the columns player_id, at and c: the number of a stretch, up to 32767, or -1
 * @param sinceMs players with an earlier event are left out
 */
export const eachPlayerStretches = async (
  work: Work,
  { events, sinceMs }: { events: RawBuilder<unknown>; sinceMs: number | undefined },
  judge: (player: PlayerStretches) => void,
): Promise<void> => {
  const reading = new Reading();
  // Of the same numbers, sorting some here is cheaper than finding the different ones of all players there.
  // With an offset, the number of an event is computed once, and not for each aggregate.
  const query = sql`
    select case when count(*) filter (where r.c >= 0) <= ${sql.lit(PLAYER_STRETCHES_MAX)}
        then encode(coalesce(string_agg(int2send(r.c::int2), '') filter (where r.c >= 0), ''), 'base64')
        end as packed,
      (count(*) filter (where r.c >= 0))::float8 as size, null as values, r.player_id::text as "playerId",
      round(extract(epoch from min(r.at)) * 1000)::float8 as "firstMs"
    from (${events} offset 0) r group by r.player_id
    ${sinceMs === undefined ? sql`` : sql`having min(r.at) >= ${new Date(sinceMs).toISOString()}::timestamptz`}`;
  await eachRow<Row & { playerId: string; firstMs: number }>(work, { query }, function* (row) {
    const bytes = reading.packed(row, PLAYER_STRETCHES_MAX).swap16();
    const numbers = new Int16Array(new Uint8Array(bytes).buffer).toSorted();
    judge({ who: row.playerId, firstMs: row.firstMs, ...countRuns(numbers) });
    yield;
  });
};
