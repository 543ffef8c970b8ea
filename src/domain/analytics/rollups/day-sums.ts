import { monthOf, weekOf } from "../range.ts";
import { CHUNK_PLAYERS, VarintReader, VarintWriter } from "./documents.ts";
import type { RolledPlayer } from "./players.ts";

/**
 * Local days, added up. A player's day is counted by the active day before: distinct players of several days
 * are those whose active day before is earlier, each counted once, on the first of the days.
 */

/** Before any day: of a player without an active one. */
export const NEVER = -(2 ** 31);

/** Players of one first day on another day; of how many that was the first active day of a week or month. */
type Cohort = { players: number; events: number; monday: number; sunday: number; month: number };

const startsOf = (day: number) => ({
  monday: weekOf(day, "monday"),
  sunday: weekOf(day, "sunday"),
  month: monthOf(day),
});

/** One local day: what players did, by the active day before, and by their first day. */
export class DaySums {
  events = 0;
  /** Players without a day before. */
  fresh = 0;
  readonly #day: number;
  #starts: { monday: number; sunday: number; month: number } | undefined;
  readonly #gaps = new Map<number, number>();
  readonly #cohorts = new Map<number, Cohort>();
  /** What is not read yet: most questions are about few of all days. */
  #rest: VarintReader | undefined;

  constructor(day: number) {
    this.#day = day;
  }

  /** Players by the active day before. */
  get gaps(): ReadonlyMap<number, number> {
    this.#readRest();
    return this.#gaps;
  }

  /** Players by their first day. */
  get cohorts(): ReadonlyMap<number, Cohort> {
    this.#readRest();
    return this.#cohorts;
  }

  add({ before, first, events }: { before: number; first: number; events: number }): void {
    this.events += events;
    if (before === NEVER) this.fresh++;
    else this.#gaps.set(before, (this.#gaps.get(before) ?? 0) + 1);
    let cohort = this.#cohorts.get(first);
    if (!cohort)
      this.#cohorts.set(first, (cohort = { players: 0, events: 0, monday: 0, sunday: 0, month: 0 }));
    this.#starts ??= startsOf(this.#day);
    const { monday, sunday, month } = this.#starts;
    cohort.players++;
    cohort.events += events;
    if (before < monday) cohort.monday++;
    if (before < sunday) cohort.sunday++;
    if (before < month) cohort.month++;
  }

  write(): Uint8Array {
    const writer = new VarintWriter();
    writer.add(this.events);
    writer.add(this.fresh);
    writer.add(this.gaps.size);
    for (const [before, players] of this.gaps) {
      writer.add(this.#day - before);
      writer.add(players);
    }
    for (const [first, { players, events, monday, sunday, month }] of this.cohorts)
      for (const number of [this.#day - first, players, events, monday, sunday, month]) writer.add(number);
    return writer.bytes;
  }

  static read(day: number, document: Uint8Array): DaySums {
    const sums = new DaySums(day);
    const reader = new VarintReader(document);
    sums.events = reader.next();
    sums.fresh = reader.next();
    sums.#rest = reader;
    return sums;
  }

  #readRest(): void {
    const reader = this.#rest;
    if (!reader) return;
    this.#rest = undefined;
    for (let left = reader.next(); left > 0; left--) this.#gaps.set(this.#day - reader.next(), reader.next());
    while (!reader.isAtEnd) {
      const first = this.#day - reader.next();
      const [players, events] = [reader.next(), reader.next()];
      const [monday, sunday, month] = [reader.next(), reader.next(), reader.next()];
      this.#cohorts.set(first, { players, events, monday, sunday, month });
    }
  }
}

/** Days by number, in no order, as far as anybody was active. */
export type Days = ReadonlyMap<number, DaySums>;

/** Local days, both of which are among them. */
export type Span = { first: number; last: number };

/** Returns how many players were active, and new, and how many events there were. */
export const countDays = (days: Days, { first, last }: Span) => {
  let [active, fresh, events] = [0, 0, 0];
  for (let day = first; day <= last; day++) {
    const sums = days.get(day);
    if (!sums) continue;
    events += sums.events;
    fresh += sums.fresh;
    active += sums.fresh;
    for (const [before, players] of sums.gaps) if (before < first) active += players;
  }
  return { active, fresh, events };
};

/** Returns how many players were new on any day up to one. */
export const countPlayers = (days: Days, last: number): number => {
  let players = 0;
  for (const [day, { fresh }] of days) if (day <= last) players += fresh;
  return players;
};

/** When players were active before a day, and first, by number. */
export class Standing {
  day: number;
  last = new Int32Array(0);
  first = new Int32Array(0);

  constructor(day: number) {
    this.day = day;
  }

  lastOf(no: number): number {
    return this.last[no] ?? NEVER;
  }

  /** The number under which somebody is known; a person may have others that are not known. */
  numberOf(who: RolledPlayer["who"]): number | undefined {
    if (typeof who === "number") return who;
    return who.numbers.find((no) => this.lastOf(no) !== NEVER) ?? who.numbers[0];
  }

  set(no: number, last: number, first: number): void {
    if (no >= this.last.length) this.#grow(Math.max(2 * this.last.length, no + 1));
    this.last[no] = last;
    this.first[no] = first;
  }

  #grow(players: number): void {
    const length = Math.ceil(players / CHUNK_PLAYERS) * CHUNK_PLAYERS;
    const [last, first] = [this.last, this.first];
    (this.last = new Int32Array(length).fill(NEVER)).set(last);
    (this.first = new Int32Array(length)).set(first);
  }

  /** By player of the chunk: 0, or how many days ago the last day is, and how many before that the first. */
  write(chunk: number): Uint8Array {
    const writer = new VarintWriter();
    for (let no = chunk * CHUNK_PLAYERS; no < (chunk + 1) * CHUNK_PLAYERS; no++) {
      const last = this.lastOf(no);
      writer.add(last === NEVER ? 0 : this.day - last);
      if (last !== NEVER) writer.add(last - this.first[no]!);
    }
    return writer.bytes;
  }

  /** Reads all chunks of a day. */
  static read(day: number, documents: readonly { chunk: number; document: Uint8Array }[]): Standing {
    const standing = new Standing(day);
    const chunks = Math.max(0, ...documents.map(({ chunk }) => chunk + 1));
    standing.#grow(chunks * CHUNK_PLAYERS);
    const { last, first } = standing;
    for (const { chunk, document } of documents) {
      const reader = new VarintReader(document);
      for (let no = chunk * CHUNK_PLAYERS; !reader.isAtEnd; no++) {
        const ago = reader.next();
        if (ago === 0) continue;
        last[no] = day - ago;
        first[no] = day - ago - reader.next();
      }
    }
    return standing;
  }
}

/** Whether two days say the same. */
export const isSame = (one: DaySums | undefined, other: DaySums | undefined): boolean => {
  const textOf = (sums: DaySums | undefined): string =>
    JSON.stringify(
      sums && [sums.events, ...[sums.gaps, sums.cohorts].map((map) => [...map].toSorted(byKey))],
    );
  return textOf(one) === textOf(other);
};

const byKey = ([a]: readonly [number, unknown], [b]: readonly [number, unknown]): number => a - b;
