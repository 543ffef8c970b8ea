import { sql } from "kysely";
import { type ApiKeyHasher, checkExpiry } from "../api-keys/api-key.ts";
import { audit } from "../audit/audit.ts";
import { isCheckedSecret, newCheckedSecret } from "../auth/one-time-secrets.ts";
import { CACHE_TTL_MS, createShortCache, isUseDue, noteUse } from "../auth/short-cache.ts";
import { lockTenant } from "../tenants/tenant.ts";
import {
  actorOf,
  type ApprovalStatus,
  type Plan,
  type PlanLimits,
  type ScimCaller,
} from "../../kernel/caller.ts";
import { conflict, type DomainError, notFound, unauthorized } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import type { Transact, Work } from "../../kernel/work.ts";

type KnownToken = { caller: ScimCaller; freshForMs: number; isUseDue: boolean };

const known = createShortCache<KnownToken>(({ freshForMs }) => freshForMs);

/** Drops this process's cache of tokens; see CACHE_TTL_MS. */
export const forgetScimTokens = (): void => known.clear();

const refused = (): DomainError =>
  unauthorized("TOKEN_INVALID", "The SCIM token is unknown, revoked or expired; an OWNER makes another one");

/**
 * Authenticates the token of an identity provider, whose format is right. What is read of it is cached; see
 * CACHE_TTL_MS.
 * @param isFresh not from the cache: for requests that change something
 * @throws UNAUTHORIZED TOKEN_INVALID
 */
export const authenticateScim = async (
  transact: Transact,
  apiKeys: ApiKeyHasher,
  secret: string | undefined,
  { isFresh = false }: { isFresh?: boolean } = {},
): Promise<ScimCaller> => {
  if (secret === undefined) throw refused();
  const find = isFresh ? known.renew : known.get;
  const token = await find(apiKeys.hash(secret), () => load(transact, apiKeys.hashes(secret)));
  if (!token) throw refused();
  return token.caller;
};

const load = async (transact: Transact, hashes: string[]): Promise<KnownToken | undefined> => {
  const found = await transact((work) => read(work, hashes));
  if (found?.isUseDue) noteUse(transact, "scim_tokens", found.caller.tokenId);
  return found;
};

type TokenRow = {
  id: string;
  tenant_id: string;
  expires_at: Date | null;
  last_used_at: Date | null;
  plan: Plan;
  plan_overrides: Partial<PlanLimits>;
  approval_status: ApprovalStatus;
};

const read = async ({ db, now }: Work, hashes: string[]): Promise<KnownToken | undefined> => {
  const { rows } = await sql<TokenRow>`
    select s.id, s.tenant_id, s.expires_at, s.last_used_at, t.plan, t.plan_overrides, t.approval_status
    from scim_tokens s join tenants t on t.id = s.tenant_id
    where s.secret_hash = any(${`{${hashes.join(",")}}`}::text[]) and s.revoked_at is null
      and t.deleted_at is null`.execute(db);
  const [row] = rows;
  const leftMs = row?.expires_at == null ? Infinity : row.expires_at.getTime() - now.getTime();
  if (!row || leftMs <= 0) return undefined;
  const tenant = {
    plan: row.plan,
    planOverrides: row.plan_overrides,
    approvalStatus: row.approval_status,
  };
  return {
    caller: { kind: "scim", tokenId: row.id, tenantId: row.tenant_id, tenant },
    freshForMs: Math.min(leftMs, CACHE_TTL_MS),
    isUseDue: isUseDue(row.last_used_at, now),
  };
};

/** Tokens of a tenant that work: two while one is exchanged for the next. */
export const SCIM_TOKENS_MAX = 5;
/** Tokens that are listed, the newest first, with those that have ended. */
const LISTED_SCIM_TOKENS_MAX = 50;

const KIND = "scim";

/** Returns whether this has the format of a token, without access to the database. */
export const isScimSecret = (text: string): boolean =>
  text.startsWith(`svc_${KIND}_`) && isCheckedSecret(text);

type Row = {
  id: string;
  name: string;
  createdBy: string;
  lastUsedAt: Date | null;
  expiresAt: Date | null;
  revokedAt: Date | null;
  createdAt: Date;
};

