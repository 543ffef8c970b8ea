import { createHmac } from "node:crypto";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const STEP_SECONDS = 30;

const fromBase32 = (text: string): Buffer => {
  const bits = [...text].map((letter) => ALPHABET.indexOf(letter).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)));
};

/**
 * The six digits of RFC 6238 with SHA-1, as an app on a phone shows them; `steps` of 30 seconds later or
 * earlier. Written from the RFC, apart from the library that the server uses.
 */
export const totpCode = (secret: string, steps = 0, now = new Date()): string => {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(now.getTime() / 1_000 / STEP_SECONDS) + steps));
  const mac = createHmac("sha1", fromBase32(secret)).update(counter).digest();
  const offset = mac[mac.length - 1]! & 0xf;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
};

/** A code of six digits that none of the steps around now has. */
export const wrongCode = (secret: string): string => {
  const near = new Set([-3, -2, -1, 0, 1, 2, 3].map((steps) => totpCode(secret, steps)));
  for (let code = 0; ; code++) {
    const text = String(code).padStart(6, "0");
    if (!near.has(text)) return text;
  }
};
