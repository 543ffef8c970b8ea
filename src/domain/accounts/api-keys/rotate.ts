import { conflict } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import type { ApiKey } from "./api-key.ts";
import {
  auditKey,
  type Granter,
  insertKey,
  lockApiKey,
  lockKeysProject,
  type MadeKey,
  requireActive,
} from "./api-keys.ts";
import { forgetKeys } from "./authenticate.ts";
import { checkKeyFields, checkRoom } from "./checks.ts";
import { checkCeiling } from "./scopes.ts";
import type { ApiKeyHasher } from "./secret.ts";

export type Rotation = {
  keyId: string;
  gracePeriodSeconds: number;
  /** Of the new key; absent: the same as the old one's. */
  expiresAt?: Date | null | undefined;
};

/**
 * Replaces a key by a new one with the same name, scopes, limit, metadata and environment. The old one stays
 * valid for the grace period, but no longer than before, and refers to the new one. Of two concurrent
 * rotations, one succeeds.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR, FORBIDDEN INSUFFICIENT_ROLE, CONFLICT INVALID_STATE, LIMIT_REACHED
 */
export const rotateApiKey = async (
  work: Work,
  apiKeys: ApiKeyHasher,
  granter: Granter,
  { keyId, gracePeriodSeconds, expiresAt }: Rotation,
): Promise<MadeKey> => {
  const project = await lockKeysProject(work, granter);
  const old = await lockApiKey(work, granter, keyId);
  checkCeiling(granter.role, old.scopes);
  requireActive(old, work.now);
  if (old.replacedBy != null)
    throw conflict("INVALID_STATE", `API key ${old.replacedBy} has replaced this one; rotate that one`);
  await checkKeyFields(work, granter.tenantId, { expiresAt });
  await checkRoom(work, project.id);
  const { projectId, actsOnProjectId, name, scopes, rateLimit = null, metadata } = old;
  const made = await insertKey(work, apiKeys, {
    projectId,
    actsOnProjectId,
    name,
    scopes,
    rateLimit,
    expiresAt: expiresAt === undefined ? (old.expiresAt ?? null) : expiresAt,
    metadata,
  });
  endAfter(old, work.now, gracePeriodSeconds);
  Object.assign(old, { replacedBy: made.apiKey.id, updatedAt: work.now } satisfies Partial<ApiKey>);
  const data = { newKeyId: made.apiKey.id, newPrefix: made.apiKey.prefix, expiresAt: old.expiresAt };
  await auditKey(work, granter, { action: "api_key.rotated", key: old, data });
  work.afterCommit(forgetKeys);
  return made;
};

const endAfter = (key: ApiKey, now: Date, seconds: number): void => {
  const end = new Date(now.getTime() + seconds * 1_000);
  if (key.expiresAt == null || end < key.expiresAt) key.expiresAt = end;
};
