import { randomBytes } from "node:crypto";
import { defineEntity, type FilterQuery, p } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit } from "../../accounts/audit/audit.ts";
import { Project } from "../../accounts/projects/project.ts";
import { lockTenant } from "../../accounts/tenants/tenant.ts";
import { isPattern } from "./catalogue.ts";
import type { WebhookSender } from "./delivering/sender.ts";
import { actorOf, limitsOf, planLimitExceeded } from "../../kernel/caller.ts";
import { conflict, DomainError, invalid, notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { entityOrder, offsetOf, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import { countUpTo, type Total, type Work } from "../../kernel/work.ts";
import { isoOf } from "../../kernel/iso-time.ts";

/** Converts a webhook to its API form: its secret is shown only on creation. */
export const showWebhook = (webhook: Webhook) => ({
  id: webhook.id,
  tenantId: webhook.tenantId,
  projectId: webhook.projectId ?? null,
  url: webhook.url,
  events: webhook.events,
  description: webhook.description ?? null,
  status: webhook.status,
  disabledReason: webhook.disabledReason ?? null,
  secretHint: webhook.secretHint,
  previousSecretExpiresAt: webhook.previousSecret == null ? null : isoOf(webhook.previousSecretExpiresAt),
  createdBy: webhook.createdBy ?? null,
  lastSuccessAt: isoOf(webhook.lastSuccessAt),
  lastFailureAt: isoOf(webhook.lastFailureAt),
  failingSince: isoOf(webhook.failingSince),
  createdAt: webhook.createdAt.toISOString(),
  updatedAt: webhook.updatedAt.toISOString(),
});

/**
 * ACTIVE: healthy. FAILED: a delivery was given up since the last success; it still gets events. DISABLED: it
 * has failed for days, or has answered 410; it gets no new ones. PAUSED by its owners: events wait.
 */
export const WEBHOOK_STATUSES = ["ACTIVE", "FAILED", "DISABLED", "PAUSED"] as const;
export type WebhookStatus = (typeof WEBHOOK_STATUSES)[number];

const WebhookSchema = defineEntity({
  name: "Webhook",
  tableName: "webhooks",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    /** null: all projects of the tenant, but no sandbox. */
    projectId: p.uuid().nullable(),
    url: p.text(),
    /** Types, `prefix.*` or `*`: see event-types.ts. */
    events: p.array(),
    description: p.text().nullable(),
    status: p.text().$type<WebhookStatus>(),
    disabledReason: p.text().nullable(),
    /** Encrypted under the webhook's id. */
    secret: p.text(),
    /** The last four characters. */
    secretHint: p.text(),
    /** Encrypted too; signs beside the current one until it expires. */
    previousSecret: p.text().nullable(),
    previousSecretExpiresAt: p.datetime(3).nullable(),
    createdBy: p.text().nullable(),
    lastSuccessAt: p.datetime(3).nullable(),
    lastFailureAt: p.datetime(3).nullable(),
    /** The first failed attempt since the last success. */
    failingSince: p.datetime(3).nullable(),
    /** Number of deliveries given up since the last success. */
    exhausted: p.integer(),
    pausedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
    deletedAt: p.datetime(3).nullable(),
  },
});
/** An endpoint to which a tenant has events delivered. */
export class Webhook extends WebhookSchema.class {}
WebhookSchema.setClass(Webhook);

/** Minimum length of a secret chosen by the owner. */
export const SECRET_MIN = 16;
export const SECRET_MAX = 256;
/** The prefix of secrets in Standard Webhooks; base64 of the key follows. */
export const SECRET_PREFIX = "whsec_";
const SECRET_BYTES = 32;
/** Reported to the owner of a webhook that cannot be signed for, and to the operator. */
export const SECRET_UNREADABLE = "The secret of the webhook can no longer be read; rotate it";
export const SECRET_LOST = "a webhook's secret cannot be read: is its key in ENCRYPTION_KEYS?";
const HINT_CHARACTERS = 4;

/**
 * Generates `whsec_` and 32 random bytes in base64, which receivers of Standard Webhooks accept unchanged.
 */
export const newWebhookSecret = (): string => SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64");

/**
 * Whether a secret can sign by Standard Webhooks: the prefix is followed by base64 of a key with the minimum
 * length. Otherwise a decoder could turn the key into anything, even an empty one.
 */
export const isSigningSecret = (secret: string): boolean => {
  if (!secret.startsWith(SECRET_PREFIX)) return true;
  const text = secret.slice(SECRET_PREFIX.length);
  const key = Buffer.from(text, "base64");
  return key.length >= SECRET_MIN && key.toString("base64").replace(/=+$/, "") === text.replace(/=+$/, "");
};

const hintOf = (secret: string): string => secret.slice(-HINT_CHARACTERS);

type Sealed = Pick<Webhook, "id" | "secret" | "previousSecret" | "previousSecretExpiresAt">;

/**
 * Returns the secrets that sign at `now`, the current one first.
 * @throws Error when one was encrypted with a key that the server no longer has
 */
export const liveSecrets = (secretBox: SecretBox, webhook: Sealed, now: Date): string[] => {
  const { id, secret, previousSecret, previousSecretExpiresAt: until } = webhook;
  const secrets = [secretBox.open(secret, id)];
  if (previousSecret != null && until != null && until > now)
    secrets.push(secretBox.open(previousSecret, id));
  return secrets;
};

export const URL_MAX = 2_048;
/** Maximum number of patterns of one webhook. */
export const PATTERNS_MAX = 50;

export type NewWebhook = {
  url: string;
  events: readonly string[];
  secret?: string | undefined;
  projectId?: string | null | undefined;
  description?: string | null | undefined;
};
/** Absent fields stay unchanged. */
type WebhookChange = {
  url?: string | undefined;
  events?: readonly string[] | undefined;
  projectId?: string | null | undefined;
  description?: string | null | undefined;
  status?: "ACTIVE" | "PAUSED" | undefined;
};

type UrlRules = { webhookSender: WebhookSender; config: { isProduction: boolean } };

/**
 * Outside production the refusal says how to allow addresses of a developer's machine.
 * @throws VALIDATION_ERROR URL_NOT_ALLOWED; uses the network, so not in a transaction
 */
export const checkUrl = async (
  { webhookSender, config }: UrlRules,
  url: string | undefined,
): Promise<void> => {
  const problem = url === undefined ? undefined : await webhookSender.check(url);
  if (problem === undefined) return;
  const hint = config.isProduction
    ? ""
    : "; for receivers on this machine or network start the server with WEBHOOKS_ALLOW_LOCAL=on";
  throw invalid("url", problem + hint, "URL_NOT_ALLOWED");
};

const checkPatterns = (patterns: readonly string[] | undefined): void => {
  const details = (patterns ?? []).flatMap((pattern, i) =>
    isPattern(pattern)
      ? []
      : [{ field: `events.${i}`, message: `unknown event type ${pattern}: see GET /webhooks/event-types` }],
  );
  if (details.length > 0)
    throw new DomainError("VALIDATION_ERROR", `${details[0]!.field}: ${details[0]!.message}`, { details });
};

/** A webhook may be limited to one project of its tenant, including sandboxes. @throws NOT_FOUND */
const checkProject = async ({ em }: Work, tenantId: string, projectId: string | null): Promise<void> => {
  if (projectId === null) return;
  const found = isId(projectId) ? await em.count(Project, { id: projectId, tenantId, deletedAt: null }) : 0;
  if (found === 0) throw notFound("Project");
};

const notDeleted = (tenantId: string) => ({ tenantId, deletedAt: null });

/** @throws NOT_FOUND, also for another tenant's */
export const getWebhook = async ({ em }: Work, tenantId: string, id: string): Promise<Webhook> => {
  const found = isId(id)
    ? await em.findOne(Webhook, { id, ...notDeleted(tenantId) }, { refresh: true })
    : null;
  if (!found) throw notFound("Webhook");
  return found;
};

/** As `getWebhook`, locked against other changes until the commit. */
export const lockWebhook = async (work: Work, tenantId: string, id: string): Promise<Webhook> => {
  if (isId(id))
    await sql`select 1 from webhooks where id = ${id}::uuid and tenant_id = ${tenantId}::uuid
      for no key update`.execute(work.db);
  return getWebhook(work, tenantId, id);
};

/** Orders of the list. */
export const WEBHOOK_ORDERS = {
  by: { createdAt: "createdAt", updatedAt: "updatedAt" },
  usual: "desc",
} as const;

/** Newest first. */
export const listWebhooks = async (
  work: Work,
  tenantId: string,
  query: PageQuery &
    Ordered<SortOf<typeof WEBHOOK_ORDERS>> & {
      status?: WebhookStatus | undefined;
      /** A UUID. */
      projectId?: string | undefined;
    },
): Promise<Total & { webhooks: Webhook[] }> => {
  const { status, projectId } = query;
  const where = {
    ...notDeleted(tenantId),
    ...(status === undefined ? {} : { status }),
    ...(projectId === undefined ? {} : { projectId }),
  };
  const webhooks = await work.em.find(Webhook, where, {
    orderBy: entityOrder(WEBHOOK_ORDERS, query),
    limit: query.limit,
    offset: offsetOf(query),
  });
  return { webhooks, ...(await countUpTo(work, Webhook, where)) };
};

/** Records a change of a webhook in the audit log. @param action such as `created` */
export const auditWebhook = (
  work: Work,
  action: string,
  { id, tenantId }: Webhook,
  data = {},
): Promise<void> =>
  audit(work, { action: `webhook.${action}`, target: { type: "webhook", id }, tenantId, data });

/** The part of an address that may be logged: its path or query may contain a token. */
const hostOf = (url: string): string => new URL(url).host;

/**
 * Registers a webhook whose address has been checked (checkUrl).
 * @returns the webhook and its secret, which is shown only here
 * @throws VALIDATION_ERROR for unknown event types, NOT_FOUND for the project, PAYMENT_REQUIRED
 * PLAN_LIMIT_EXCEEDED
 */
export const createWebhook = async (
  work: Work,
  secretBox: SecretBox,
  tenantId: string,
  body: NewWebhook,
): Promise<{ webhook: Webhook; secret: string }> => {
  checkPatterns(body.events);
  const { em, now, by } = work;
  await requireRoom(
    work,
    notDeleted(tenantId),
    (max) => `Your plan has ${max} webhooks; delete one or take a larger plan`,
  );
  const projectId = body.projectId ?? null;
  await checkProject(work, tenantId, projectId);
  const id = newId();
  const secret = body.secret ?? newWebhookSecret();
  const webhook = em.create(Webhook, {
    id,
    tenantId,
    projectId,
    url: body.url,
    events: [...new Set(body.events)],
    description: body.description ?? null,
    status: "ACTIVE",
    secret: secretBox.seal(secret, id),
    secretHint: hintOf(secret),
    createdBy: by ? actorOf(by.caller) : null,
    exhausted: 0,
    createdAt: now,
    updatedAt: now,
  });
  await em.flush();
  await auditWebhook(work, "created", webhook, { host: hostOf(body.url), events: webhook.events });
  return { webhook, secret };
};

/**
 * Changes a webhook; the change applies to everything sent from now on, including retries. ACTIVE restarts a
 * PAUSED or DISABLED one.
 * @throws NOT_FOUND, VALIDATION_ERROR, CONFLICT INVALID_STATE for one that cannot be paused
 */
export const updateWebhook = async (
  work: Work,
  tenantId: string,
  id: string,
  change: WebhookChange,
): Promise<Webhook> => {
  checkPatterns(change.events);
  const { url, events, description, projectId, status } = change;
  // Before the webhook, as whoever locks both does.
  if (status === "ACTIVE") await lockTenant(work, tenantId);
  const webhook = await lockWebhook(work, tenantId, id);
  if (projectId !== undefined) {
    await checkProject(work, tenantId, projectId);
    webhook.projectId = projectId;
  }
  if (url !== undefined) webhook.url = url;
  if (events !== undefined) webhook.events = [...new Set(events)];
  if (description !== undefined) webhook.description = description;
  if (status !== undefined) await setStatus(work, webhook, status);
  webhook.updatedAt = work.now;
  const named = Object.keys(change).filter((key) => change[key as keyof WebhookChange] !== undefined);
  const data = { changed: named, ...(url === undefined ? {} : { host: hostOf(url) }) };
  await auditWebhook(work, "updated", webhook, data);
  if (webhook.status !== "PAUSED") work.wakeWebhooks([id]);
  return webhook;
};

/** @throws PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED while the plan has no room for one more of these of a tenant */
const requireRoom = async (
  work: Work,
  where: ReturnType<typeof notDeleted> & FilterQuery<Webhook>,
  textOf: (max: number) => string,
): Promise<void> => {
  const { webhooks: limit } = limitsOf(await lockTenant(work, where.tenantId));
  const used = await work.em.count(Webhook, where);
  if (limit !== null && used >= limit)
    throw planLimitExceeded(textOf(limit), { metric: "webhooks", limit, used });
};

const setStatus = async (work: Work, webhook: Webhook, status: "ACTIVE" | "PAUSED"): Promise<void> => {
  if (status === "PAUSED") {
    if (webhook.status === "DISABLED") throw conflict("INVALID_STATE", "The webhook is DISABLED already");
    webhook.pausedAt ??= work.now;
    webhook.status = "PAUSED";
    // By people: it is not resumed by a larger plan.
    webhook.disabledReason = null;
    return;
  }
  // A FAILED webhook recovers by a success, and not by a change of its status.
  if (webhook.status === "FAILED" || webhook.status === "ACTIVE") return;
  await requireRoom(
    work,
    { ...notDeleted(webhook.tenantId), status: { $in: ["ACTIVE", "FAILED"] } },
    (max) => `Your plan has room for ${max} webhooks; pause one or take a larger plan`,
  );
  Object.assign(webhook, { status, disabledReason: null, pausedAt: null, failingSince: null, exhausted: 0 });
};

const isReadable = (secretBox: SecretBox, { secret, id }: Webhook): boolean => {
  try {
    return secretBox.open(secret, id) !== "";
  } catch {
    return false;
  }
};

/** Rotates the secret; the old one signs too for `graceSeconds`. @throws NOT_FOUND */
export const rotateSecret = async (
  work: Work,
  secretBox: SecretBox,
  { tenantId, id, graceSeconds, secret = newWebhookSecret() }: Rotation,
): Promise<{ webhook: Webhook; secret: string }> => {
  const webhook = await lockWebhook(work, tenantId, id);
  // An unreadable secret cannot sign, and would keep the new one from signing.
  const isGraced = graceSeconds > 0 && isReadable(secretBox, webhook);
  Object.assign(webhook, {
    previousSecret: isGraced ? webhook.secret : null,
    previousSecretExpiresAt: isGraced ? new Date(work.now.getTime() + graceSeconds * 1_000) : null,
    secret: secretBox.seal(secret, webhook.id),
    secretHint: hintOf(secret),
    updatedAt: work.now,
  });
  await auditWebhook(work, "secret_rotated", webhook, { graceSeconds });
  return { webhook, secret };
};
type Rotation = { tenantId: string; id: string; graceSeconds: number; secret?: string | undefined };

/** Deletes a webhook: after the commit only attempts in flight are completed. @throws NOT_FOUND */
export const deleteWebhook = async (work: Work, tenantId: string, id: string): Promise<void> => {
  const webhook = await lockWebhook(work, tenantId, id);
  webhook.deletedAt = work.now;
  webhook.updatedAt = work.now;
  await auditWebhook(work, "deleted", webhook, { host: hostOf(webhook.url) });
};
