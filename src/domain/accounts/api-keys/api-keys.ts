import { LockMode } from "@mikro-orm/core";
import { audit } from "../audit/audit.ts";
import { actorOf, type Role } from "../../kernel/caller.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { isId, newId } from "../../kernel/ids.ts";
import type { Project } from "../projects/project.ts";
import { getProject, lockProject } from "../projects/projects.ts";
import { lockSandbox } from "../projects/sandboxes.ts";
import type { Work } from "../../kernel/work.ts";
import { ApiKey, environmentOf, isExpired } from "./api-key.ts";
import { forgetKeys } from "./authenticate.ts";
import { checkKeyFields, checkPlanRoom, type KeyFields } from "./checks.ts";
import { checkCeiling, expandScopes } from "./scopes.ts";
import { type ApiKeyHasher, type Environment, newSecret, prefixOf } from "./secret.ts";

/** Days for which revoked and expired keys are listed. */
const ENDED_KEYS_DAYS = 90;
/** Maximum entries of one list; active keys come before ended ones. */
const LISTED_KEYS_MAX = 1_000;

export type NewApiKey = KeyFields & {
  name: string;
  scopes?: string[] | undefined;
  environment: Environment;
};
/** Absent fields are unchanged; null removes a limit or an expiry. `metadata` is replaced as a whole. */
export type ApiKeyChange = KeyFields & { name?: string | undefined; scopes?: string[] | undefined };

/** The project that owns a key. */
export type KeyOwner = { tenantId: string; projectId: string };
/** The owner with the caller's role, which limits the scopes that can be granted. */
export type Granter = KeyOwner & { role: Role };

/** A key and its secret, which is only returned here. */
export type MadeKey = { apiKey: ApiKey; secret: string };

/**
 * Creates a key. A test key acts on the project's sandbox, which is created with the first one.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR (unknown scope, past expiry, metadata, rate limit), FORBIDDEN
 * INSUFFICIENT_ROLE, PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED, CONFLICT LIMIT_REACHED, INVALID_STATE
 */
export const createApiKey = async (
  work: Work,
  apiKeys: ApiKeyHasher,
  granter: Granter,
  body: NewApiKey,
): Promise<MadeKey> => {
  const project = await lockKeysProject(work, granter);
  const scopes = expandScopes(body.scopes);
  checkCeiling(granter.role, scopes);
  await checkKeyFields(work, granter.tenantId, body);
  await checkPlanRoom(work, granter.tenantId, project.id);
  const actsOn = body.environment === "test" ? await lockSandbox(work, project) : project;
  const made = await insertKey(work, apiKeys, {
    projectId: project.id,
    actsOnProjectId: actsOn.id,
    name: body.name,
    scopes,
    rateLimit: body.rateLimit ?? null,
    expiresAt: body.expiresAt ?? null,
    metadata: body.metadata ?? {},
  });
  await auditKey(work, granter, { action: "api_key.created", key: made.apiKey, data: { scopes } });
  return made;
};

export type KeyParts = {
  projectId: string;
  actsOnProjectId: string;
  name: string;
  scopes: string[];
  rateLimit: number | null;
  expiresAt: Date | null;
  metadata: Json;
};

/** Inserts a key that has passed all checks. */
export const insertKey = async (work: Work, apiKeys: ApiKeyHasher, parts: KeyParts): Promise<MadeKey> => {
  const { em, by, now } = work;
  const environment = parts.actsOnProjectId === parts.projectId ? "live" : "test";
  const secret = newSecret(environment);
  const apiKey = em.create(ApiKey, {
    ...parts,
    id: newId(),
    prefix: prefixOf(secret),
    secretHash: apiKeys.hash(secret),
    status: "ACTIVE",
    lastUsedAt: null,
    createdBy: by ? actorOf(by.caller) : null,
    replacedBy: null,
    createdAt: now,
    updatedAt: now,
    deletedAt: null,
  });
  await em.flush();
  return { apiKey, secret };
};

/** Returns keys, newest first. Without `includeRevoked`: ACTIVE and EXPIRED keys. */
export const listApiKeys = async (
  work: Work,
  owner: KeyOwner,
  includeRevoked: boolean,
): Promise<ApiKey[]> => {
  const { em, now } = work;
  const project = await keysProject(work, owner);
  const since = new Date(now.getTime() - ENDED_KEYS_DAYS * 86_400_000);
  const keys = await em.find(
    ApiKey,
    {
      projectId: project.id,
      $or: [
        { status: "ACTIVE" },
        { status: "EXPIRED", expiresAt: { $gt: since } },
        ...(includeRevoked ? [{ status: "REVOKED" as const, deletedAt: { $gt: since } }] : []),
      ],
    },
    // ACTIVE, EXPIRED, REVOKED is also the alphabetical order.
    { orderBy: [{ status: "asc" }, { createdAt: "desc" }, { id: "desc" }], limit: LISTED_KEYS_MAX },
  );
  return keys.toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime() || (a.id < b.id ? 1 : -1));
};

