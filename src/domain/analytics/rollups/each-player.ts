import { type RawBuilder, sql } from "kysely";
import { textList } from "../events.ts";
import { CHUNK_BITS, CHUNK_PLAYERS, DAY_MS, eachTime, readFirsts } from "./documents.ts";
import type { Person, Rolled, TailEvent } from "./rolled.ts";
import { type Pages, pagesIn } from "../../kernel/cursor.ts";
import { DomainError } from "../../kernel/errors.ts";
import { inSlices, type Steps } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";

/** Entries of the players of a chunk that are held at once: of some hundred MiB. */
const ENTRIES_MAX = 1 << 23;

/** Events of the players of a chunk, in any order, and then by player. */
export class Entries {
  #players = new Int32Array(1 << 14);
  #keys = new Float64Array(1 << 14);
  #counts = new Int32Array(1 << 14);
  size = 0;
  readonly #starts = new Int32Array(CHUNK_PLAYERS + 1);
  keys = new Float64Array(0);
  counts = new Int32Array(0);

  /** Adds events; those of one player and key that follow one another are one entry. */
  add(player: number, key: number, count: number): void {
    const last = this.size - 1;
    if (last >= 0 && this.#keys[last] === key && this.#players[last] === player) {
      this.#counts[last]! += count;
      return;
    }
    if (this.size === this.#players.length) this.#grow();
    this.#players[this.size] = player;
    this.#keys[this.size] = key;
    this.#counts[this.size++] = count;
  }

  #grow(): void {
    const [players, keys, counts] = [this.#players, this.#keys, this.#counts];
    const length = 2 * players.length;
    if (length > ENTRIES_MAX)
      throw new DomainError("VALIDATION_ERROR", "These are too many events at once: take a shorter range");
    (this.#players = new Int32Array(length)).set(players);
    (this.#keys = new Float64Array(length)).set(keys);
    (this.#counts = new Int32Array(length)).set(counts);
  }

  /** Puts the events of each player side by side, in the order in which they were added. */
  group(): void {
    const starts = this.#starts.fill(0);
    for (let i = 0; i < this.size; i++) starts[this.#players[i]! + 1]!++;
    for (let player = 0; player < CHUNK_PLAYERS; player++) starts[player + 1]! += starts[player]!;
    const places = starts.slice();
    if (this.keys.length < this.size) {
      this.keys = new Float64Array(this.#players.length);
      this.counts = new Int32Array(this.#players.length);
    }
    for (let i = 0; i < this.size; i++) {
      const place = places[this.#players[i]!]!++;
      this.keys[place] = this.#keys[i]!;
      this.counts[place] = this.#counts[i]!;
    }
    this.size = 0;
  }

  startOf(player: number): number {
    return this.#starts[player]!;
  }
}

const PLAYERS_AT_ONCE = 512;
/** Documents of the first page: nobody knows how large they are. */
const FIRST_DOCUMENTS = 10;

export type DocumentRow = { chunk: number; day: number; event_type: string; document: Uint8Array };
type FirstsRow = { chunk: number; firsts: Uint8Array | null };
/** Where nobody asks when players came. */
const ALWAYS = new Float64Array(CHUNK_PLAYERS).fill(-Infinity);

/** Reads rows that are ordered by chunk: all of one chunk after the other. */
class ByChunk<Row extends { chunk: number }> {
  readonly #pages: Pages<Row>;
  #rows: Row[] = [];
  #place = 0;

  constructor(pages: Pages<Row>) {
    this.#pages = pages;
  }

  /** The next row; undefined at the end. */
  async peek(): Promise<Row | undefined> {
    if (this.#place >= this.#rows.length) {
      this.#rows = await this.#pages.next();
      this.#place = 0;
    }
    return this.#rows[this.#place];
  }

  async *of(chunk: number): AsyncGenerator<Row> {
    for (let row = await this.peek(); row && row.chunk <= chunk; row = await this.peek()) {
      this.#place++;
      if (row.chunk === chunk) yield row;
    }
  }
}

/** How a question reads documents, and what it makes of the events of each player. */
export type Reading = {
  /** A condition on `analytics_days`. */
  which: RawBuilder<unknown>;
  /** Players without a key are not judged, and of the others nobody asks when their first event was. */
  isOfActive?: boolean | undefined;
  take(row: DocumentRow, entries: Entries): void;
  /** The key of an event; undefined: the question is not about it. */
  keyOf(event: TailEvent): number | undefined;
  /** `keys` are in no order; steps, if any are returned, are taken in turns with others. */
  judge(player: JudgedPlayer): Steps<void> | void;
};

/**
 * A player with what a question reads: `size` keys, each with its number of events. The arrays may be longer,
 * may be changed, and are the next player's then: of hundreds of thousands, each array takes its time.
 */
export type JudgedPlayer = {
  /** Whose number it is; a person has several, or none. */
  who: number | Person;
  firstMs: number;
  size: number;
  keys: Float64Array;
  counts: Int32Array;
};

/** A person as far as the chunks were read. */
type Gathered = { firstMs: number; keys: number[]; counts: number[] };

/** Whether somebody's first event is one that the question may know of. */
const isKnown = ({ frame }: Rolled, firstMs: number): boolean => firstMs < frame.asOfMs;

const isJudged = (rolled: Rolled, { isOfActive }: Reading, firstMs: number, size: number): boolean =>
  (size > 0 || !isOfActive) && isKnown(rolled, firstMs);

const withTail = (
  { keyOf }: Reading,
  gathered: Gathered,
  tail: readonly TailEvent[],
  firstMs: number | undefined,
): Gathered => {
  const counts = new Map<number, number>();
  for (const [i, key] of gathered.keys.entries())
    counts.set(key, (counts.get(key) ?? 0) + gathered.counts[i]!);
  let first = gathered.firstMs;
  for (const event of tail) {
    if (event.by === 1) first = Number.isNaN(first) ? event.ms : Math.min(first, event.ms);
    const key = keyOf(event);
    if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + event.by);
  }
  const left = [...counts].filter(([, count]) => count > 0);
  return {
    firstMs: firstMs ?? first,
    keys: left.map(([key]) => key),
    counts: left.map(([, count]) => count),
  };
};

/** Judges all players who had an event before `asOf`, one after the other in no order. */
export const eachPlayerOf = async (work: Work, rolled: Rolled, reading: Reading): Promise<void> => {
  const { projectId } = rolled;
  const firsts = new ByChunk(
    await pagesIn<FirstsRow>(
      work,
      sql`select chunk, ${reading.isOfActive ? sql`null` : sql`firsts`} as firsts from analytics_firsts
        where project_id = ${projectId}::uuid order by chunk`,
      FIRST_DOCUMENTS,
    ),
  );
  const documents = new ByChunk(
    await pagesIn<DocumentRow>(
      work,
      sql`select chunk, day, event_type, document from analytics_days
        where project_id = ${projectId}::uuid and ${reading.which} order by chunk, day, event_type`,
      FIRST_DOCUMENTS,
    ),
  );
  const gathered = new Map<Person, Gathered>();
  for (const person of rolled.persons.values())
    gathered.set(person, { firstMs: Number.NaN, keys: [], counts: [] });
  const entries = new Entries();
  const ownOf = new OwnEntries();
  for (let row = await firsts.peek(); row; row = await firsts.peek()) {
    const { chunk } = row;
    let times: Float64Array | undefined;
    for await (const one of firsts.of(chunk)) times = one.firsts ? readFirsts(one.firsts) : ALWAYS;
    for await (const one of documents.of(chunk)) await inSlices(takeOne(reading, one, entries));
    entries.group();
    await inSlices(judgeChunk(rolled, reading, { chunk, firsts: times!, entries, ownOf, gathered }));
  }
  await inSlices(judgePersons(rolled, reading, gathered));
};

function* takeOne(reading: Reading, row: DocumentRow, entries: Entries): Steps<void> {
  reading.take(row, entries);
  yield;
}

type Chunk = {
  chunk: number;
  firsts: Float64Array;
  entries: Entries;
  ownOf: OwnEntries;
  gathered: ReadonlyMap<Person, Gathered>;
};

/** Adds what a chunk has of a person, who may have more in others. */
const gather = (one: Gathered, firstMs: number, { entries, from, to }: Own): void => {
  if (Number.isNaN(firstMs)) return;
  one.firstMs = Number.isNaN(one.firstMs) ? firstMs : Math.min(one.firstMs, firstMs);
  for (let i = from; i < to; i++) {
    one.keys.push(entries.keys[i]!);
    one.counts.push(entries.counts[i]!);
  }
};

/** Judges a player whom the rollups do not know whole. */
function* judgeUnsettled(
  rolled: Rolled,
  reading: Reading,
  { no, firstMs, tail }: { no: number; firstMs: number; tail: readonly TailEvent[] },
  { entries, from, to }: Own,
): Steps<void> {
  const keys = [...entries.keys.subarray(from, to)];
  const counts = [...entries.counts.subarray(from, to)];
  const all = withTail(reading, { firstMs, keys, counts }, tail, rolled.firsts.get(no));
  yield* judgeOne(rolled, reading, no, all);
}

/** Whether only players with an entry are judged. */
const isOfEntriesAlone = ({ tails, personOf }: Rolled, { isOfActive }: Reading): boolean =>
  isOfActive === true && tails.size === 0 && personOf.size === 0;

function* judgeChunk(rolled: Rolled, reading: Reading, chunk: Chunk): Steps<void> {
  const { firsts, entries, ownOf, gathered } = chunk;
  const isOfEntries = isOfEntriesAlone(rolled, reading);
  for (let player = 0; player < CHUNK_PLAYERS; player++) {
    if (player % PLAYERS_AT_ONCE === 0) yield;
    const [from, to] = [entries.startOf(player), entries.startOf(player + 1)];
    const size = to - from;
    if (isOfEntries && size === 0) continue;
    const own = { entries, from, to };
    const no = (chunk.chunk << CHUNK_BITS) + player;
    const firstMs = firsts[player]!;
    const person = rolled.personOf.get(no);
    const tail = rolled.tails.get(no);
    if (person) gather(gathered.get(person)!, firstMs, own);
    else if (tail) yield* judgeUnsettled(rolled, reading, { no, firstMs, tail }, own);
    else if (isJudged(rolled, reading, firstMs, size)) {
      const { keys, counts } = ownOf.copy(own);
      const steps = reading.judge({ who: no, firstMs, size, keys, counts });
      if (steps) yield* steps;
    }
  }
}

/** The entries of one player. */
type Own = { entries: Entries; from: number; to: number };

/** The keys and counts of one player after the other. */
class OwnEntries {
  keys = new Float64Array(1_024);
  counts = new Int32Array(1_024);

  copy({ entries: { keys, counts }, from, to }: Own): this {
    const size = to - from;
    if (size > this.keys.length) {
      this.keys = new Float64Array(2 * size);
      this.counts = new Int32Array(2 * size);
    }
    for (let i = 0; i < size; i++) {
      this.keys[i] = keys[from + i]!;
      this.counts[i] = counts[from + i]!;
    }
    return this;
  }
}

function* judgePersons(
  rolled: Rolled,
  reading: Reading,
  gathered: ReadonlyMap<Person, Gathered>,
): Steps<void> {
  for (const [person, one] of gathered) {
    yield* judgeOne(rolled, reading, person, withTail(reading, one, person.tail, person.firstMs));
    yield;
  }
}

function* judgeOne(
  rolled: Rolled,
  reading: Reading,
  who: number | Person,
  { firstMs, keys, counts }: Gathered,
): Steps<void> {
  if (!isKnown(rolled, firstMs)) return;
  const steps = reading.judge({
    who,
    firstMs,
    size: keys.length,
    keys: Float64Array.from(keys),
    counts: Int32Array.from(counts),
  });
  if (steps) yield* steps;
}

/** Bits of an event that are marks; its time is above them. */
const MARKS = 2 ** 14;

/** Which events a question reads one by one, within `[fromMs, untilMs)`, and what each is marked with. */
type TimesQuestion = {
  fromMs: number;
  untilMs: number;
  /** By type; undefined: of every type that is not named. */
  marks: ReadonlyMap<string, number>;
  otherMarks?: number | undefined;
  /** Types whose events before `fromMs` are read too: as if all were at `fromMs - 1`. */
  before?: readonly string[] | undefined;
};

/**
 * The events of a player by time, and of equal times by marks. The arrays may be longer than `size`, and are
 * the next player's then.
 */
export type RolledTimes = {
  who: JudgedPlayer["who"];
  firstMs: number;
  size: number;
  at: Float64Array;
  marks: Uint16Array;
};

/** Of so many numbers, sorting them by hand is faster. */
const FEW = 48;

const sortFirst = (numbers: Float64Array, size: number): void => {
  if (size > FEW) {
    const own = numbers.subarray(0, size);
    own.sort();
    return;
  }
  for (let i = 1; i < size; i++) {
    const number = numbers[i]!;
    let place = i;
    for (; place > 0 && numbers[place - 1]! > number; place--) numbers[place] = numbers[place - 1]!;
    numbers[place] = number;
  }
};

/** The events of one player after the other. */
class OwnTimes {
  at = new Float64Array(1_024);
  marks = new Uint16Array(1_024);

  expand(
    { fromMs }: TimesQuestion,
    { who, firstMs, size: keyCount, keys, counts }: JudgedPlayer,
  ): RolledTimes {
    let size = 0;
    for (let i = 0; i < keyCount; i++) size += counts[i]!;
    if (size > this.at.length) {
      this.at = new Float64Array(2 * size);
      this.marks = new Uint16Array(2 * size);
    }
    const { at, marks } = this;
    let place = 0;
    for (let i = 0; i < keyCount; i++) for (let n = 0; n < counts[i]!; n++) at[place++] = keys[i]!;
    sortFirst(at, size);
    for (let i = 0; i < size; i++) {
      const time = Math.floor(at[i]! / MARKS);
      marks[i] = at[i]! - time * MARKS;
      at[i] = fromMs + time;
    }
    return { who, firstMs, size, at, marks };
  }
}

const whichOf = ({ fromMs, untilMs, marks, otherMarks, before = [] }: TimesQuestion): RawBuilder<unknown> => {
  const listed = (types: readonly string[]) => sql`event_type in ${textList(types)}`;
  const wanted = otherMarks === undefined ? sql`${listed([...marks.keys()])}` : sql`true`;
  const [first, last] = [Math.floor(fromMs / DAY_MS), Math.ceil(untilMs / DAY_MS)];
  return sql`event_type <> '' and day <= ${last}::int
    and ((day >= ${first}::int and ${wanted}) or (day <= ${first}::int and ${listed(before)}))`;
};

/** Judges all players with an event before `asOf`, by the times of their events. */
export const eachRolledTimes = (
  work: Work,
  rolled: Rolled,
  question: TimesQuestion,
  judge: (player: RolledTimes) => Steps<void> | void,
): Promise<void> => {
  const { fromMs, marks, otherMarks, before } = question;
  const untilMs = Math.min(question.untilMs, rolled.frame.asOfMs);
  const isBefore = new Set(before);
  const own = new OwnTimes();
  const keyOf = (type: string, ms: number): number | undefined => {
    const mark = marks.get(type) ?? otherMarks;
    if (mark === undefined || ms >= untilMs) return undefined;
    if (ms >= fromMs) return (ms - fromMs) * MARKS + mark;
    return isBefore.has(type) ? mark - MARKS : undefined;
  };
  return eachPlayerOf(work, rolled, {
    which: whichOf(question),
    take: ({ day, event_type: type, document }, entries) => {
      const mark = marks.get(type) ?? otherMarks;
      const startMs = day * DAY_MS;
      if (mark === undefined) return;
      if (startMs >= fromMs && startMs + DAY_MS <= untilMs) {
        const base = (startMs - fromMs) * MARKS + mark;
        eachTime(document, (player, ms) => entries.add(player, base + ms * MARKS, 1));
        return;
      }
      eachTime(document, (player, ms) => {
        const key = keyOf(type, startMs + ms);
        if (key !== undefined) entries.add(player, key, 1);
      });
    },
    keyOf: ({ type, ms }) => keyOf(type, ms),
    judge: (player) => judge(own.expand(question, player)),
  });
};
