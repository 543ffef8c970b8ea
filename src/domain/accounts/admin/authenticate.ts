import type { ApiKeyHasher } from "../api-keys/secret.ts";
import { isUseDue, noteUse } from "../auth/last-used.ts";
import { CACHE_TTL_MS, createShortCache, type ShortCache } from "../auth/short-cache.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { AdminCaller, Caller } from "../../kernel/caller.ts";
import { unauthorized } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { PlatformAdmin } from "./platform-admin.ts";
import { isPlatformSecret, looksLikePlatformSecret, PlatformToken } from "./platform-token.ts";

type KnownCaller = { caller: AdminCaller; freshForMs: number };

const known = createShortCache<KnownCaller>(({ freshForMs }) => freshForMs);

/** Drops this process's cache of super-admins and platform tokens; see CACHE_TTL_MS. */
export const forgetAdmins = (): void => known.clear();

export type AdminAuthParts = { transact: Transact; tokens: Tokens; apiKeys: ApiKeyHasher };

/**
 * Authenticates a super-admin by a token of `POST /superadmin/auth/login`, or a machine by a platform token
 * (`svc_admin_...`). Both are cached; see CACHE_TTL_MS.
 *
 * @param isFresh not from the cache: for requests that change something
 * @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED, SESSION_REVOKED
 */
export const authenticateAdmin = async (
  parts: AdminAuthParts,
  bearer: string,
  { isFresh = false }: { isFresh?: boolean } = {},
): Promise<Caller> => {
  const find = isFresh ? known.renew : known.get;
  return looksLikePlatformSecret(bearer)
    ? authenticateMachine(parts, bearer, find)
    : authenticatePerson(parts, bearer, find);
};

type Find = ShortCache<KnownCaller>["get"];

const authenticatePerson = async (
  { transact, tokens }: AdminAuthParts,
  bearer: string,
  find: Find,
): Promise<Caller> => {
  const { sub, ver, enrol } = await tokens.verifyAdmin(bearer);
  // The version is part of the key, so that a new login is not judged by an older cached result.
  const found = await find(`${sub}:${ver}`, () => transact((work) => readAdmin(work, sub, ver)));
  if (!found) throw unauthorized("SESSION_REVOKED", "This login has ended; log in again");
  return enrol === true ? { ...found.caller, mustEnrol: true } : found.caller;
};

const readAdmin = async ({ em }: Work, id: string, version: number): Promise<KnownCaller | undefined> => {
  const admin = await em.findOne(PlatformAdmin, { id, sessionVersion: version, disabledAt: null });
  if (!admin) return undefined;
  const caller = { kind: "admin", adminId: admin.id, scopes: ["*"], loginVersion: version } as const;
  return { caller, freshForMs: CACHE_TTL_MS };
};

const authenticateMachine = async (
  { transact, apiKeys }: AdminAuthParts,
  secret: string,
  find: Find,
): Promise<Caller> => {
  if (!isPlatformSecret(secret)) throw unknownToken();
  const found = await find(apiKeys.hash(secret), () => loadToken(transact, apiKeys.hashes(secret)));
  if (!found) throw unknownToken();
  return found.caller;
};

const unknownToken = () => unauthorized("TOKEN_INVALID", "The platform token is unknown or was revoked");

const loadToken = async (transact: Transact, hashes: string[]): Promise<KnownCaller | undefined> => {
  const found = await transact((work) => readToken(work, hashes));
  if (found?.isUseDue) noteUse(transact, "platform_tokens", found.caller.adminId);
  return found;
};

const readToken = async (
  { em, now }: Work,
  hashes: string[],
): Promise<(KnownCaller & { isUseDue: boolean }) | undefined> => {
  const token = await em.findOne(PlatformToken, { secretHash: { $in: hashes }, revokedAt: null });
  if (!token) return undefined;
  const leftMs = token.expiresAt ? token.expiresAt.getTime() - now.getTime() : Infinity;
  if (leftMs <= 0) throw unauthorized("TOKEN_EXPIRED", "The platform token has expired; make a new one");
  return {
    caller: { kind: "admin", adminId: token.id, isMachine: true, scopes: token.scopes },
    freshForMs: Math.min(leftMs, CACHE_TTL_MS),
    isUseDue: isUseDue(token.lastUsedAt, now),
  };
};
