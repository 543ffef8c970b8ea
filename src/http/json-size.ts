const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Each comma, colon and opening bracket is followed by one more name or value, or by none. */
const BEFORE_PARTS: ReadonlySet<number> = new Set([0x2c, 0x3a, 0x5b, 0x7b]);

/** 1 for the bytes that a name or value follows: looking a byte up here is faster than asking a set. */
const COUNTS = Uint8Array.from({ length: 256 }, (_, byte) => Number(BEFORE_PARTS.has(byte)));

/** The place of the quote that ends the string begun before `from`. */
const endOfString = (bytes: Uint8Array, from: number): number => {
  let at = from;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return at;
};

/**
 * Counts the names and values of a JSON text from its bytes, before it is parsed: what parsing and checking
 * cost depends on them, and not on the bytes. What is no JSON is counted as if it were. A list or object of
 * nothing counts twice.
 * @returns a number above `max` as soon as there are more
 */
export const countParts = (bytes: Uint8Array, max: number): number => {
  let parts = 1;
  for (let at = 0; at < bytes.length && parts <= max; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) at = endOfString(bytes, at + 1);
    else parts += COUNTS[byte]!;
  }
  return parts;
};
