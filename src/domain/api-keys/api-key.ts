import { defineEntity, p } from "@mikro-orm/core";
import type { Json } from "../events.ts";

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
    /** As `actorOf` names them; null for keys of before this was kept. */
    createdBy: p.text().nullable(),
    /** The key that a rotation made in its place. */
    replacedBy: p.uuid().nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
    deletedAt: p.datetime(3).nullable(),
  },
});
/** A project's credential for integrations; the secret itself is not kept. */
export class ApiKey extends ApiKeySchema.class {}
ApiKeySchema.setClass(ApiKey);
