import assert from "node:assert/strict";
import { z } from "zod";
import { DEFAULT_SCOPES, DEVELOPERS, SCOPES } from "../../domain/access.ts";
import { API_KEY_STATUSES } from "../../domain/api-keys/api-key.ts";
import {
  createApiKey,
  getApiKey,
  type Granter,
  listApiKeys,
  revokeApiKey,
  showApiKey,
} from "../../domain/api-keys/api-keys.ts";
import { ENVIRONMENTS } from "../../domain/api-keys/secret.ts";
import type { Caller } from "../../domain/caller.ts";
import { Name } from "../../domain/tenants/text.ts";
import { route } from "../route.ts";

const RATE_LIMIT_MAX = 1_000_000;
const SCOPE_NAMES_MAX = 100;

const NewKeyBody = z.object({
  name: Name.meta({ example: "Game server" }),
  scopes: z
    .array(z.string().max(64))
    .max(SCOPE_NAMES_MAX)
    .optional()
    .meta({
      description:
        `${SCOPES.join(", ")}; * and resource:* stand for the scopes of today. ` +
        `Default: ${DEFAULT_SCOPES.join(", ")}`,
      example: ["events:write", "players:*"],
    }),
  environment: z
    .enum(ENVIRONMENTS)
    .default("live")
    .meta({ description: "A test key acts on the project's sandbox" }),
  rateLimit: z.int().min(1).max(RATE_LIMIT_MAX).nullish().meta({ description: "Requests per minute" }),
  expiresAt: z.iso.datetime({ offset: true }).nullish(),
  metadata: z.record(z.string(), z.unknown()).optional().meta({ description: "Free-form, at most 4 KiB" }),
});

export const ApiKeyBody = z
  .object({
    id: z.uuid(),
    projectId: z.uuid(),
    name: z.string(),
    prefix: z.string().meta({ example: "svc_live_3kTMd9aZ" }),
    scopes: z.array(z.string()),
    status: z.enum(API_KEY_STATUSES),
    rateLimit: z.int().optional().meta({ description: "Requests per minute" }),
    expiresAt: z.iso.datetime().optional(),
    lastUsedAt: z.iso.datetime().optional().meta({ description: "Exact to a minute" }),
    metadata: z.record(z.string(), z.unknown()),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
    deletedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "ApiKey" });

const ProjectParams = z.object({ projectId: z.string() });
const KeyParams = ProjectParams.extend({ keyId: z.string() });

const granterOf = (caller: Caller, projectId: string): Granter => {
  assert(caller.kind === "user", "no scope opens these operations to keys");
  return { tenantId: caller.tenantId, role: caller.role, projectId };
};

/** What all operations on keys share. */
const common = { tag: "API keys", access: { roles: DEVELOPERS }, project: "path" } as const;

export const apiKeyRoutes = [
  route({
    ...common,
    method: "get",
    path: "/projects/{projectId}/api-keys",
    id: "listApiKeys",
    summary: "List API keys of a project",
    description: "Newest first. Keys that have ended are listed for 90 days.",
    params: ProjectParams,
    query: z.object({
      includeRevoked: z
        .enum(["true", "false"])
        .optional()
        .transform((text) => text === "true")
        .meta({ description: "Also list revoked keys", override: { type: "boolean" } }),
    }),
    response: z.array(ApiKeyBody),
    run: (app, { caller, projectId, query }) =>
      app.transact(async (work) => {
        const keys = await listApiKeys(work, granterOf(caller, projectId), query.includeRevoked);
        return keys.map((key) => showApiKey(key, work.now));
      }),
  }),
  route({
    ...common,
    method: "post",
    path: "/projects/{projectId}/api-keys",
    id: "createApiKey",
    summary: "Create an API key",
    description: "`key` holds the secret and is shown only here. A DEVELOPER may not grant `manage` scopes.",
    params: ProjectParams,
    body: NewKeyBody,
    status: 201,
    response: ApiKeyBody.extend({ key: z.string().meta({ description: "The secret, for X-API-Key" }) }),
    run: (app, { caller, projectId, body: { rateLimit, expiresAt, ...body } }) =>
      app.transact(async (work) => {
        const { apiKey, secret } = await createApiKey(work, app.apiKeys, granterOf(caller, projectId), {
          ...body,
          rateLimit: rateLimit ?? undefined,
          expiresAt: expiresAt == null ? undefined : new Date(expiresAt),
        });
        return { ...showApiKey(apiKey, work.now), key: secret };
      }),
  }),
  route({
    ...common,
    method: "get",
    path: "/projects/{projectId}/api-keys/{keyId}",
    id: "getApiKey",
    summary: "Get an API key",
    params: KeyParams,
    response: ApiKeyBody,
    run: (app, { caller, projectId, params }) =>
      app.transact(async (work) =>
        showApiKey(await getApiKey(work, granterOf(caller, projectId), params.keyId), work.now),
      ),
  }),
  route({
    ...common,
    method: "delete",
    path: "/projects/{projectId}/api-keys/{keyId}",
    id: "revokeApiKey",
    summary: "Revoke an API key",
    description: "For good; within 5 seconds no process accepts the key.",
    params: KeyParams,
    response: ApiKeyBody,
    run: (app, { caller, projectId, params }) =>
      app.transact(async (work) =>
        showApiKey(await revokeApiKey(work, granterOf(caller, projectId), params.keyId), work.now),
      ),
  }),
];
