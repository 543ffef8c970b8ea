import { LockMode } from "@mikro-orm/core";
import { actorOf, type Role } from "../caller.ts";
import { conflict, invalid, notFound } from "../errors.ts";
import type { Json } from "../events.ts";
import { isId, newId } from "../ids.ts";
import { getProject } from "../projects/projects.ts";
import { lockSandbox } from "../projects/sandboxes.ts";
import type { Project } from "../projects/project.ts";
import type { Work } from "../work.ts";
import { ApiKey, type ApiKeyStatus } from "./api-key.ts";
import { forgetKeys } from "./authenticate.ts";
import { checkCeiling, expandScopes } from "./scopes.ts";
import { type ApiKeyHasher, type Environment, newSecret, prefixOf } from "./secret.ts";

export const ACTIVE_KEYS_MAX = 500;
/** Revoked and expired keys stay listed this long. */
export const ENDED_KEYS_DAYS = 90;
/** Entries of one list; what is active comes before what has ended. */
export const LISTED_KEYS_MAX = 1_000;
export const KEY_METADATA_MAX_BYTES = 4_096;

export type NewApiKey = {
  name: string;
  scopes?: string[] | undefined;
  environment: Environment;
  /** Requests per minute. */
  rateLimit?: number | undefined;
  expiresAt?: Date | undefined;
  metadata?: Json | undefined;
};

/** As on the wire; what is not set is absent. */
export type ShownApiKey = {
  id: string;
  projectId: string;
  name: string;
  prefix: string;
  scopes: string[];
  status: ApiKeyStatus;
  rateLimit?: number;
  expiresAt?: string;
  lastUsedAt?: string;
  metadata: Json;
  createdAt: string;
  updatedAt: string;
  deletedAt: string | null;
};

const isExpired = (key: ApiKey, now: Date): boolean =>
  key.status === "EXPIRED" || (key.status === "ACTIVE" && key.expiresAt != null && key.expiresAt <= now);

export const showApiKey = (key: ApiKey, now: Date): ShownApiKey => ({
  id: key.id,
  projectId: key.projectId,
  name: key.name,
  prefix: key.prefix,
  scopes: key.scopes,
  status: isExpired(key, now) ? "EXPIRED" : key.status,
  ...(key.rateLimit == null ? {} : { rateLimit: key.rateLimit }),
  ...(key.expiresAt == null ? {} : { expiresAt: key.expiresAt.toISOString() }),
  ...(key.lastUsedAt == null ? {} : { lastUsedAt: key.lastUsedAt.toISOString() }),
  metadata: key.metadata,
  createdAt: key.createdAt.toISOString(),
  updatedAt: key.updatedAt.toISOString(),
  deletedAt: key.deletedAt?.toISOString() ?? null,
});

/** Whose project, and as whom: a role grants no more than it has. */
export type Granter = { tenantId: string; role: Role; projectId: string };

/**
 * Makes a key; `secret` is seen here once and never again. A test key acts on the project's sandbox, which
 * the first one creates.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR (unknown scope, past expiry, metadata), FORBIDDEN INSUFFICIENT_ROLE,
 *   CONFLICT LIMIT_REACHED, INVALID_STATE
 */
export const createApiKey = async (
  work: Work,
  apiKeys: ApiKeyHasher,
  granter: Granter,
  body: NewApiKey,
): Promise<{ apiKey: ApiKey; secret: string }> => {
  const { em, now } = work;
  const project = await keysProject(work, granter.tenantId, granter.projectId);
  const scopes = expandScopes(body.scopes);
  checkCeiling(granter.role, scopes);
  if (body.expiresAt) checkExpiry(body.expiresAt, now);
  const metadata = checkMetadata(body.metadata ?? {});
  await checkRoom(work, project.id);
  const actsOn = body.environment === "test" ? await lockSandbox(work, project) : project;
  const secret = newSecret(body.environment);
  const apiKey = em.create(ApiKey, {
    id: newId(),
    projectId: project.id,
    actsOnProjectId: actsOn.id,
    name: body.name,
    prefix: prefixOf(secret),
    secretHash: apiKeys.hash(secret),
    scopes,
    status: "ACTIVE",
    rateLimit: body.rateLimit ?? null,
    expiresAt: body.expiresAt ?? null,
    lastUsedAt: null,
    metadata,
    createdBy: work.by ? actorOf(work.by.caller) : null,
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
  { tenantId, projectId }: Omit<Granter, "role">,
  includeRevoked: boolean,
): Promise<ApiKey[]> => {
  const { em, now } = work;
  const project = await keysProject(work, tenantId, projectId);
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
export const getApiKey = async (
  work: Work,
  { tenantId, projectId }: Omit<Granter, "role">,
  keyId: string,
): Promise<ApiKey> => {
  const project = await keysProject(work, tenantId, projectId);
  const key = isId(keyId) ? await work.em.findOne(ApiKey, { id: keyId, projectId: project.id }) : null;
  if (!key) throw notFound("API key");
  return key;
};

/** Ends a key for good; every process refuses it within 5 s. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const revokeApiKey = async (
  work: Work,
  owner: Omit<Granter, "role">,
  keyId: string,
): Promise<ApiKey> => {
  const { em, now } = work;
  const key = await getApiKey(work, owner, keyId);
  await em.refresh(key, { lockMode: LockMode.PESSIMISTIC_WRITE });
  if (key.status !== "ACTIVE" || isExpired(key, now)) {
    throw conflict("INVALID_STATE", `The API key is already ${isExpired(key, now) ? "EXPIRED" : key.status}`);
  }
  Object.assign(key, { status: "REVOKED", deletedAt: now, updatedAt: now } satisfies Partial<ApiKey>);
  work.afterCommit(forgetKeys);
  return key;
};

/** Keys belong to the project whose data is real, even those that act on its sandbox. */
const keysProject = async (work: Work, tenantId: string, projectId: string): Promise<Project> => {
  const project = await getProject(work, tenantId, projectId);
  if (project.sandboxOf == null) return project;
  throw conflict(
    "INVALID_STATE",
    `A sandbox has no keys of its own; make a key of project ${project.sandboxOf} with environment "test"`,
  );
};

/** Dates of later years have no ISO 8601 form of four digits. */
const YEAR_MAX = 9_999;

const checkExpiry = (expiresAt: Date, now: Date): void => {
  if (expiresAt <= now) throw invalid("expiresAt", "must be in the future");
  if (expiresAt.getUTCFullYear() > YEAR_MAX)
    throw invalid("expiresAt", `must be in year ${YEAR_MAX} or before`);
};

const checkMetadata = (metadata: Json): Json => {
  if (Buffer.byteLength(JSON.stringify(metadata)) > KEY_METADATA_MAX_BYTES) {
    throw invalid("metadata", "must be at most 4 KiB of JSON");
  }
  return metadata;
};

const checkRoom = async ({ em, now }: Work, projectId: string): Promise<void> => {
  const live = { $or: [{ expiresAt: null }, { expiresAt: { $gt: now } }] };
  const count = await em.count(ApiKey, { projectId, status: "ACTIVE", ...live });
  if (count >= ACTIVE_KEYS_MAX) {
    throw conflict(
      "LIMIT_REACHED",
      `A project has at most ${ACTIVE_KEYS_MAX} active API keys; revoke one first`,
    );
  }
};
