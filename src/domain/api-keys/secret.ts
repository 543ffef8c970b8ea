import { createHmac } from "node:crypto";
import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { randomBase62, toBase62 } from "../auth/base62.ts";

export const ENVIRONMENTS = ["live", "test"] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

const SHAPE = /^svc_(?:live|test)_[0-9A-Za-z]{42}$/;
const RANDOM_CHARACTERS = 36;
const CHECKSUM_CHARACTERS = 6;
/** `svc_live_` and eight characters: enough to tell keys apart, useless for guessing. */
const PREFIX_CHARACTERS = 17;

/** `svc_live_` or `svc_test_`, 36 random base62 characters (214 bits), 6 of CRC-32. */
export const newSecret = (environment: Environment): string => {
  const body = `svc_${environment}_${randomBase62(RANDOM_CHARACTERS)}`;
  return body + checksum(body);
};

/**
 * Whether this could be one of our secrets; told without the database, so typing errors and noise cost
 * nothing.
 */
export const isSecret = (text: string): boolean =>
  SHAPE.test(text) && checksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text.slice(-CHECKSUM_CHARACTERS);

export const prefixOf = (secret: string): string => secret.slice(0, PREFIX_CHARACTERS);

const checksum = (body: string): string => toBase62(crc32(body), CHECKSUM_CHARACTERS);

export type ApiKeyHasher = {
  /** What is stored of a new key. */
  hash(secret: string): string;
  /** Under every pepper, the current one first: what a presented key may be stored as. */
  hashes(secret: string): string[];
};

/**
 * HMAC-SHA256 under a pepper that the database does not hold; a secret of 214 random bits needs no slow
 * hash. The first pepper hashes, all of them find.
 */
export const createApiKeyHasher = (peppers: readonly string[]): ApiKeyHasher => {
  const [current] = peppers;
  assert(current, "at least one pepper");
  const hashWith = (pepper: string, secret: string) =>
    createHmac("sha256", pepper).update(secret).digest("hex");
  return {
    hash: (secret) => hashWith(current, secret),
    hashes: (secret) => peppers.map((pepper) => hashWith(pepper, secret)),
  };
};
