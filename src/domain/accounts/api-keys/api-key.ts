import { defineEntity, p } from "@mikro-orm/core";
import type { Json } from "../../kernel/events/events.ts";
import type { Environment } from "./secret.ts";

export const API_KEY_STATUSES = ["ACTIVE", "REVOKED", "EXPIRED"] as const;
export type ApiKeyStatus = (typeof API_KEY_STATUSES)[number];

export const ApiKeySchema = defineEntity({
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
export type ShownApiKey = {
  id: string;
  projectId: string;
  name: string;
  prefix: string;
  environment: Environment;
  scopes: string[];
  status: ApiKeyStatus;
  rateLimit?: number;
  expiresAt?: string;
  lastUsedAt?: string;
  metadata: Json;
  createdBy?: string;
  replacedBy?: string;
  createdAt: string;
  updatedAt: string;
  deletedAt: string | null;
};

export const showApiKey = (key: ApiKey, now: Date): ShownApiKey => ({
  id: key.id,
  projectId: key.projectId,
  name: key.name,
  prefix: key.prefix,
  environment: environmentOf(key),
  scopes: key.scopes,
  status: isExpired(key, now) ? "EXPIRED" : key.status,
  ...(key.rateLimit == null ? {} : { rateLimit: key.rateLimit }),
  ...(key.expiresAt == null ? {} : { expiresAt: key.expiresAt.toISOString() }),
  ...(key.lastUsedAt == null ? {} : { lastUsedAt: key.lastUsedAt.toISOString() }),
  metadata: key.metadata,
  ...(key.createdBy == null ? {} : { createdBy: key.createdBy }),
  ...(key.replacedBy == null ? {} : { replacedBy: key.replacedBy }),
  createdAt: key.createdAt.toISOString(),
  updatedAt: key.updatedAt.toISOString(),
  deletedAt: key.deletedAt?.toISOString() ?? null,
});
