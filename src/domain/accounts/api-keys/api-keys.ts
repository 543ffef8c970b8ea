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

/** Revoked and expired keys stay listed this long. */
const ENDED_KEYS_DAYS = 90;
/** Entries of one list; what is active comes before what has ended. */
const LISTED_KEYS_MAX = 1_000;

export type NewApiKey = KeyFields & {
  name: string;
  scopes?: string[] | undefined;
  environment: Environment;
};
/** What is absent stays; null takes a limit or an expiry away. `metadata` is replaced as a whole. */
export type ApiKeyChange = KeyFields & { name?: string | undefined; scopes?: string[] | undefined };

/** Whose project's keys. */
export type KeyOwner = { tenantId: string; projectId: string };
/** And as whom: a role grants no more than it may. */
export type Granter = KeyOwner & { role: Role };

/** A key and its secret, which is seen here once and never again. */
export type MadeKey = { apiKey: ApiKey; secret: string };

/**
 * Makes a key. A test key acts on the project's sandbox, which the first one creates.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR (unknown scope, past expiry, metadata, rate limit), FORBIDDEN
 *   INSUFFICIENT_ROLE, PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED, CONFLICT LIMIT_REACHED, INVALID_STATE
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

/** Writes a key that has passed every check. */
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

/** Newest first. Without `includeRevoked`: ACTIVE and EXPIRED keys. */
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
    // ACTIVE, EXPIRED, REVOKED is also the order of the alphabet.
    { orderBy: [{ status: "asc" }, { createdAt: "desc" }, { id: "desc" }], limit: LISTED_KEYS_MAX },
  );
  return keys.toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime() || (a.id < b.id ? 1 : -1));
};

/** @throws NOT_FOUND also for another project's or tenant's key */
export const getApiKey = async (work: Work, owner: KeyOwner, keyId: string): Promise<ApiKey> => {
  const project = await keysProject(work, owner);
  const key = isId(keyId) ? await work.em.findOne(ApiKey, { id: keyId, projectId: project.id }) : null;
  if (!key) throw notFound("API key");
  return key;
};

/** As `getApiKey`, held against other changes until the commit. */
export const lockApiKey = async (work: Work, owner: KeyOwner, keyId: string): Promise<ApiKey> => {
  const key = await getApiKey(work, owner, keyId);
  await work.em.refresh(key, { lockMode: LockMode.PESSIMISTIC_WRITE });
  return key;
};

/** What has ended stays ended. @throws CONFLICT INVALID_STATE */
export const requireActive = (key: ApiKey, now: Date): void => {
  const status = isExpired(key, now) ? "EXPIRED" : key.status;
  if (status !== "ACTIVE")
    throw conflict("INVALID_STATE", `The API key is already ${status}; create another one`);
};

/**
 * Changes a key; every process goes by it within 5 s. A role that may not grant what the key has, or what it
 * shall have, may not change it. The end of a key that a rotation has replaced can only come sooner.
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
  // What is in the metadata is the tenant's own affair.
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

/** Ends a key for good; every process refuses it within 5 s. @throws NOT_FOUND, CONFLICT INVALID_STATE */
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

/** Writes what was done to a key into its tenant's audit log. */
export const auditKey = (
  work: Work,
  { tenantId }: Pick<KeyOwner, "tenantId">,
  { action, key, data }: KeyAct,
): Promise<void> => {
  const { id, projectId, name: keyName, prefix } = key;
  const about = { projectId, keyName, prefix, environment: environmentOf(key) };
  return audit(work, { action, target: { type: "api_key", id }, tenantId, data: { ...about, ...data } });
};

/** Keys belong to the project whose data is real, even those that act on its sandbox. */
const keysProject = async (work: Work, { tenantId, projectId }: KeyOwner): Promise<Project> => {
  const project = await getProject(work, tenantId, projectId);
  if (project.sandboxOf == null) return project;
  throw conflict(
    "INVALID_STATE",
    `A sandbox has no keys of its own; make a key of project ${project.sandboxOf} with environment "test"`,
  );
};

/** As `keysProject`, with the project's row locked: its keys are counted one change at a time. */
export const lockKeysProject = async (work: Work, owner: KeyOwner): Promise<Project> => {
  const { id, tenantId } = await keysProject(work, owner);
  return lockProject(work, tenantId, id);
};
