import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { defineEntity, p } from "@mikro-orm/core";
import { sql } from "kysely";
import { isCheckedSecret, newCheckedSecret } from "../auth/one-time-secrets.ts";
import { Tenant } from "../tenants/tenant.ts";
import { type KeyCaller, limitsOf, planLimitExceeded } from "../../kernel/caller.ts";
import { conflict, type DomainError, invalid, unauthorized } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { fitsBytes } from "../../kernel/hostile-json.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { shown, shownIfSet } from "../../kernel/json.ts";
import { CACHE_TTL_MS, createShortCache, isUseDue, noteUse } from "../auth/short-cache.ts";
import { forgetProjects } from "../projects/project.ts";
import type { Topics } from "../../kernel/topics.ts";

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

type KeyRow = Omit<KeyCaller, "kind" | "isTest" | "tenant"> &
  KeyCaller["tenant"] & {
    status: ApiKeyStatus;
    expiresAt: Date | null;
    lastUsedAt: Date | null;
    isProjectGone: boolean;
    isTenantGone: boolean;
  };

const read = async ({ db, now }: Work, hashes: string[]): Promise<Found | undefined> => {
  const { rows } = await sql<KeyRow>`
    select k.id as "keyId", p.tenant_id as "tenantId", k.acts_on_project_id as "projectId",
      k.project_id as "ownerProjectId", to_jsonb(k.scopes) as scopes, k.rate_limit as "rateLimit",
      k.status, k.expires_at as "expiresAt", k.last_used_at as "lastUsedAt",
      t.plan, t.plan_overrides as "planOverrides", t.approval_status as "approvalStatus",
      p.deleted_at is not null as "isProjectGone", t.deleted_at is not null as "isTenantGone"
    from api_keys k join projects p on p.id = k.project_id join tenants t on t.id = p.tenant_id
    where k.secret_hash = any(${`{${hashes.join(",")}}`}::text[])`.execute(db);
  const [row] = rows;
  if (!row) return undefined;
  const { keyId: id, expiresAt, lastUsedAt } = row;
  const leftMs = expiresAt ? expiresAt.getTime() - now.getTime() : Infinity;
  const refusal = refusalOf(row, leftMs);
  // A program that goes on with a key that has ended costs the database one read in 5 s.
  if (refusal) return { id, key: { refusal, freshForMs: CACHE_TTL_MS }, isUseDue: false };
  const key = { caller: callerOf(row), freshForMs: Math.min(leftMs, CACHE_TTL_MS) };
  return { id, key, isUseDue: isUseDue(lastUsedAt, now) };
};

const refusalOf = (row: KeyRow, leftMs: number): Refusal | undefined => {
  // Not API_KEY_INVALID: whoever still has the key has not guessed it, and is not to be blocked for that.
  if (row.isProjectGone) return ["API_KEY_REVOKED", "The project of this API key has been deleted"];
  if (row.isTenantGone) return ["API_KEY_REVOKED", "The tenant of this API key has been deleted"];
  if (row.status === "REVOKED") return ["API_KEY_REVOKED", "The API key has been revoked"];
  if (row.status === "EXPIRED" || leftMs <= 0) return ["API_KEY_EXPIRED", "The API key has expired"];
  return undefined;
};

const callerOf = (row: KeyRow): KeyCaller => {
  const { keyId, tenantId, projectId, ownerProjectId, scopes, rateLimit } = row;
  const { plan, planOverrides, approvalStatus } = row;
  const tenant = { plan, planOverrides, approvalStatus };
  const isTest = projectId !== ownerProjectId;
  return { kind: "key", keyId, tenantId, projectId, ownerProjectId, scopes, rateLimit, tenant, isTest };
};

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

export const API_KEY_STATUSES = ["ACTIVE", "REVOKED", "EXPIRED"] as const;
export type ApiKeyStatus = (typeof API_KEY_STATUSES)[number];

const ApiKeySchema = defineEntity({
  name: "ApiKey",
  tableName: "api_keys",
  properties: {
    id: p.uuid().primary(),
    projectId: p.uuid(),
    /** The project itself, or its sandbox for a `svc_test_` key. */
    actsOnProjectId: p.uuid(),
    name: p.text(),
    prefix: p.text(),
    secretHash: p.text(),
    scopes: p.array(),
    status: p.text().$type<ApiKeyStatus>(),
    /** Requests per minute. */
    rateLimit: p.integer().nullable(),
    expiresAt: p.datetime(3).nullable(),
    lastUsedAt: p.datetime(3).nullable(),
    metadata: p.json<Json>(),
    /** In the format of `actorOf`; null for keys from before this was recorded. */
    createdBy: p.text().nullable(),
    /** The key that a rotation created in its place. */
    replacedBy: p.uuid().nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
    deletedAt: p.datetime(3).nullable(),
  },
});
/** A project's credential for integrations; the secret itself is not stored. */
export class ApiKey extends ApiKeySchema.class {}
ApiKeySchema.setClass(ApiKey);

