import { sql } from "kysely";
import { checkExpiry } from "../api-keys/checks.ts";
import type { ApiKeyHasher } from "../api-keys/secret.ts";
import { audit } from "../audit/audit.ts";
import { isCheckedSecret, newCheckedSecret } from "../auth/checked-secret.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import { actorOf } from "../../kernel/caller.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { forgetScimTokens } from "./authenticate.ts";

/** Tokens of a tenant that work: two while one is exchanged for the next. */
export const SCIM_TOKENS_MAX = 5;
/** Tokens that are listed, the newest first, with those that have ended. */
export const LISTED_SCIM_TOKENS_MAX = 50;

const KIND = "scim";

/** Returns whether this has the format of a token, without access to the database. */
export const isScimSecret = (text: string): boolean =>
  text.startsWith(`svc_${KIND}_`) && isCheckedSecret(text);

/** A token as the API shows it. */
export type ShownScimToken = {
  id: string;
  name: string;
  status: "ACTIVE" | "EXPIRED" | "REVOKED";
  createdBy: string;
  /** Precise to a minute. */
  lastUsedAt: string | null;
  expiresAt: string | null;
  revokedAt: string | null;
  createdAt: string;
};

type Row = {
  id: string;
  name: string;
  createdBy: string;
  lastUsedAt: Date | string | null;
  expiresAt: Date | string | null;
  revokedAt: Date | string | null;
  createdAt: Date | string;
};

const timeOf = (at: Date | string | null): string | null => (at === null ? null : new Date(at).toISOString());

const show = (row: Row, now: Date): ShownScimToken => {
  const isExpired = row.expiresAt !== null && new Date(row.expiresAt) <= now;
  return {
    id: row.id,
    name: row.name,
    status: row.revokedAt === null ? (isExpired ? "EXPIRED" : "ACTIVE") : "REVOKED",
    createdBy: row.createdBy,
    lastUsedAt: timeOf(row.lastUsedAt),
    expiresAt: timeOf(row.expiresAt),
    revokedAt: timeOf(row.revokedAt),
    createdAt: new Date(row.createdAt).toISOString(),
  };
};

/** Returns a tenant's tokens, newest first, without their secrets. */
export const listScimTokens = async ({ db, now }: Work, tenantId: string): Promise<ShownScimToken[]> => {
  const { rows } = await sql<Row>`
    select id, name, created_by as "createdBy", last_used_at as "lastUsedAt", expires_at as "expiresAt",
      revoked_at as "revokedAt", created_at as "createdAt"
    from scim_tokens where tenant_id = ${tenantId}::uuid
    order by created_at desc, id desc limit ${LISTED_SCIM_TOKENS_MAX}`.execute(db);
  return rows.map((row) => show(row, now));
};

export type NewScimToken = { name: string; expiresAt?: Date | undefined };

/**
 * Makes a token for a tenant's identity provider. `secret` is returned here alone, and stored as a hash.
 * @throws VALIDATION_ERROR for a past expiry, CONFLICT LIMIT_REACHED
 */
export const createScimToken = async (
  work: Work,
  apiKeys: ApiKeyHasher,
  tenantId: string,
  { name, expiresAt }: NewScimToken,
): Promise<{ token: ShownScimToken; secret: string }> => {
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
  const { rows } = await sql<{ count: number | string }>`
    select count(*) as count from scim_tokens where tenant_id = ${tenantId}::uuid and revoked_at is null
      and (expires_at is null or expires_at > ${now.toISOString()}::timestamptz)`.execute(db);
  return Number(rows[0]?.count ?? 0);
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
