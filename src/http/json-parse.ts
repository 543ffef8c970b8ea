import type { Steps } from "../domain/kernel/slices.ts";

const QUOTE_BYTE = 0x22;
const BACKSLASH_BYTE = 0x5c;
const COLON_BYTE = 0x3a;
/** Each comma, colon and opening bracket is followed by one more name or value, or by none. */
const BEFORE_PARTS: ReadonlySet<number> = new Set([0x2c, COLON_BYTE, 0x5b, 0x7b]);
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

const tableOf = (bytes: ReadonlySet<number>): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, byte) => Number(bytes.has(byte)));

/** 1 for bytes that precede a name or value: an array look-up is faster than a set. */
const COUNTS = tableOf(BEFORE_PARTS);
/** 1 for bytes with a meaning outside a string. */
const SIGNS = tableOf(new Set([QUOTE_BYTE, ...BEFORE_PARTS, ...CLOSING]));

/** Returns the position of the quote that ends the string begun before `from`. */
const endOfStringBytes = (bytes: Uint8Array, from: number): number => {
  let at = from;
  while (at < bytes.length && bytes[at] !== QUOTE_BYTE) at += bytes[at] === BACKSLASH_BYTE ? 2 : 1;
  return at;
};

/** Size of a JSON text: its number of names and values, and the largest number of names in one object. */
type JsonSize = { parts: number; names: number };

/** Counts the names of the largest object, from the structural characters of a text. */
class NameCount {
  most = 0;
  #names = 0;
  /** Counts of the enclosing objects and lists. */
  readonly #around: number[] = [];

  take(sign: number): void {
    if (sign === COLON_BYTE) this.most = Math.max(this.most, ++this.#names);
    else if (CLOSING.has(sign)) this.#names = this.#around.pop() ?? 0;
    else if (OPENING.has(sign)) {
      this.#around.push(this.#names);
      this.#names = 0;
    }
  }
}

/** Bytes that are counted before others are served. */
const BYTES_AT_ONCE = 512 * 1024;

/**
 * Counts the names and values of a JSON text from its bytes, before it is parsed: the cost of parsing and
 * checking depends on them, and not on the bytes. Invalid JSON is counted as if it were valid. An empty list
 * or object counts twice, and a name as often as it occurs.
 * @returns `parts` above `max` as soon as there are more; `names` up to there
 */
export function* countParts(bytes: Uint8Array, max: number): Steps<JsonSize> {
  const names = new NameCount();
  let parts = 1;
  let pauseAt = BYTES_AT_ONCE;
  for (let at = 0; at < bytes.length && parts <= max; at++) {
    const byte = bytes[at]!;
    if (SIGNS[byte] === 0) continue;
    if (at >= pauseAt) {
      pauseAt = at + BYTES_AT_ONCE;
      yield;
    }
    if (byte === QUOTE_BYTE) {
      at = endOfStringBytes(bytes, at + 1);
      continue;
    }
    parts += COUNTS[byte]!;
    names.take(byte);
  }
  return { parts, names: names.most };
}

/** Bytes of JSON that are parsed without a pause, as far as values can be divided. */
const PART_BYTES = 64 * 1024;
/** Levels of lists and objects that are divided: a body, its fields, their items and what is in those. */
const LEVELS = 8;

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a] as const;
const [LIST, LIST_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d] as const;
/** What each byte adds to the depth. */
const DEPTHS = Int8Array.from({ length: 256 }, (_, byte) =>
  byte === LIST || byte === OBJECT ? 1 : byte === LIST_END || byte === OBJECT_END ? -1 : 0,
);
const SPACE: ReadonlySet<number | undefined> = new Set([0x20, 0x09, 0x0a, 0x0d]);

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const malformed = (): SyntaxError => new SyntaxError("not JSON");

/** Returns the position behind the string that begins at `at`. */
const endOfString = (bytes: Uint8Array, at: number): number => {
  let end = at + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  return end + 1;
};

/** Parts of a list or an object that are parsed at once: `end` is that of the last one. */
type Run = { end: number; isLast: boolean };

/** A list or an object that is made piece by piece. */
type Made = { value: unknown; add(piece: object): void };

const aList = (): Made => {
  const items: unknown[] = [];
  return {
    value: items,
    add: (piece) => {
      for (const item of piece as unknown[]) items.push(item);
    },
  };
};

const anObject = (): Made => {
  const fields = {};
  return {
    value: fields,
    add: (piece) => {
      // As JSON.parse does it: `__proto__` is a name like any other, and the last of equal names counts.
      for (const [name, value] of Object.entries(piece))
        Object.defineProperty(fields, name, { value, configurable: true, enumerable: true, writable: true });
    },
  };
};

