import { createHmac } from "node:crypto";
import assert from "node:assert/strict";
import { isCheckedSecret, newCheckedSecret } from "../auth/checked-secret.ts";

export const ENVIRONMENTS = ["live", "test"] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

/** `svc_live_` and eight characters: enough to tell keys apart, useless for guessing. */
const PREFIX_CHARACTERS = 17;

/** `svc_live_` or `svc_test_`, 36 random base62 characters (214 bits), 6 of CRC-32. */
export const newSecret = (environment: Environment): string => newCheckedSecret(environment);

/** Whether this could be the secret of a key; told without the database. */
export const isSecret = (text: string): boolean => /^svc_(live|test)_/.test(text) && isCheckedSecret(text);

export const prefixOf = (secret: string): string => secret.slice(0, PREFIX_CHARACTERS);

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
