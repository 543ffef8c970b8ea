import { sql } from "kysely";
import { LOCKS } from "../../kernel/advisory-locks.ts";
import { checkExpiry } from "../api-keys/checks.ts";
import type { ApiKeyHasher } from "../api-keys/secret.ts";
import { audit } from "../audit/audit.ts";
import { type AdminScope, actorOf } from "../../kernel/caller.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { forgetAdmins } from "./authenticate.ts";
import { newPlatformSecret, PlatformToken } from "./platform-token.ts";

/** Scopes that platform tokens may have; others are only for people. */
export const GRANTABLE_SCOPES = ["blog:sync"] as const satisfies readonly AdminScope[];
/** Maximum tokens that are neither revoked nor expired. */
export const ACTIVE_PLATFORM_TOKENS_MAX = 100;
/** Maximum entries of the list, newest first. */
export const LISTED_PLATFORM_TOKENS_MAX = 500;

export type NewPlatformToken = {
  name: string;
  scopes: (typeof GRANTABLE_SCOPES)[number][];
  expiresAt?: Date | undefined;
};

/** A platform token as returned by the API. */
export type ShownPlatformToken = {
  id: string;
  name: string;
  scopes: AdminScope[];
  status: "ACTIVE" | "EXPIRED" | "REVOKED";
  createdBy: string;
  lastUsedAt: string | null;
  expiresAt: string | null;
  revokedAt: string | null;
  createdAt: string;
};

const statusOf = (token: PlatformToken, now: Date): ShownPlatformToken["status"] => {
  if (token.revokedAt) return "REVOKED";
  return token.expiresAt && token.expiresAt <= now ? "EXPIRED" : "ACTIVE";
};

export const showPlatformToken = (token: PlatformToken, now: Date): ShownPlatformToken => ({
  id: token.id,
  name: token.name,
  scopes: token.scopes,
  status: statusOf(token, now),
  createdBy: token.createdBy,
  lastUsedAt: token.lastUsedAt?.toISOString() ?? null,
  expiresAt: token.expiresAt?.toISOString() ?? null,
  revokedAt: token.revokedAt?.toISOString() ?? null,
  createdAt: token.createdAt.toISOString(),
});

/** `secret` is only returned here. @throws VALIDATION_ERROR, CONFLICT LIMIT_REACHED */
export const createPlatformToken = async (
  work: Work,
  apiKeys: ApiKeyHasher,
  { name, scopes, expiresAt }: NewPlatformToken,
): Promise<{ token: PlatformToken; secret: string }> => {
  const { em, now, by } = work;
  await lockTokens(work);
  if (expiresAt) checkExpiry(expiresAt, now);
  const live = { $or: [{ expiresAt: null }, { expiresAt: { $gt: now } }] };
  if ((await em.count(PlatformToken, { revokedAt: null, ...live })) >= ACTIVE_PLATFORM_TOKENS_MAX) {
    const message = `At most ${ACTIVE_PLATFORM_TOKENS_MAX} platform tokens may be active; revoke one first`;
    throw conflict("LIMIT_REACHED", message);
  }
  const secret = newPlatformSecret();
  const token = em.create(PlatformToken, {
    id: newId(),
    name,
    secretHash: apiKeys.hash(secret),
    scopes: [...new Set(scopes)],
    createdBy: by ? actorOf(by.caller) : "system",
    lastUsedAt: null,
    expiresAt: expiresAt ?? null,
    revokedAt: null,
    createdAt: now,
  });
  await em.flush();
  await auditToken(work, "platform_token.created", token);
  return { token, secret };
};

/** Returns platform tokens, newest first, including revoked and expired ones. */
export const listPlatformTokens = ({ em }: Work): Promise<PlatformToken[]> =>
  em.find(
    PlatformToken,
    {},
    { orderBy: { createdAt: "desc", id: "desc" }, limit: LISTED_PLATFORM_TOKENS_MAX },
  );

/** Serialises changes of tokens, so that their limit is exact and each is revoked only once. */
const lockTokens = ({ db }: Work): Promise<unknown> =>
  sql`select pg_advisory_xact_lock(${LOCKS.PLATFORM_TOKENS}::bigint)`.execute(db);

/** Revokes a token for good. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const revokePlatformToken = async (work: Work, tokenId: string): Promise<PlatformToken> => {
  await lockTokens(work);
  const token = isId(tokenId) ? await work.em.findOne(PlatformToken, { id: tokenId }) : null;
  if (!token) throw notFound("Platform token");
  if (token.revokedAt) throw conflict("INVALID_STATE", "The platform token is already REVOKED");
  token.revokedAt = work.now;
  work.afterCommit(forgetAdmins);
  await auditToken(work, "platform_token.revoked", token);
  return token;
};

const auditToken = (work: Work, action: string, { id, name, scopes }: PlatformToken): Promise<void> =>
  audit(work, { action, target: { type: "platform_token", id }, tenantId: null, data: { name, scopes } });
