import { randomBytes } from "node:crypto";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** Bytes from here on would make the first letters of the alphabet more likely. */
const FAIR_BYTES = 256 - (256 % 62);

/** Returns `length` characters of uniform base62 (5.95 bits each) from the system's random source. */
export const randomBase62 = (length: number): string => {
  let text = "";
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < FAIR_BYTES && text.length < length) text += ALPHABET.charAt(byte % 62);
    }
  }
  return text;
};

/** Encodes a whole number in base62, padded with zeros to `length`. */
export const toBase62 = (value: number, length: number): string => {
  let text = "";
  for (let rest = value; rest > 0; rest = Math.floor(rest / 62)) text = ALPHABET.charAt(rest % 62) + text;
  return text.padStart(length, "0");
};
