import { LockMode } from "@mikro-orm/core";
import {
  ApiKey,
  type ApiKeyHasher,
  checkKeyFields,
  checkPlanRoom,
  checkRoom,
  type Environment,
  environmentOf,
  forgetKeys,
  isExpired,
  type KeyFields,
  newSecret,
  prefixOf,
} from "./api-key.ts";
import { audit } from "../audit/audit.ts";
import { type Mail, mailUser } from "../email/mail.ts";
import { Project } from "../projects/project.ts";
import { getProject, lockProject, lockSandbox } from "../projects/projects.ts";
import { ownersOf } from "../tenants/notify-owners.ts";
import {
  actorOf,
  ADMINS,
  DEFAULT_SCOPES,
  DEVELOPERS,
  type Role,
  type Scope,
  SCOPES,
} from "../../kernel/caller.ts";
import { conflict, DomainError, forbidden } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { getRow, type Work } from "../../kernel/work.ts";

/** Notifies the OWNERS of a new key by mail, except its creator. */
export const notifyOwnersOfKey = async (work: Work, mail: Mail, key: ApiKey): Promise<void> => {
  const { em, by } = work;
  const { tenantId, name: projectName } = await em.findOneOrFail(Project, { id: key.projectId });
  const maker = by ? actorOf(by.caller) : "";
  for (const owner of await ownersOf(work, tenantId)) {
    if (maker === `user:${owner.id}`) continue;
    const values = { name: owner.name, keyName: key.name, keyPrefix: key.prefix, projectName };
    await mailUser(work, mail, owner, { template: "api-key-created", values });
  }
};

/**
 * Roles that may grant a scope to a key: a DEVELOPER may not change definitions, so neither may such keys.
 */
const GRANTED_BY: Readonly<Record<Scope, readonly Role[]>> = {
  "events:read": DEVELOPERS,
  "events:write": DEVELOPERS,
  "players:read": DEVELOPERS,
  "players:write": DEVELOPERS,
  "rules:read": DEVELOPERS,
  "rules:manage": ADMINS,
  "leaderboards:read": DEVELOPERS,
  "leaderboards:write": DEVELOPERS,
  "leaderboards:manage": ADMINS,
  "quests:read": DEVELOPERS,
  "quests:write": DEVELOPERS,
  "quests:manage": ADMINS,
  "adventures:read": DEVELOPERS,
  "adventures:write": DEVELOPERS,
  "adventures:manage": ADMINS,
  "lobbies:read": DEVELOPERS,
  "lobbies:write": DEVELOPERS,
  "chat:read": DEVELOPERS,
  "chat:write": DEVELOPERS,
  "chat:moderate": ADMINS,
  "config:read": DEVELOPERS,
  "config:manage": ADMINS,
  "projects:read": DEVELOPERS,
  "realtime:connect": DEVELOPERS,
  "webhooks:read": DEVELOPERS,
  "webhooks:write": DEVELOPERS,
  "analytics:read": DEVELOPERS,
};

const isScope = (text: string): text is Scope => (SCOPES as readonly string[]).includes(text);

const matching = (wanted: string): readonly Scope[] => {
  if (isScope(wanted)) return [wanted];
  if (wanted === "*") return SCOPES;
  return wanted.endsWith(":*") ? SCOPES.filter((scope) => scope.startsWith(wanted.slice(0, -1))) : [];
};

/**
 * Expands `wanted` to scopes; `*` and `players:*` stand for the scopes of today, so that scopes added later
 * are not granted silently. Absent: the default scopes. @throws VALIDATION_ERROR naming each unknown scope
 */
export const expandScopes = (wanted: readonly string[] | undefined): Scope[] => {
  if (wanted === undefined) return [...DEFAULT_SCOPES];
  const unknown = wanted.filter((scope) => matching(scope).length === 0);
  if (unknown.length > 0) {
    throw new DomainError("VALIDATION_ERROR", `Unknown scope: ${unknown.join(", ")}`, {
      details: wanted.flatMap((scope, at) =>
        unknown.includes(scope)
          ? [{ field: `scopes.${at}`, message: `unknown scope ${scope}; known are ${SCOPES.join(", ")}` }]
          : [],
      ),
    });
  }
  const granted = new Set(wanted.flatMap(matching));
  return SCOPES.filter((scope) => granted.has(scope));
};

const mayGrant = (role: Role, scope: string): boolean =>
  (isScope(scope) ? GRANTED_BY[scope] : ADMINS).includes(role);

