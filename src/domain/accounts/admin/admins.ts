import { defineEntity, p } from "@mikro-orm/core";
import { sql } from "kysely";
import { type ApiKeyHasher, checkExpiry } from "../api-keys/api-key.ts";
import { audit } from "../audit/audit.ts";
import { isCheckedSecret, newCheckedSecret } from "../auth/one-time-secrets.ts";
import { type Passwords, refuseWeakPassword } from "../auth/passwords.ts";
import { CACHE_TTL_MS, createShortCache, isUseDue, noteUse, type ShortCache } from "../auth/short-cache.ts";
import { forgetAddresses, type Tokens } from "../auth/tokens.ts";
import { normaliseEmail } from "../email/address.ts";
import { actorOf, type AdminCaller, type AdminScope, type Caller } from "../../kernel/caller.ts";
import { conflict, notFound, unauthorized } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { getRow, LOCKS, type Transact, type Work } from "../../kernel/work.ts";
import { shown } from "../../kernel/json.ts";

const PlatformAdminSchema = defineEntity({
  name: "PlatformAdmin",
  tableName: "platform_admins",
  properties: {
    id: p.uuid().primary(),
    /** Lower case. */
    email: p.text(),
    name: p.text(),
    passwordHash: p.text(),
    /** Whether a second factor is set; kept by mfa/factors.ts. */
    mfaEnabled: p.boolean(),
    /** Incremented to end all earlier tokens. */
    sessionVersion: p.integer(),
    disabledAt: p.datetime(3).nullable(),
    lastLoginAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** An operator of the platform; not a user of any tenant. */
export class PlatformAdmin extends PlatformAdminSchema.class {}
PlatformAdminSchema.setClass(PlatformAdmin);

const PlatformTokenSchema = defineEntity({
  name: "PlatformToken",
  tableName: "platform_tokens",
  properties: {
    id: p.uuid().primary(),
    name: p.text(),
    secretHash: p.text(),
    scopes: p.array<AdminScope>(),
    /** In the format of `actorOf`. */
    createdBy: p.text(),
    lastUsedAt: p.datetime(3).nullable(),
    expiresAt: p.datetime(3).nullable(),
    revokedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
  },
});
/** The credential of a machine that serves the platform, such as a CI job. */
export class PlatformToken extends PlatformTokenSchema.class {}
PlatformTokenSchema.setClass(PlatformToken);

const KIND = "admin";

type KnownCaller = { caller: AdminCaller; freshForMs: number };

const known = createShortCache<KnownCaller>(({ freshForMs }) => freshForMs);

/** Drops this process's cache of super-admins and platform tokens; see CACHE_TTL_MS. */
export const forgetAdmins = (): void => known.clear();

type AdminAuthParts = { transact: Transact; tokens: Tokens; apiKeys: ApiKeyHasher };

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
  return bearer.startsWith(`svc_${KIND}_`)
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
  if (!isCheckedSecret(secret)) throw unknownToken();
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

/** Scopes that platform tokens may have; others are only for people. */
export const GRANTABLE_SCOPES = ["blog:sync"] as const satisfies readonly AdminScope[];
/** Maximum tokens that are neither revoked nor expired. */
export const ACTIVE_PLATFORM_TOKENS_MAX = 100;
/** Maximum entries of the list, newest first. */
const LISTED_PLATFORM_TOKENS_MAX = 500;

type NewPlatformToken = {
  name: string;
  scopes: (typeof GRANTABLE_SCOPES)[number][];
  expiresAt?: Date | undefined;
};

const statusOf = (token: PlatformToken, now: Date): "ACTIVE" | "EXPIRED" | "REVOKED" => {
  if (token.revokedAt) return "REVOKED";
  return token.expiresAt && token.expiresAt <= now ? "EXPIRED" : "ACTIVE";
};

/** A platform token as returned by the API. */
export const showPlatformToken = (token: PlatformToken, now: Date) => ({
  ...shown(token, ["id", "name", "scopes", "createdBy", "lastUsedAt", "expiresAt", "revokedAt", "createdAt"]),
  status: statusOf(token, now),
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
  const secret = newCheckedSecret(KIND);
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
  const token = await getRow(work, PlatformToken, "Platform token", { id: tokenId });
  if (token.revokedAt) throw conflict("INVALID_STATE", "The platform token is already REVOKED");
  token.revokedAt = work.now;
  work.afterCommit(forgetAdmins);
  await auditToken(work, "platform_token.revoked", token);
  return token;
};

const auditToken = (work: Work, action: string, { id, name, scopes }: PlatformToken): Promise<void> =>
  audit(work, { action, target: { type: "platform_token", id }, tenantId: null, data: { name, scopes } });

type AdminParts = { transact: Transact; passwords: Passwords };
type NewAdmin = { email: string; name: string; password: string };

/** A super-admin as returned by the API. */
export const showAdmin = (admin: PlatformAdmin) =>
  shown(admin, ["id", "email", "name", "mfaEnabled", "lastLoginAt", "disabledAt", "createdAt"]);

/** @throws VALIDATION_ERROR PASSWORD_TOO_WEAK, CONFLICT EMAIL_ALREADY_EXISTS */
export const createAdmin = async (
  { transact, passwords }: AdminParts,
  { password, name, ...rest }: NewAdmin,
): Promise<PlatformAdmin> => {
  const email = normaliseEmail(rest.email);
  refuseWeakPassword(password, { email, name });
  const passwordHash = await passwords.hash(password);
  return transact(async (work) => {
    const { em, now } = work;
    if (await em.findOne(PlatformAdmin, { email })) {
      throw conflict("EMAIL_ALREADY_EXISTS", `A super-admin with the address ${email} exists already`);
    }
    const admin = em.create(PlatformAdmin, {
      id: newId(),
      email,
      name,
      passwordHash,
      mfaEnabled: false,
      sessionVersion: 1,
      disabledAt: null,
      lastLoginAt: null,
      createdAt: now,
      updatedAt: now,
    });
    await em.flush();
    await auditAdmin(work, "platform_admin.created", admin);
    return admin;
  });
};

/** Returns all super-admins, oldest first. */
export const listAdmins = ({ em }: Work): Promise<PlatformAdmin[]> =>
  em.find(PlatformAdmin, {}, { orderBy: { createdAt: "asc", id: "asc" } });

/** @throws NOT_FOUND also for a disabled one */
export const getAdmin = async ({ em }: Work, id: string): Promise<PlatformAdmin> => {
  const admin = await em.findOne(PlatformAdmin, { id, disabledAt: null });
  if (!admin) throw notFound("Super-admin");
  return admin;
};

/** @throws NOT_FOUND */
export const findAdminByEmail = async ({ em }: Work, address: string): Promise<PlatformAdmin> => {
  const admin = await em.findOne(PlatformAdmin, { email: normaliseEmail(address) });
  if (!admin) throw notFound(`Super-admin ${normaliseEmail(address)}`);
  return admin;
};

/** Ends all logins of a super-admin. */
export const endLogins = (work: Work, admin: PlatformAdmin): void => {
  admin.sessionVersion += 1;
  admin.updatedAt = work.now;
  work.afterCommit(forgetAdmins);
};

/** Disables a super-admin; idempotent. @throws NOT_FOUND */
export const disableAdmin = async (work: Work, email: string): Promise<PlatformAdmin> => {
  const admin = await findAdminByEmail(work, email);
  if (admin.disabledAt) return admin;
  admin.disabledAt = work.now;
  endLogins(work, admin);
  await auditAdmin(work, "platform_admin.disabled", admin);
  return admin;
};

/** Enables a disabled super-admin again, with the previous password. @throws NOT_FOUND */
export const enableAdmin = async (work: Work, email: string): Promise<PlatformAdmin> => {
  const admin = await findAdminByEmail(work, email);
  if (!admin.disabledAt) return admin;
  admin.disabledAt = null;
  admin.updatedAt = work.now;
  await auditAdmin(work, "platform_admin.enabled", admin);
  return admin;
};

/** Sets a new password and ends all logins; a disabled super-admin stays disabled. @throws NOT_FOUND */
export const resetAdminPassword = async (
  work: Work,
  email: string,
  passwordHash: string,
): Promise<PlatformAdmin> => {
  const admin = await findAdminByEmail(work, email);
  admin.passwordHash = passwordHash;
  endLogins(work, admin);
  await forgetAddresses(work, admin.id);
  await auditAdmin(work, "platform_admin.password_reset", admin);
  return admin;
};

export const auditAdmin = (
  work: Work,
  action: string,
  { id, email }: Pick<PlatformAdmin, "id" | "email">,
): Promise<void> =>
  audit(work, { action, target: { type: "platform_admin", id }, tenantId: null, data: { email } });