/** @throws NOT_FOUND also for a key of another project or tenant */
export const getApiKey = async (work: Work, owner: KeyOwner, keyId: string): Promise<ApiKey> => {
  const project = await keysProject(work, owner);
  const key = isId(keyId) ? await work.em.findOne(ApiKey, { id: keyId, projectId: project.id }) : null;
  if (!key) throw notFound("API key");
  return key;
};

/** As `getApiKey`, locked until the commit. */
export const lockApiKey = async (work: Work, owner: KeyOwner, keyId: string): Promise<ApiKey> => {
  const key = await getApiKey(work, owner, keyId);
  await work.em.refresh(key, { lockMode: LockMode.PESSIMISTIC_WRITE });
  return key;
};

/** Rejects keys that have ended. @throws CONFLICT INVALID_STATE */
export const requireActive = (key: ApiKey, now: Date): void => {
  const status = isExpired(key, now) ? "EXPIRED" : key.status;
  if (status !== "ACTIVE")
    throw conflict("INVALID_STATE", `The API key is already ${status}; create another one`);
};

/**
 * Changes a key. A role that may not grant the key's scopes, old or
 * new, may not change it. The expiry of a key that a rotation has replaced can only be brought forward.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR, FORBIDDEN INSUFFICIENT_ROLE, CONFLICT INVALID_STATE
 */
export const updateApiKey = async (
  work: Work,
  granter: Granter,
  keyId: string,
  change: ApiKeyChange,
): Promise<ApiKey> => {
  const key = await lockApiKey(work, granter, keyId);
  checkCeiling(granter.role, key.scopes);
  const scopes = change.scopes && expandScopes(change.scopes);
  checkCeiling(granter.role, scopes ?? []);
  requireActive(key, work.now);
  await checkKeyFields(work, granter.tenantId, change);
  checkReplaced(key, change.expiresAt);
  const changed = Object.entries({ ...change, scopes }).filter(([, value]) => value !== undefined);
  if (changed.length === 0) return key;
  Object.assign(key, Object.fromEntries(changed), { updatedAt: work.now });
  // Metadata is the tenant's own data and is not logged.
  const data = Object.fromEntries(changed.map(([name, value]) => [name, name === "metadata" ? null : value]));
  await auditKey(work, granter, { action: "api_key.updated", key, data });
  work.afterCommit(forgetKeys);
  return key;
};

const checkReplaced = (key: ApiKey, expiresAt: Date | null | undefined): void => {
  if (key.replacedBy == null || key.expiresAt == null || expiresAt === undefined) return;
  if (expiresAt !== null && expiresAt <= key.expiresAt) return;
  throw conflict(
    "INVALID_STATE",
    `API key ${key.replacedBy} has replaced this one, which can end sooner but not later`,
  );
};

/** Revokes a key for good. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const revokeApiKey = async (work: Work, owner: KeyOwner, keyId: string): Promise<ApiKey> => {
  const { now } = work;
  const key = await lockApiKey(work, owner, keyId);
  requireActive(key, now);
  Object.assign(key, { status: "REVOKED", deletedAt: now, updatedAt: now } satisfies Partial<ApiKey>);
  await auditKey(work, owner, { action: "api_key.revoked", key });
  work.afterCommit(forgetKeys);
  return key;
};

type KeyAct = { action: string; key: ApiKey; data?: Record<string, unknown> };

/** Records an action on a key in its tenant's audit log. */
export const auditKey = (
  work: Work,
  { tenantId }: Pick<KeyOwner, "tenantId">,
  { action, key, data }: KeyAct,
): Promise<void> => {
  const { id, projectId, name: keyName, prefix } = key;
  const about = { projectId, keyName, prefix, environment: environmentOf(key) };
  return audit(work, { action, target: { type: "api_key", id }, tenantId, data: { ...about, ...data } });
};

/** Keys belong to the project with the real data, even those that act on its sandbox. */
const keysProject = async (work: Work, { tenantId, projectId }: KeyOwner): Promise<Project> => {
  const project = await getProject(work, tenantId, projectId);
  if (project.sandboxOf == null) return project;
  throw conflict(
    "INVALID_STATE",
    `A sandbox has no keys of its own; make a key of project ${project.sandboxOf} with environment "test"`,
  );
};

/**
 * As `keysProject`, with the project's row locked, so that changes of its keys are serialised for counting.
 */
export const lockKeysProject = async (work: Work, owner: KeyOwner): Promise<Project> => {
  const { id, tenantId } = await keysProject(work, owner);
  return lockProject(work, tenantId, id);
};
