import { createHmac } from "node:crypto";
import assert from "node:assert/strict";
import { isCheckedSecret, newCheckedSecret } from "../auth/checked-secret.ts";

export const ENVIRONMENTS = ["live", "test"] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

/** `svc_live_` and eight characters: enough to distinguish keys, useless for guessing. */
const PREFIX_CHARACTERS = 17;

/** `svc_live_` or `svc_test_`, 36 random base62 characters (214 bits), 6 of CRC-32. */
export const newSecret = (environment: Environment): string => newCheckedSecret(environment);

/** Returns whether this has the format of a key's secret, without access to the database. */
export const isSecret = (text: string): boolean => /^svc_(live|test)_/.test(text) && isCheckedSecret(text);

export const prefixOf = (secret: string): string => secret.slice(0, PREFIX_CHARACTERS);

export type ApiKeyHasher = {
  /** Returns the hash stored for a new key. */
  hash(secret: string): string;
  /**
   * Returns the hashes under all peppers, the current one first, under which a presented key may be stored.
   */
  hashes(secret: string): string[];
};

/**
 * Hashes keys with HMAC-SHA256 under a pepper that is not in the database; a secret of 214 random bits needs
 * no slow hash. The first pepper is used for new hashes, all of them for look-ups.
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
