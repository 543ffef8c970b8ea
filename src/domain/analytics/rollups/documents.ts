/**
 * Numbers of as many bytes as they need: seven bits a byte, the lowest first, the eighth says that more
 * follow (unsigned LEB128: DWARF Debugging Information Format, version 5, 7.6). Numbers are 0 to 2^31 - 1.
 */

/** Bytes that grow as numbers are added. */
export class VarintWriter {
  #bytes = new Uint8Array(256);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  #makeRoom(count: number): void {
    if (this.#size + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(2 * this.#bytes.length, this.#size + count));
    larger.set(this.#bytes.subarray(0, this.#size));
    this.#bytes = larger;
  }

  add(number: number): void {
    this.#makeRoom(5);
    let rest = number;
    for (; rest > 127; rest >>>= 7) this.#bytes[this.#size++] = (rest & 127) | 128;
    this.#bytes[this.#size++] = rest;
  }

  addBytes(bytes: Uint8Array): void {
    this.#makeRoom(bytes.length);
    this.#bytes.set(bytes, this.#size);
    this.#size += bytes.length;
  }

  clear(): void {
    this.#size = 0;
  }

  /** What was added so far; valid until more is. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#size);
  }
}

/** Reads numbers one after the other. */
export class VarintReader {
  readonly #bytes: Uint8Array;
  #place: number;

  constructor(bytes: Uint8Array, place = 0) {
    this.#bytes = bytes;
    this.#place = place;
  }

  get place(): number {
    return this.#place;
  }

  get isAtEnd(): boolean {
    return this.#place >= this.#bytes.length;
  }

  next(): number {
    let number = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#bytes[this.#place++]!;
      number |= (byte & 127) << shift;
      if (byte < 128) return number;
    }
  }

  take(count: number): Uint8Array {
    this.#place += count;
    return this.#bytes.subarray(this.#place - count, this.#place);
  }
}

/**
 * What players of a chunk did on one UTC day, as bytes. A document is a list of players: for each how much
 * larger the number is than that of the one before, the length of what follows in bytes, and that.
 *
 * Of the activity of a player that are the quarters of an hour in which there were events: for each twice its
 * distance from the one before, plus 1 where there was more than one event, whose number then follows. Of the
 * times of a player that are the times of the events of one type: for each the distance in ms from the one
 * before. The first distances are from the begin of the day.
 */

/** Players whose numbers differ only in the last bits are one chunk. */
export const CHUNK_BITS = 12;
export const CHUNK_PLAYERS = 1 << CHUNK_BITS;

/** Documents are written by statements of about so many characters. */
export const STATEMENT_LENGTH = 1024 * 1024;

export const DAY_MS = 86_400_000;
export const QUARTER_MS = 900_000;

/** Changes of one player on one day, by time: events more, or fewer. */
export type Change = { ms: number; by: 1 | -1 };

/** Of one body after the other: what it holds is copied before the next one. */
const scratch = new VarintWriter();

type Edit = (body: Uint8Array | undefined, changes: readonly Change[]) => Uint8Array;

const EMPTY = new Uint8Array(0);

/**
 * Returns a document with the changes of players, by their numbers within the chunk; without those of whom
 * nothing is left.
 */
const edited = (
  document: Uint8Array | undefined,
  changes: ReadonlyMap<number, readonly Change[]>,
  edit: Edit,
): Uint8Array => {
  const writer = new VarintWriter();
  const reader = new VarintReader(document ?? EMPTY);
  const numbers = [...changes.keys()].toSorted((a, b) => a - b);
  let [last, next, old] = [0, 0, -1];
  let body: Uint8Array | undefined;
  const advance = (): void => {
    if (reader.isAtEnd) {
      old = Infinity;
      body = undefined;
      return;
    }
    old = Math.max(old, 0) + reader.next();
    body = reader.take(reader.next());
  };
  const put = (player: number, bytes: Uint8Array): void => {
    if (bytes.length === 0) return;
    writer.add(player - last);
    writer.add(bytes.length);
    writer.addBytes(bytes);
    last = player;
  };
  for (advance(); old !== Infinity || next < numbers.length;) {
    const changed = next < numbers.length ? numbers[next]! : Infinity;
    if (old < changed) {
      put(old, body!);
      advance();
      continue;
    }
    put(changed, edit(old === changed ? body : undefined, changes.get(changed)!));
    if (old === changed) advance();
    next++;
  }
  return writer.bytes.slice();
};

const editActivity: Edit = (body, changes) => {
  const counts = new Map<number, number>();
  let quarter = 0;
  for (const reader = new VarintReader(body ?? EMPTY); !reader.isAtEnd;) {
    const step = reader.next();
    quarter += step >>> 1;
    counts.set(quarter, (step & 1) === 1 ? reader.next() : 1);
  }
  for (const { ms, by } of changes) {
    const at = Math.floor(ms / QUARTER_MS);
    counts.set(at, (counts.get(at) ?? 0) + by);
  }
  const writer = scratch;
  writer.clear();
  let last = 0;
  for (const [at, count] of [...counts].toSorted(([a], [b]) => a - b)) {
    if (count <= 0) continue;
    writer.add(2 * (at - last) + (count > 1 ? 1 : 0));
    if (count > 1) writer.add(count);
    last = at;
  }
  return writer.bytes;
};

const editTimes: Edit = (body, changes) => {
  const times: number[] = [];
  let ms = 0;
  for (const reader = new VarintReader(body ?? EMPTY); !reader.isAtEnd;) times.push((ms += reader.next()));
  const gone = new Map<number, number>();
  for (const change of changes) {
    if (change.by === 1) times.push(change.ms);
    else gone.set(change.ms, (gone.get(change.ms) ?? 0) + 1);
  }
  times.sort((a, b) => a - b);
  const writer = scratch;
  writer.clear();
  let last = 0;
  for (const at of times) {
    const left = gone.get(at) ?? 0;
    if (left > 0) {
      gone.set(at, left - 1);
      continue;
    }
    writer.add(at - last);
    last = at;
  }
  return writer.bytes;
};

type Changes = ReadonlyMap<number, readonly Change[]>;

/** Returns a document of activity with the changes of players; times are ms of the day. */
export const editedActivity = (document: Uint8Array | undefined, changes: Changes): Uint8Array =>
  edited(document, changes, editActivity);

/** Returns a document of times with the changes of players; times are ms of the day. */
export const editedTimes = (document: Uint8Array | undefined, changes: Changes): Uint8Array =>
  edited(document, changes, editTimes);

/** Reads numbers as `VarintReader` does, without an object: questions read millions of them. */
let place = 0;
const nextOf = (bytes: Uint8Array): number => {
  let byte = bytes[place++]!;
  if (byte < 128) return byte;
  let number = byte & 127;
  for (let shift = 7; ; shift += 7) {
    byte = bytes[place++]!;
    number |= (byte & 127) << shift;
    if (byte < 128) return number;
  }
};

/**
 * Calls `take` for each quarter of an hour of each player: with its number of the day, and its events. `take`
 * reads no documents itself.
 */
export const eachQuarter = (
  document: Uint8Array,
  take: (player: number, quarter: number, count: number) => void,
): void => {
  place = 0;
  for (let player = 0; place < document.length;) {
    player += nextOf(document);
    const end = nextOf(document) + place;
    for (let quarter = 0; place < end;) {
      const step = nextOf(document);
      quarter += step >>> 1;
      take(player, quarter, (step & 1) === 1 ? nextOf(document) : 1);
    }
  }
};

/**
 * Calls `take` for each player of a document of activity: with the events of the whole day, or with 1 where
 * nobody counts them.
 */
export const eachActivePlayer = (
  document: Uint8Array,
  areCounted: boolean,
  take: (player: number, count: number) => void,
): void => {
  const { length } = document;
  // As `nextOf` reads, but without a place that others see: this is most of what many questions do.
  for (let [at, player] = [0, 0]; at < length;) {
    let byte = document[at++]!;
    let step = byte & 127;
    for (let shift = 7; byte > 127; shift += 7) step |= ((byte = document[at++]!) & 127) << shift;
    byte = document[at++]!;
    let bytes = byte & 127;
    for (let shift = 7; byte > 127; shift += 7) bytes |= ((byte = document[at++]!) & 127) << shift;
    player += step;
    place = at;
    at += bytes;
    take(player, areCounted ? countUpTo(document, at) : 1);
  }
};

/** Adds up the events of a player, whose quarters end at `end`. */
const countUpTo = (document: Uint8Array, end: number): number => {
  let count = 0;
  while (place < end) count += (nextOf(document) & 1) === 1 ? nextOf(document) : 1;
  return count;
};

/** Calls `take` for each event of each player: with its time in ms of the day. As above. */
export const eachTime = (document: Uint8Array, take: (player: number, ms: number) => void): void => {
  place = 0;
  for (let player = 0; place < document.length;) {
    player += nextOf(document);
    const end = nextOf(document) + place;
    for (let ms = 0; place < end;) take(player, (ms += nextOf(document)));
  }
};

/** Times of first events by number within the chunk, in ms; NaN: none. */
export const readFirsts = (document: Uint8Array | undefined): Float64Array => {
  const firsts = new Float64Array(CHUNK_PLAYERS).fill(Number.NaN);
  if (document) new Uint8Array(firsts.buffer).set(document);
  return firsts;
};

/** The bytes of first times, up to the last player of the chunk that there is. */
export const writeFirsts = (firsts: Float64Array): Uint8Array => {
  const last = firsts.findLastIndex((ms) => !Number.isNaN(ms));
  return new Uint8Array(firsts.buffer, 0, (last + 1) * Float64Array.BYTES_PER_ELEMENT);
};
