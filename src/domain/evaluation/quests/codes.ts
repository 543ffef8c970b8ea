import { createHash, timingSafeEqual } from "node:crypto";

/** Returns the SHA-256 of a code, in hexadecimal: how it is written does not matter. */
export const hashOfCode = (code: string): string =>
  createHash("sha256").update(code.normalize("NFKC").toLowerCase().trim()).digest("hex");

/** Returns whether a hash is one of several, in a time that does not tell how much agrees with which. */
export const isOneOf = (hash: string, hashes: readonly string[]): boolean => {
  const given = Buffer.from(hash, "hex");
  let isFound = false;
  for (const one of hashes) {
    const isSame = timingSafeEqual(given, Buffer.from(one, "hex"));
    isFound = isFound || isSame;
  }
  return isFound;
};
