import { sql } from "kysely";
import { CACHE_TTL_MS, createShortCache, isUseDue, noteUse } from "../auth/short-cache.ts";
import type { ApprovalStatus, KeyCaller, Plan, PlanLimits } from "../../kernel/caller.ts";
import { type DomainError, unauthorized } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { forgetProjects } from "../projects/project.ts";
import type { Topics } from "../../kernel/events/chat-views.ts";
import { type ApiKeyHasher, type ApiKeyStatus, isSecret } from "./api-key.ts";

type Refusal = readonly [reason: string, message: string];
type KnownKey = { caller: KeyCaller; freshForMs: number } | { refusal: Refusal; freshForMs: number };

const known = createShortCache<KnownKey>(({ freshForMs }) => freshForMs);

/** Drops this process's cache of keys; see CACHE_TTL_MS. */
export const forgetKeys = (): void => known.clear();

/**
 * Authenticates an API key. What is read of it is cached; see CACHE_TTL_MS.
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
  if ("refusal" in key) throw unauthorized(...key.refusal);
  return key.caller;
};

const unknownKey = (): DomainError => unauthorized("API_KEY_INVALID", "The API key is unknown");

type Found = { key: KnownKey; isUseDue: boolean; id: string };

const load = async (transact: Transact, hashes: string[]): Promise<KnownKey | undefined> => {
  const found = await transact((work) => read(work, hashes));
  if (found?.isUseDue) noteUse(transact, "api_keys", found.id);
  return found?.key;
};

type KeyRow = {
  id: string;
  project_id: string;
  acts_on_project_id: string;
  scopes: string[];
  status: ApiKeyStatus;
  rate_limit: number | null;
  expires_at: Date | null;
  last_used_at: Date | null;
  is_project_gone: boolean;
  is_tenant_gone: boolean;
  tenant_id: string;
  plan: Plan;
  plan_overrides: Partial<PlanLimits>;
  approval_status: ApprovalStatus;
};

const read = async ({ db, now }: Work, hashes: string[]): Promise<Found | undefined> => {
  const found = await sql<KeyRow>`
    select k.id, k.project_id, k.acts_on_project_id, to_jsonb(k.scopes) as scopes, k.status, k.rate_limit,
      k.expires_at, k.last_used_at, p.tenant_id, t.plan, t.plan_overrides, t.approval_status,
      p.deleted_at is not null as is_project_gone, t.deleted_at is not null as is_tenant_gone
    from api_keys k join projects p on p.id = k.project_id join tenants t on t.id = p.tenant_id
    where k.secret_hash = any(${`{${hashes.join(",")}}`}::text[])`.execute(db);
  const row = found.rows[0];
  if (!row) return undefined;
  const leftMs = msFrom(now, row.expires_at) ?? Infinity;
  const refusal = refusalOf(row, leftMs);
  // A program that goes on with a key that has ended costs the database one read in 5 s.
  if (refusal) return { id: row.id, key: { refusal, freshForMs: CACHE_TTL_MS }, isUseDue: false };
  const key = { caller: callerOf(row), freshForMs: Math.min(leftMs, CACHE_TTL_MS) };
  return { id: row.id, key, isUseDue: isUseDue(row.last_used_at, now) };
};

const msFrom = (now: Date, at: Date | null): number | undefined =>
  at === null ? undefined : at.getTime() - now.getTime();

const refusalOf = (row: KeyRow, leftMs: number): Refusal | undefined => {
  // Not API_KEY_INVALID: whoever still has the key has not guessed it, and is not to be blocked for that.
  if (row.is_project_gone) return ["API_KEY_REVOKED", "The project of this API key has been deleted"];
  if (row.is_tenant_gone) return ["API_KEY_REVOKED", "The tenant of this API key has been deleted"];
  if (row.status === "REVOKED") return ["API_KEY_REVOKED", "The API key has been revoked"];
  if (row.status === "EXPIRED" || leftMs <= 0) return ["API_KEY_EXPIRED", "The API key has expired"];
  return undefined;
};

const callerOf = (row: KeyRow): KeyCaller => ({
  kind: "key",
  keyId: row.id,
  tenantId: row.tenant_id,
  projectId: row.acts_on_project_id,
  ownerProjectId: row.project_id,
  scopes: row.scopes,
  rateLimit: row.rate_limit,
  tenant: { plan: row.plan, planOverrides: row.plan_overrides, approvalStatus: row.approval_status },
  isTest: row.acts_on_project_id !== row.project_id,
});

const TOPIC = "keys";

/**
 * Notifies other processes of changes to keys or projects once the commit is durable. If the message is lost,
 * their caches still expire (CACHE_TTL_MS).
 */
export const publishKeysChanged = (work: Work, topics: Topics): void =>
  work.afterCommit(() => topics.publish(TOPIC, {}));

/** Subscribes to such notifications; in effect once it resolves. */
export const subscribeKeyChanges = async (topics: Topics): Promise<void> => {
  await topics.subscribe(TOPIC, () => {
    forgetKeys();
    forgetProjects();
  });
};
