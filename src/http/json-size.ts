const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
/** Each comma, colon and opening bracket is followed by one more name or value, or by none. */
const BEFORE_PARTS: ReadonlySet<number> = new Set([0x2c, COLON, 0x5b, 0x7b]);
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

const tableOf = (bytes: ReadonlySet<number>): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, byte) => Number(bytes.has(byte)));

/** 1 for the bytes that a name or value follows: looking a byte up here is faster than asking a set. */
const COUNTS = tableOf(BEFORE_PARTS);
/** 1 for the bytes that mean something outside of a string. */
const SIGNS = tableOf(new Set([QUOTE, ...BEFORE_PARTS, ...CLOSING]));

/** The place of the quote that ends the string begun before `from`. */
const endOfString = (bytes: Uint8Array, from: number): number => {
  let at = from;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return at;
};

/** What a JSON text is made of: its names and values, and the most names that one object of it has. */
export type JsonSize = { parts: number; names: number };

/** The most names of one object, from the signs of a text one by one. */
class NameCount {
  most = 0;
  #names = 0;
  /** Of the objects and lists around the present one. */
  readonly #around: number[] = [];

  take(sign: number): void {
    if (sign === COLON) this.most = Math.max(this.most, ++this.#names);
    else if (CLOSING.has(sign)) this.#names = this.#around.pop() ?? 0;
    else if (OPENING.has(sign)) {
      this.#around.push(this.#names);
      this.#names = 0;
    }
  }
}

/**
 * Counts the names and values of a JSON text from its bytes, before it is parsed: what parsing and checking
 * cost depends on them, and not on the bytes. What is no JSON is counted as if it were. A list or object of
 * nothing counts twice, and a name as often as it is there.
 * @returns `parts` above `max` as soon as there are more; `names` up to there
 */
export const countParts = (bytes: Uint8Array, max: number): JsonSize => {
  const names = new NameCount();
  let parts = 1;
  for (let at = 0; at < bytes.length && parts <= max; at++) {
    const byte = bytes[at]!;
    if (SIGNS[byte] === 0) continue;
    if (byte === QUOTE) {
      at = endOfString(bytes, at + 1);
      continue;
    }
    parts += COUNTS[byte]!;
    names.take(byte);
  }
  return { parts, names: names.most };
};
