import { z } from "zod";
import {
  type Caller,
  DEFAULT_SCOPES,
  DEVELOPERS,
  EVERY_ROLE,
  SCOPES,
  userOf,
} from "../../domain/kernel/caller.ts";
import { issueWsToken } from "../../domain/player-lifecycle/ws-tokens.ts";
import { group } from "../route.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import type { App } from "../../app.ts";
import {
  API_KEY_STATUSES,
  environmentOf,
  ENVIRONMENTS,
  publishKeysChanged,
  showApiKey,
} from "../../domain/accounts/api-keys/api-key.ts";
import {
  createApiKey,
  getApiKey,
  type Granter,
  listApiKeys,
  type MadeKey,
  notifyOwnersOfKey,
  revokeApiKey,
  rotateApiKey,
  updateApiKey,
} from "../../domain/accounts/api-keys/api-keys.ts";
import { Name } from "../../domain/accounts/tenants/tenant.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { requireVerifiedEmail } from "../access.ts";
import { ExternalUserId } from "./player-bodies.ts";
import { Flag, graceSeconds } from "./bodies.ts";

const WsTokenBody = z.object({
  playerId: z
    .string()
    .min(1)
    .max(260)
    .optional()
    .meta({ description: "UUID, or ext: and the externalUserId" }),
  externalUserId: ExternalUserId.optional(),
  projectId: z
    .uuid()
    .optional()
    .meta({ description: "Project of a console token; default: the tenant's only one" }),
});

const connect = group({
  tag: "Authentication",
  project: "optional",
  access: { scope: "realtime:connect", roles: EVERY_ROLE },
});

export const wsTokenRoutes = [
  connect.post("/auth/ws-token", "createWsToken", {
    summary: "Get a WebSocket token",
    description:
      "An API key gets a player's token for playerId or externalUserId; an unknown externalUserId creates " +
      "the player when the project allows it. A console user gets a token for a project. " +
      "Pass it as auth.token of the connection.",
    takesNoIdempotencyKey: true,
    // A key names the player; only a user of one project has nothing to say.
    needsBody: true,
    body: WsTokenBody,
    example: { externalUserId: "user-1" },
    response: z.object({
      token: z.string(),
      expiresIn: z.int().meta({ description: "Seconds", example: 900 }),
      expiresAt: z.iso.datetime(),
      playerId: z.uuid().optional().meta({ description: "Absent for a console token" }),
    }),
    outside: async (app, { caller, projectId, body }) => {
      const signed = await issueWsToken(app, caller, {
        ...body,
        projectId: body.projectId ?? (projectId || undefined),
      });
      return { ...signed, expiresAt: signed.expiresAt.toISOString() };
    },
  }),
];

const RATE_LIMIT_MAX = 1_000_000;
const SCOPE_NAMES_MAX = 100;

const Scopes = z
  .array(z.string().max(64))
  .max(SCOPE_NAMES_MAX)
  .meta({
    description:
      `${SCOPES.join(", ")}; * and resource:* stand for the scopes of today. ` +
      `Default: ${DEFAULT_SCOPES.join(", ")}`,
    example: ["events:write", "players:*"],
  });
const RateLimit = z
  .int()
  .min(1)
  .max(RATE_LIMIT_MAX)
  .nullish()
  .meta({ description: "Requests per minute, at most those of the plan; null: only the plan's" });
const ExpiresAt = IsoTime.nullish().meta({ description: "null: never" });
const Metadata = z
  .record(z.string(), z.unknown())
  .optional()
  .meta({ description: "Free-form, at most 4 KiB" });

const keyFields = { rateLimit: RateLimit, expiresAt: ExpiresAt, metadata: Metadata };

const NewKeyBody = z.object({
  name: Name.meta({ example: "Game server" }),
  scopes: Scopes.optional(),
  environment: z
    .enum(ENVIRONMENTS)
    .default("live")
    .meta({ description: "A test key acts on the project's sandbox" }),
  ...keyFields,
});

const ChangeBody = z.object({
  name: Name.optional(),
  scopes: Scopes.optional(),
  ...keyFields,
});

const RotateBody = z.object({
  gracePeriodSeconds: graceSeconds("The old key works on for so long; 0 ends it at once"),
  expiresAt: ExpiresAt.meta({ description: "Of the new key; default as the old one had it, null: never" }),
});