/** Reads a JSON text from its beginning; positions are in bytes. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  *whole(): Steps<unknown> {
    const value = yield* this.#value(LEVELS);
    this.#skipSpace();
    if (this.#at < this.#bytes.length) throw malformed();
    return value;
  }

  *#value(levels: number): Steps<unknown> {
    this.#skipSpace();
    const first = this.#bytes[this.#at];
    if (first !== LIST && first !== OBJECT) return this.#take(this.#endOfPlain());
    return levels === 0 ? this.#take(this.#endOfNested()) : yield* this.#nested(levels);
  }

  /** Reads a list or an object: as many small parts at once as PART_BYTES hold, and large ones divided. */
  *#nested(levels: number): Steps<unknown> {
    const isList = this.#bytes[this.#at++] === LIST;
    const made = isList ? aList() : anObject();
    for (let isFirst = true; ; isFirst = false) {
      const run = this.#findRun();
      if (run) made.add(this.#takeRun(run, { isList, mayBeEmpty: isFirst && run.isLast }));
      else if (isList) made.add([yield* this.#value(levels - 1)]);
      else made.add({ [this.#name()]: yield* this.#value(levels - 1) });
      if (this.#isOver(isList ? LIST_END : OBJECT_END)) return made.value;
      yield;
    }
  }

  /**
   * Finds the parts of the current list or object that end within PART_BYTES.
   * @returns undefined where not even the first one does
   */
  #findRun(): Run | undefined {
    const last = Math.min(this.#bytes.length, this.#at + PART_BYTES);
    let depth = 0;
    let end: number | undefined;
    for (let at = this.#at; at < last; at++) {
      const byte = this.#bytes[at]!;
      if (byte === QUOTE) at = endOfString(this.#bytes, at) - 1;
      depth += DEPTHS[byte]!;
      if (depth < 0) return { end: at, isLast: true };
      if (byte === COMMA && depth === 0) end = at;
    }
    if (last === this.#bytes.length) throw malformed();
    return end === undefined ? undefined : { end, isLast: false };
  }

  #takeRun({ end }: Run, { isList, mayBeEmpty }: { isList: boolean; mayBeEmpty: boolean }): object {
    const text = this.#textTo(end);
    const piece = JSON.parse(isList ? `[${text}]` : `{${text}}`) as object;
    if (!mayBeEmpty && Object.keys(piece).length === 0) throw malformed();
    return piece;
  }

  #name(): string {
    this.#skipSpace();
    if (this.#bytes[this.#at] !== QUOTE) throw malformed();
    const name = this.#take(endOfString(this.#bytes, this.#at)) as string;
    this.#skipSpace();
    if (this.#bytes[this.#at++] !== COLON) throw malformed();
    return name;
  }

  /** Passes over what follows a part. @returns whether it is the end */
  #isOver(sign: number): boolean {
    this.#skipSpace();
    const byte = this.#bytes[this.#at++];
    if (byte !== sign && byte !== COMMA) throw malformed();
    return byte === sign;
  }

  /** Returns the position behind a number or a word, or behind a string. */
  #endOfPlain(): number {
    if (this.#bytes[this.#at] === QUOTE) return endOfString(this.#bytes, this.#at);
    let end = this.#at;
    for (; end < this.#bytes.length; end++) {
      const byte = this.#bytes[end]!;
      if (byte === COMMA || byte === LIST_END || byte === OBJECT_END || SPACE.has(byte)) break;
    }
    return end;
  }

  /** Returns the position behind a list or an object. */
  #endOfNested(): number {
    let depth = 0;
    for (let at = this.#at; at < this.#bytes.length; at++) {
      const byte = this.#bytes[at]!;
      if (byte === QUOTE) at = endOfString(this.#bytes, at) - 1;
      depth += DEPTHS[byte]!;
      if (depth === 0) return at + 1;
    }
    throw malformed();
  }

  #take(end: number): unknown {
    return JSON.parse(this.#textTo(end));
  }

  #textTo(end: number): string {
    const text = utf8.decode(this.#bytes.subarray(this.#at, end));
    this.#at = end;
    return text;
  }

  #skipSpace(): void {
    while (SPACE.has(this.#bytes[this.#at])) this.#at++;
  }
}

const BYTE_ORDER_MARK = Buffer.from("\uFEFF");

/**
 * Parses JSON in UTF-8 as `JSON.parse` does, pausing in between: large lists and objects are divided.
 * @throws SyntaxError, TypeError for what is not UTF-8
 */
export function* jsonValue(bytes: Buffer): Steps<unknown> {
  const hasMark = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  return yield* new Reader(hasMark ? bytes.subarray(BYTE_ORDER_MARK.length) : bytes).whole();
}
