import { sql } from "kysely";
import type { Mail } from "../../../accounts/email/mail.ts";
import { notifyAdmins } from "../../../accounts/tenants/notify-owners.ts";
import type { Work } from "../../../kernel/work.ts";
import type { Webhook, WebhookStatus } from "../webhook.ts";
import { dateOf } from "./claim.ts";

const DAY_MS = 86_400_000;
/** A webhook without a success for this long, with this many deliveries given up, is DISABLED. */
const DISABLED_AFTER_MS = 5 * DAY_MS;
const DISABLED_AFTER_EXHAUSTED = 3;
export const GONE_REASON = "The endpoint answered 410 Gone";
const FAILING_REASON = "No success for 5 days";
/** Interval at which successes are recorded while the webhook is healthy, in ms. */
const SUCCESS_EVERY_MS = 5_000;

/** A webhook's health. */
export type Health = Pick<
  Webhook,
  "status" | "disabledReason" | "lastSuccessAt" | "lastFailureAt" | "failingSince" | "exhausted"
>;

/** The effect of an attempt on the health of its webhook. */
export type HealthSignal = {
  isSuccess: boolean;
  at: Date;
  /** Whether the delivery was given up. */
  isExhausted: boolean;
  /** Whether the endpoint asks to get no more deliveries. */
  isGone: boolean;
  error: string | null;
};

const afterSuccess = (health: Health, { at }: HealthSignal): Health => ({
  ...health,
  status: health.status === "FAILED" ? "ACTIVE" : health.status,
  lastSuccessAt: at,
  failingSince: null,
  exhausted: 0,
});

const afterFailure = (health: Health, { at, isExhausted, isGone }: HealthSignal): Health => {
  const failingSince = health.failingSince ?? at;
  const exhausted = health.exhausted + (isExhausted ? 1 : 0);
  const next = { ...health, lastFailureAt: at, failingSince, exhausted };
  if (health.status === "DISABLED") return next;
  if (isGone) return { ...next, status: "DISABLED", disabledReason: GONE_REASON };
  if (health.status === "PAUSED" || exhausted === 0) return next;
  const isHopeless =
    exhausted >= DISABLED_AFTER_EXHAUSTED && at.getTime() - failingSince.getTime() >= DISABLED_AFTER_MS;
  if (isHopeless) return { ...next, status: "DISABLED", disabledReason: FAILING_REASON };
  return isExhausted ? { ...next, status: "FAILED" } : next;
};

/** Returns the health of a webhook after attempts, in the order of their ends. */
export const healthAfter = (health: Health, signs: readonly HealthSignal[]): Health =>
  signs.reduce(
    (next, sign) => (sign.isSuccess ? afterSuccess(next, sign) : afterFailure(next, sign)),
    health,
  );

/** Whether a success must be recorded, according to the state at the claim. */
export const mustRecord = (
  { status, failingSince, lastSuccessAt }: Pick<Webhook, "status" | "failingSince" | "lastSuccessAt">,
  at: Date,
): boolean =>
  status !== "ACTIVE" ||
  failingSince != null ||
  lastSuccessAt == null ||
  at.getTime() - lastSuccessAt.getTime() >= SUCCESS_EVERY_MS;

type Row = {
  id: string;
  tenantId: string;
  url: string;
  status: WebhookStatus;
  disabledReason: string | null;
  lastSuccessAt: Date | string | null;
  lastFailureAt: Date | string | null;
  failingSince: Date | string | null;
  exhausted: number;
};
/** A webhook whose row is locked. */
export type LockedWebhook = { id: string; tenantId: string; url: string; health: Health };

/**
 * Locks webhooks until the commit; deleted ones are omitted. Must be called before their deliveries are
 * changed, in the same order as changes by the API.
 */
export const lockWebhooks = async ({ db }: Work, ids: Iterable<string>): Promise<LockedWebhook[]> => {
  const list = [...new Set(ids)];
  if (list.length === 0) return [];
  const { rows } = await sql<Row>`
    select id, tenant_id as "tenantId", url, status, disabled_reason as "disabledReason",
      last_success_at as "lastSuccessAt", last_failure_at as "lastFailureAt",
      failing_since as "failingSince", exhausted
    from webhooks where id = any(${`{${list.join(",")}}`}::uuid[]) and deleted_at is null
    order by id for no key update`.execute(db);
  return rows.map(({ id, tenantId, url, status, disabledReason, exhausted, ...at }) => ({
    id,
    tenantId,
    url,
    health: {
      status,
      disabledReason,
      exhausted,
      lastSuccessAt: dateOf(at.lastSuccessAt),
      lastFailureAt: dateOf(at.lastFailureAt),
      failingSince: dateOf(at.failingSince),
    },
  }));
};

/** Records the current health of locked webhooks, and mails OWNERS and ADMINS of those that got worse. */
export const saveHealth = async (
  work: Work,
  mail: Mail,
  changed: readonly { webhook: LockedWebhook; health: Health; error: string }[],
): Promise<void> => {
  if (changed.length === 0) return;
  const rows = changed.map(({ webhook: { id }, health }) => ({ id, ...health }));
  const now = work.now.toISOString();
  await sql`
    update webhooks w set status = x.status, disabled_reason = x."disabledReason",
      last_success_at = x."lastSuccessAt", last_failure_at = x."lastFailureAt",
      failing_since = x."failingSince", exhausted = x.exhausted,
      updated_at = case when w.status = x.status then w.updated_at else ${now}::timestamptz end
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(id uuid, status text, "disabledReason" text,
      "lastSuccessAt" timestamptz, "lastFailureAt" timestamptz, "failingSince" timestamptz, exhausted int)
    where w.id = x.id`.execute(work.db);
  for (const { webhook, health, error } of changed) {
    if (health.status !== webhook.health.status) await notifyTeam(work, mail, { webhook, health, error });
  }
};

const notifyTeam = async (
  work: Work,
  mail: Mail,
  { webhook, health, error }: { webhook: LockedWebhook; health: Health; error: string },
): Promise<void> => {
  const { id: webhookId, tenantId, url } = webhook;
  // Its path and query may contain a token.
  const about = { webhookId, host: new URL(url).host };
  if (health.status === "FAILED")
    await notifyAdmins(mail, work, tenantId, { template: "webhook-failing", values: { ...about, error } });
  if (health.status === "DISABLED") {
    const values = { ...about, reason: health.disabledReason ?? "" };
    await notifyAdmins(mail, work, tenantId, { template: "webhook-disabled", values });
  }
};
