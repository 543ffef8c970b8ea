import { crc32 } from "node:zlib";
import { randomBase62, toBase62 } from "./base62.ts";

const SHAPE = /^svc_[a-z]+_[0-9A-Za-z]{42}$/;
const RANDOM_CHARACTERS = 36;
const CHECKSUM_CHARACTERS = 6;

const checksum = (body: string): string => toBase62(crc32(body), CHECKSUM_CHARACTERS);

/** `svc_<kind>_`, 36 random base62 characters (214 bits), 6 of CRC-32. */
export const newCheckedSecret = (kind: string): string => {
  const body = `svc_${kind}_${randomBase62(RANDOM_CHARACTERS)}`;
  return body + checksum(body);
};

/**
 * Returns whether this has the format of one of our secrets, without access to the database, so that typing
 * errors and noise cost nothing.
 */
export const isCheckedSecret = (text: string): boolean =>
  SHAPE.test(text) && checksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text.slice(-CHECKSUM_CHARACTERS);