const show = (row: Row, now: Date) => {
  const isExpired = row.expiresAt !== null && row.expiresAt <= now;
  return {
    id: row.id,
    name: row.name,
    status:
      row.revokedAt === null
        ? isExpired
          ? ("EXPIRED" as const)
          : ("ACTIVE" as const)
        : ("REVOKED" as const),
    createdBy: row.createdBy,
    lastUsedAt: isoOf(row.lastUsedAt),
    expiresAt: isoOf(row.expiresAt),
    revokedAt: isoOf(row.revokedAt),
    createdAt: row.createdAt.toISOString(),
  };
};

/** Returns a tenant's tokens, newest first, without their secrets. */
export const listScimTokens = async ({ db, now }: Work, tenantId: string) => {
  const { rows } = await sql<Row>`
    select id, name, created_by as "createdBy", last_used_at as "lastUsedAt", expires_at as "expiresAt",
      revoked_at as "revokedAt", created_at as "createdAt"
    from scim_tokens where tenant_id = ${tenantId}::uuid
    order by created_at desc, id desc limit ${LISTED_SCIM_TOKENS_MAX}`.execute(db);
  return rows.map((row) => show(row, now));
};

type NewScimToken = { name: string; expiresAt?: Date | undefined };

/**
 * Makes a token for a tenant's identity provider. `secret` is returned here alone, and stored as a hash.
 * @throws VALIDATION_ERROR for a past expiry, CONFLICT LIMIT_REACHED
 */
export const createScimToken = async (
  work: Work,
  apiKeys: ApiKeyHasher,
  tenantId: string,
  { name, expiresAt }: NewScimToken,
) => {
  const { db, now, by } = work;
  await lockTenant(work, tenantId);
  if (expiresAt) checkExpiry(expiresAt, now);
  const working = await countWorking(work, tenantId);
  if (working >= SCIM_TOKENS_MAX)
    throw conflict("LIMIT_REACHED", `A tenant has at most ${SCIM_TOKENS_MAX} tokens; revoke one first`);
  const secret = newCheckedSecret(KIND);
  const id = newId();
  const createdBy = by ? actorOf(by.caller) : "system";
  const row = { id, name, createdBy, lastUsedAt: null, expiresAt: expiresAt ?? null, createdAt: now };
  await sql`
    insert into scim_tokens (id, tenant_id, name, secret_hash, created_by, expires_at, created_at)
    values (${id}::uuid, ${tenantId}::uuid, ${name}, ${apiKeys.hash(secret)}, ${createdBy},
      ${expiresAt?.toISOString() ?? null}::timestamptz, ${now.toISOString()}::timestamptz)`.execute(db);
  await auditToken(work, tenantId, { id, name }, "scim_token.created");
  return { token: show({ ...row, revokedAt: null }, now), secret };
};

const countWorking = async ({ db, now }: Work, tenantId: string): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from scim_tokens where tenant_id = ${tenantId}::uuid and revoked_at is null
      and (expires_at is null or expires_at > ${now.toISOString()}::timestamptz)`.execute(db);
  return rows[0]?.count ?? 0;
};

/** Revokes a token for good. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const revokeScimToken = async (work: Work, tenantId: string, tokenId: string): Promise<void> => {
  const { db, now } = work;
  await lockTenant(work, tenantId);
  if (!isId(tokenId)) throw notFound("Token");
  const { rows } = await sql<{ name: string; revoked_at: Date | null }>`
    select name, revoked_at from scim_tokens
    where id = ${tokenId}::uuid and tenant_id = ${tenantId}::uuid`.execute(db);
  const [found] = rows;
  if (!found) throw notFound("Token");
  if (found.revoked_at !== null) throw conflict("INVALID_STATE", "The token is already REVOKED");
  await sql`
    update scim_tokens set revoked_at = ${now.toISOString()}::timestamptz
    where id = ${tokenId}::uuid`.execute(db);
  work.afterCommit(forgetScimTokens);
  await auditToken(work, tenantId, { id: tokenId, name: found.name }, "scim_token.revoked");
};

const auditToken = (
  work: Work,
  tenantId: string,
  { id, name }: { id: string; name: string },
  action: string,
): Promise<void> => audit(work, { action, target: { type: "scim_token", id }, tenantId, data: { name } });
