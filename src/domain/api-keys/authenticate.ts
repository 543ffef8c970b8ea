import { sql } from "kysely";
import { createShortCache, CACHE_TTL_MS } from "../auth/short-cache.ts";
import type { Caller } from "../caller.ts";
import { type DomainError, unauthorized } from "../errors.ts";
import { Project } from "../projects/project.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Transact, Work } from "../work.ts";
import { ApiKey } from "./api-key.ts";
import { type ApiKeyHasher, isSecret } from "./secret.ts";

/** `lastUsedAt` is exact to this. */
export const LAST_USED_STEP_MS = 60_000;

type KeyCaller = Extract<Caller, { kind: "key" }>;
type KnownKey = { caller: KeyCaller; freshForMs: number };

const known = createShortCache<KnownKey>(({ freshForMs }) => freshForMs);

/** Makes this process read keys anew; others do within 5 s. */
export const forgetKeys = (): void => known.clear();

/**
 * The caller behind an API key. A revoked key and a key of a deleted project die here within 5 s.
 *
 * @throws UNAUTHORIZED API_KEY_INVALID, API_KEY_REVOKED, API_KEY_EXPIRED
 */
export const authenticateKey = async (
  transact: Transact,
  apiKeys: ApiKeyHasher,
  secret: string,
): Promise<KeyCaller> => {
  if (!isSecret(secret)) throw unknownKey();
  const key = await known.get(apiKeys.hash(secret), () => load(transact, apiKeys.hashes(secret)));
  if (!key) throw unknownKey();
  return key.caller;
};

const unknownKey = (): DomainError => unauthorized("API_KEY_INVALID", "The API key is not known");

type Found = { key: KnownKey; isUseDue: boolean; id: string } | { refusal: DomainError } | undefined;

const load = async (transact: Transact, hashes: string[]): Promise<KnownKey | undefined> => {
  const found = await transact((work) => read(work, hashes));
  if (!found) return undefined;
  if ("refusal" in found) throw found.refusal;
  if (found.isUseDue) noteUse(transact, found.id);
  return found.key;
};

const read = async ({ em, now }: Work, hashes: string[]): Promise<Found> => {
  const key = await em.findOne(ApiKey, { secretHash: { $in: hashes } });
  if (!key) return undefined;
  const project = await em.findOne(Project, { id: key.projectId, deletedAt: null });
  if (!project)
    return { refusal: unauthorized("API_KEY_INVALID", "The project of this API key has been deleted") };
  const tenant = await em.findOne(Tenant, { id: project.tenantId, deletedAt: null });
  if (!tenant)
    return { refusal: unauthorized("API_KEY_INVALID", "The tenant of this API key has been deleted") };
  if (key.status === "REVOKED")
    return { refusal: unauthorized("API_KEY_REVOKED", "The API key has been revoked") };
  const leftMs = key.expiresAt ? key.expiresAt.getTime() - now.getTime() : Infinity;
  if (key.status === "EXPIRED" || leftMs <= 0) {
    key.status = "EXPIRED";
    return { refusal: unauthorized("API_KEY_EXPIRED", "The API key has expired") };
  }
  const { plan, planOverrides, approvalStatus } = tenant;
  const caller: KeyCaller = {
    kind: "key",
    keyId: key.id,
    tenantId: project.tenantId,
    projectId: key.actsOnProjectId,
    ownerProjectId: key.projectId,
    scopes: key.scopes,
    rateLimit: key.rateLimit ?? null,
    tenant: { plan, planOverrides, approvalStatus },
    isTest: key.actsOnProjectId !== key.projectId,
  };
  const isUseDue = !key.lastUsedAt || now.getTime() - key.lastUsedAt.getTime() >= LAST_USED_STEP_MS;
  return { id: key.id, key: { caller, freshForMs: Math.min(leftMs, CACHE_TTL_MS) }, isUseDue };
};

/** Not awaited: no request waits for it, and losing it costs a minute of precision. */
const noteUse = (transact: Transact, keyId: string): void => {
  transact(({ db, now }) => {
    const at = now.toISOString();
    const due = new Date(now.getTime() - LAST_USED_STEP_MS).toISOString();
    return sql`
      update api_keys set last_used_at = ${at}::timestamptz
      where id = ${keyId}::uuid and (last_used_at is null or last_used_at <= ${due}::timestamptz)`.execute(
      db,
    );
  }).catch(() => undefined);
};