/**
 * Rejects creating, changing or rotating a key with scopes that the role may not grant. @throws FORBIDDEN
 * INSUFFICIENT_ROLE
 */
export const checkCeiling = (role: Role, scopes: readonly string[]): void => {
  const above = scopes.filter((scope) => !mayGrant(role, scope));
  if (above.length === 0) return;
  throw forbidden(
    "INSUFFICIENT_ROLE",
    `Your role ${role} may not grant ${above.join(", ")}; ask an OWNER or ADMIN`,
  );
};

/** Days for which revoked and expired keys are listed. */
const ENDED_KEYS_DAYS = 90;
/** Maximum entries of one list; active keys come before ended ones. */
const LISTED_KEYS_MAX = 1_000;

type NewApiKey = KeyFields & {
  name: string;
  scopes?: string[] | undefined;
  environment: Environment;
};
/** Absent fields are unchanged; null removes a limit or an expiry. `metadata` is replaced as a whole. */
type ApiKeyChange = KeyFields & { name?: string | undefined; scopes?: string[] | undefined };

/** The project that owns a key. */
type KeyOwner = { tenantId: string; projectId: string };
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

type KeyParts = {
  projectId: string;
  actsOnProjectId: string;
  name: string;
  scopes: string[];
  rateLimit: number | null;
  expiresAt: Date | null;
  metadata: Json;
};

/** Inserts a key that has passed all checks. */
const insertKey = async (work: Work, apiKeys: ApiKeyHasher, parts: KeyParts): Promise<MadeKey> => {
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
  return getRow(work, ApiKey, "API key", { id: keyId, projectId: project.id });
};

/** As `getApiKey`, locked until the commit. */
const lockApiKey = async (work: Work, owner: KeyOwner, keyId: string): Promise<ApiKey> => {
  const key = await getApiKey(work, owner, keyId);
  await work.em.refresh(key, { lockMode: LockMode.PESSIMISTIC_WRITE });
  return key;
};

/** Rejects keys that have ended. @throws CONFLICT INVALID_STATE */
const requireActive = (key: ApiKey, now: Date): void => {
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
const auditKey = (
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
const lockKeysProject = async (work: Work, owner: KeyOwner): Promise<Project> => {
  const { id, tenantId } = await keysProject(work, owner);
  return lockProject(work, tenantId, id);
};

type Rotation = {
  keyId: string;
  gracePeriodSeconds: number;
  /** Of the new key; absent: the same as the old one's. */
  expiresAt?: Date | null | undefined;
};

/**
 * Replaces a key by a new one with the same name, scopes, limit, metadata and environment. The old one stays
 * valid for the grace period, but no longer than before, and refers to the new one. Of two concurrent
 * rotations, one succeeds.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR, FORBIDDEN INSUFFICIENT_ROLE, CONFLICT INVALID_STATE, LIMIT_REACHED
 */
export const rotateApiKey = async (
  work: Work,
  apiKeys: ApiKeyHasher,
  granter: Granter,
  { keyId, gracePeriodSeconds, expiresAt }: Rotation,
): Promise<MadeKey> => {
  const project = await lockKeysProject(work, granter);
  const old = await lockApiKey(work, granter, keyId);
  checkCeiling(granter.role, old.scopes);
  requireActive(old, work.now);
  if (old.replacedBy != null)
    throw conflict("INVALID_STATE", `API key ${old.replacedBy} has replaced this one; rotate that one`);
  await checkKeyFields(work, granter.tenantId, { expiresAt });
  await checkRoom(work, project.id);
  const { projectId, actsOnProjectId, name, scopes, rateLimit = null, metadata } = old;
  const made = await insertKey(work, apiKeys, {
    projectId,
    actsOnProjectId,
    name,
    scopes,
    rateLimit,
    expiresAt: expiresAt === undefined ? (old.expiresAt ?? null) : expiresAt,
    metadata,
  });
  endAfter(old, work.now, gracePeriodSeconds);
  Object.assign(old, { replacedBy: made.apiKey.id, updatedAt: work.now } satisfies Partial<ApiKey>);
  const data = { newKeyId: made.apiKey.id, newPrefix: made.apiKey.prefix, expiresAt: old.expiresAt };
  await auditKey(work, granter, { action: "api_key.rotated", key: old, data });
  work.afterCommit(forgetKeys);
  return made;
};

const endAfter = (key: ApiKey, now: Date, seconds: number): void => {
  const end = new Date(now.getTime() + seconds * 1_000);
  if (key.expiresAt == null || end < key.expiresAt) key.expiresAt = end;
};