/** Returns whether the key has expired, even if its status has not been updated yet. */
export const isExpired = (key: ApiKey, now: Date): boolean =>
  key.status === "EXPIRED" || (key.status === "ACTIVE" && key.expiresAt != null && key.expiresAt <= now);

export const environmentOf = ({ projectId, actsOnProjectId }: ApiKey): Environment =>
  projectId === actsOnProjectId ? "live" : "test";

/** An API key as returned by the API; unset fields are absent. */
export const showApiKey = (key: ApiKey, now: Date) => ({
  ...shown(key, [
    "id",
    "projectId",
    "name",
    "prefix",
    "scopes",
    "metadata",
    "createdAt",
    "updatedAt",
    "deletedAt",
  ]),
  ...shownIfSet(key, ["rateLimit", "expiresAt", "lastUsedAt", "createdBy", "replacedBy"]),
  environment: environmentOf(key),
  status: isExpired(key, now) ? ("EXPIRED" as const) : key.status,
});

/** Maximum active keys of a project, including replaced ones in their grace period. */
export const WORKING_KEYS_MAX = 1_000;
export const KEY_METADATA_MAX_BYTES = 4_096;
/** Dates of later years have no ISO 8601 form of four digits. */
const YEAR_MAX = 9_999;

export type KeyFields = {
  /** Requests per minute. */
  rateLimit?: number | null | undefined;
  expiresAt?: Date | null | undefined;
  metadata?: Json | undefined;
};

/** @throws VALIDATION_ERROR for a past expiry, too much metadata, or a limit above the plan's */
export const checkKeyFields = async (work: Work, tenantId: string, fields: KeyFields): Promise<void> => {
  const { rateLimit, expiresAt, metadata } = fields;
  if (expiresAt) checkExpiry(expiresAt, work.now);
  if (metadata && !fitsBytes(metadata, KEY_METADATA_MAX_BYTES))
    throw invalid("metadata", "must be at most 4 KiB of JSON");
  if (rateLimit == null) return;
  const { requestsPerMinute } = await planOf(work, tenantId);
  if (requestsPerMinute !== null && rateLimit > requestsPerMinute)
    throw invalid("rateLimit", `must be at most ${requestsPerMinute}, the requests per minute of your plan`);
};

/** @throws VALIDATION_ERROR for a past time, or a year that few programs can parse */
export const checkExpiry = (expiresAt: Date, now: Date): void => {
  if (expiresAt <= now) throw invalid("expiresAt", "must be in the future");
  if (expiresAt.getUTCFullYear() > YEAR_MAX)
    throw invalid("expiresAt", `must be in year ${YEAR_MAX} or before`);
};

const planOf = async ({ em }: Work, tenantId: string) =>
  limitsOf(await em.findOneOrFail(Tenant, { id: tenantId }));

/**
 * Checks that the plan allows one more key. Keys that a rotation has replaced do not count, so that a project
 * at its limit can rotate. To be called with the project locked.
 *
 * @throws PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED, CONFLICT LIMIT_REACHED
 */
export const checkPlanRoom = async (work: Work, tenantId: string, projectId: string): Promise<void> => {
  const { activeKeysPerProject: max } = await planOf(work, tenantId);
  const count = await work.em.count(ApiKey, { ...working(work, projectId), replacedBy: null });
  if (max !== null && count >= max) {
    throw planLimitExceeded(
      `Your plan allows ${max} active API keys for each project; revoke one or choose a larger plan`,
      { metric: "activeKeysPerProject", limit: max, used: count },
    );
  }
  await checkRoom(work, projectId);
};

/** Checks the limit that holds for all plans; with the project locked. @throws CONFLICT LIMIT_REACHED */
export const checkRoom = async (work: Work, projectId: string): Promise<void> => {
  if ((await work.em.count(ApiKey, working(work, projectId))) < WORKING_KEYS_MAX) return;
  throw conflict(
    "LIMIT_REACHED",
    `A project has at most ${WORKING_KEYS_MAX} active API keys; revoke one first`,
  );
};

const working = ({ now }: Work, projectId: string) => ({
  projectId,
  status: "ACTIVE" as const,
  $or: [{ expiresAt: null }, { expiresAt: { $gt: now } }],
});

/**
 * Maximum keys marked by one run; the rest waits for the next. Each is rejected from its expiry on anyway.
 */
const EXPIRED_AT_ONCE_MAX = 10_000;

/** Marks expired keys as EXPIRED; those being changed concurrently wait for the next run. */
export const markExpiredKeys = async ({ db, now }: Work): Promise<void> => {
  const at = now.toISOString();
  await sql`
    update api_keys set status = 'EXPIRED', updated_at = ${at}::timestamptz
    where id in (
      select id from api_keys where status = 'ACTIVE' and expires_at <= ${at}::timestamptz
      limit ${EXPIRED_AT_ONCE_MAX} for update skip locked)`.execute(db);
};