const ApiKeyBody = z
  .object({
    id: z.uuid(),
    projectId: z.uuid(),
    name: z.string(),
    prefix: z.string().meta({ example: "svc_live_3kTMd9aZ" }),
    environment: z.enum(ENVIRONMENTS),
    scopes: z.array(z.string()),
    status: z.enum(API_KEY_STATUSES),
    rateLimit: z.int().optional().meta({ description: "Requests per minute" }),
    expiresAt: z.iso.datetime().optional(),
    lastUsedAt: z.iso.datetime().optional().meta({ description: "Exact to a minute" }),
    metadata: z.record(z.string(), z.unknown()),
    createdBy: z.string().optional().meta({ example: "user:0198c0de-0000-7000-8000-000000000000" }),
    replacedBy: z.uuid().optional().meta({ description: "The key that a rotation made in its place" }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
    deletedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "ApiKey" });

const granterOf = (caller: Caller, projectId: string): Granter => {
  const { tenantId, role } = userOf(caller);
  return { tenantId, role, projectId };
};

const dateOf = (text: string | null | undefined): Date | null | undefined =>
  text == null ? text : new Date(text);

/** Returns a new key. It may do what its scopes say, so the OWNERS are notified where data are real. */
const showMade = async (app: App, work: Work, { apiKey, secret }: MadeKey) => {
  if (environmentOf(apiKey) === "live") await notifyOwnersOfKey(work, app.mail, apiKey);
  return { ...showApiKey(apiKey, work.now), key: secret };
};

const MadeKeyBody = ApiKeyBody.extend({
  key: z.string().meta({ description: "The secret, for X-API-Key; shown only here" }),
});

/** Properties shared by all operations on keys. */
const common = group({ tag: "API keys", access: { roles: DEVELOPERS }, project: "path" });

export const apiKeyRoutes = [
  common.get("/projects/{projectId}/api-keys", "listApiKeys", {
    summary: "List API keys of a project",
    description: "Newest first. Keys that have ended are listed for 90 days.",
    query: z.object({
      includeRevoked: Flag.meta({ description: "Also list revoked keys" }),
    }),
    response: z.array(ApiKeyBody),
    run: async (work, { caller, projectId, query }) => {
      const keys = await listApiKeys(work, granterOf(caller, projectId), query.includeRevoked === true);
      return keys.map((key) => showApiKey(key, work.now));
    },
  }),
  common.get("/projects/{projectId}/api-keys/{keyId}", "getApiKey", {
    summary: "Get an API key",
    response: ApiKeyBody,
    run: async (work, { caller, projectId, params }) =>
      showApiKey(await getApiKey(work, granterOf(caller, projectId), params.keyId), work.now),
  }),
  common.post("/projects/{projectId}/api-keys", "createApiKey", {
    summary: "Create an API key",
    description:
      "`key` holds the secret and is shown only here. A DEVELOPER may not grant `manage` scopes. A live " +
      "key needs a verified email address, and the OWNERS are notified by email.",
    body: NewKeyBody,
    example: { name: "Game server", scopes: ["events:write", "players:*"] },
    status: 201,
    response: MadeKeyBody,
    errors: ["PAYMENT_REQUIRED"],
    outside: (app, { caller, projectId, body }) => {
      if (body.environment === "live") requireVerifiedEmail(caller, app.config);
      return app.transact(async (work) => {
        const wanted = { ...body, expiresAt: dateOf(body.expiresAt) };
        const granter = granterOf(caller, projectId);
        return showMade(app, work, await createApiKey(work, app.apiKeys, granter, wanted));
      });
    },
  }),
  common.post("/projects/{projectId}/api-keys/{keyId}/rotate", "rotateApiKey", {
    summary: "Replace an API key by a new one",
    description:
      "Answers the new key: same name, scopes, rate limit, metadata and environment. The old one works on " +
      "for the grace period and names the new one in `replacedBy`; meanwhile it counts for no limit of keys.",
    body: RotateBody,
    example: { gracePeriodSeconds: 3600 },
    status: 201,
    response: MadeKeyBody,
    run: async (work, { caller, projectId, params, body }, app) => {
      const granter = granterOf(caller, projectId);
      const old = await getApiKey(work, granter, params.keyId);
      if (environmentOf(old) === "live") requireVerifiedEmail(caller, app.config);
      const rotation = { ...body, keyId: old.id, expiresAt: dateOf(body.expiresAt) };
      publishKeysChanged(work, app.topics);
      return showMade(app, work, await rotateApiKey(work, app.apiKeys, granter, rotation));
    },
  }),
  common.patch("/projects/{projectId}/api-keys/{keyId}", "updateApiKey", {
    summary: "Change an API key",
    description:
      "Changes the given fields, within 5 seconds everywhere; null removes `rateLimit` or `expiresAt`, and " +
      "`metadata` is replaced as a whole. A DEVELOPER may not change a key that has `manage` scopes.",
    body: ChangeBody,
    example: { name: "Game server of Europe", rateLimit: 100 },
    response: ApiKeyBody,
    run: async (work, { caller, projectId, params, body }, app) => {
      const change = { ...body, expiresAt: dateOf(body.expiresAt) };
      publishKeysChanged(work, app.topics);
      const key = await updateApiKey(work, granterOf(caller, projectId), params.keyId, change);
      return showApiKey(key, work.now);
    },
  }),
  common.delete("/projects/{projectId}/api-keys/{keyId}", "revokeApiKey", {
    summary: "Revoke an API key",
    description: "For good; within 5 seconds no process accepts the key.",
    response: ApiKeyBody,
    run: async (work, { caller, projectId, params }, app) => {
      publishKeysChanged(work, app.topics);
      const key = await revokeApiKey(work, granterOf(caller, projectId), params.keyId);
      return showApiKey(key, work.now);
    },
  }),
];
