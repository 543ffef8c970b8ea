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

/**
 * Counts the names and values of a JSON text from its bytes, before it is parsed: the cost of parsing and
 * checking depends on them, and not on the bytes. Invalid JSON is counted as if it were valid. An empty list
 * or object counts twice, and a name as often as it occurs.
 * @returns `parts` above `max` as soon as there are more; `names` up to there
 */
export const countParts = (bytes: Uint8Array, max: number): JsonSize => {
  const names = new NameCount();
  let parts = 1;
  for (let at = 0; at < bytes.length && parts <= max; at++) {
    const byte = bytes[at]!;
    if (SIGNS[byte] === 0) continue;
    if (byte === QUOTE_BYTE) {
      at = endOfStringBytes(bytes, at + 1);
      continue;
    }
    parts += COUNTS[byte]!;
    names.take(byte);
  }
  return { parts, names: names.most };
};
