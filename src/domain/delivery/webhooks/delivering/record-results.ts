import { sql } from "kysely";
import type { Mail } from "../../../accounts/email/mail.ts";
import { notifyAdmins } from "../../../accounts/tenants/notify-owners.ts";
import type { ClaimedDelivery } from "./claim.ts";
import type { WebhookOutcome } from "./sender.ts";
import type { Webhook } from "../registration.ts";
import { kept } from "../../../kernel/statements.ts";
import type { Work } from "../../../kernel/work.ts";

export const DELIVERY_STATUSES = ["pending", "success", "failed"] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** The delay before each attempt, in ms, from the end of the one before (the specification's table). */
export const ATTEMPT_DELAYS_MS = [0, 60_000, 300_000, 1_800_000, 7_200_000] as const;
export const ATTEMPTS_MAX = ATTEMPT_DELAYS_MS.length;

/** One attempt, as logged. */
export type Attempt = {
  /** From 1; starts over after a restart. */
  attempt: number;
  at: string;
  durationMs: number;
  responseCode: number | null;
  responseBody: string | null;
  error: string | null;
};
/** Maximum number of attempts in the log of a delivery; the newest are kept. */
export const ATTEMPTS_KEPT = 15;

const DAY_MS = 86_400_000;
/** A webhook without a success for this long, with this many deliveries given up, is DISABLED. */
const DISABLED_AFTER_MS = 5 * DAY_MS;
const DISABLED_AFTER_EXHAUSTED = 3;
const GONE_REASON = "The endpoint answered 410 Gone";
const FAILING_REASON = "No success for 5 days";
/** Interval at which successes are recorded while the webhook is healthy, in ms. */
const SUCCESS_EVERY_MS = 5_000;

/** A webhook's health. */
type Health = Pick<
  Webhook,
  "status" | "disabledReason" | "lastSuccessAt" | "lastFailureAt" | "failingSince" | "exhausted"
>;

/** The effect of an attempt on the health of its webhook. */
type HealthSignal = {
  isSuccess: boolean;
  at: Date;
  /** Whether the delivery was given up. */
  isExhausted: boolean;
  /** Whether the endpoint asks to get no more deliveries. */
  isGone: boolean;
  error: string | null;
};

const afterSuccess = <H extends Health>(health: H, { at }: HealthSignal): H => ({
  ...health,
  status: health.status === "FAILED" ? "ACTIVE" : health.status,
  lastSuccessAt: at,
  failingSince: null,
  exhausted: 0,
});

const afterFailure = <H extends Health>(health: H, { at, isExhausted, isGone }: HealthSignal): H => {
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
const healthAfter = <H extends Health>(health: H, signs: readonly HealthSignal[]): H =>
  signs.reduce(
    (next, sign) => (sign.isSuccess ? afterSuccess(next, sign) : afterFailure(next, sign)),
    health,
  );

/** Whether the webhook must hear of a result: successes only at intervals while it was healthy at the claim. */
const mustRecord = ({ outcome, delivery: { webhook }, endedAt }: Result): boolean =>
  !outcome.isSuccess ||
  webhook.status !== "ACTIVE" ||
  webhook.failingSince != null ||
  webhook.lastSuccessAt == null ||
  endedAt.getTime() - webhook.lastSuccessAt.getTime() >= SUCCESS_EVERY_MS;

/** A webhook whose row is locked. */
type LockedWebhook = Pick<Webhook, "id" | "tenantId" | "url"> & Health;

/**
 * Locks webhooks until the commit; deleted ones are omitted. Must be called before their deliveries are
 * changed, in the same order as changes by the API.
 */
const lockWebhooks = async ({ db }: Work, ids: Iterable<string>): Promise<LockedWebhook[]> => {
  const list = [...new Set(ids)];
  if (list.length === 0) return [];
  const { rows } = await sql<LockedWebhook>`
    select id, tenant_id as "tenantId", url, status, disabled_reason as "disabledReason",
      last_success_at as "lastSuccessAt", last_failure_at as "lastFailureAt",
      failing_since as "failingSince", exhausted
    from webhooks where id = any(${`{${list.join(",")}}`}::uuid[]) and deleted_at is null
    order by id for no key update`.execute(db);
  return rows;
};

/** Records the current health of locked webhooks, and mails OWNERS and ADMINS of those that got worse. */
const saveHealth = async (
  work: Work,
  mail: Mail,
  changed: readonly { before: LockedWebhook; after: LockedWebhook; error: string }[],
): Promise<void> => {
  if (changed.length === 0) return;
  const rows = changed.map(({ after }) => after);
  const now = work.now.toISOString();
  await sql`
    update webhooks w set status = x.status, disabled_reason = x."disabledReason",
      last_success_at = greatest(w.last_success_at, x."lastSuccessAt"), last_failure_at = x."lastFailureAt",
      failing_since = x."failingSince", exhausted = x.exhausted,
      updated_at = case when w.status = x.status then w.updated_at else ${now}::timestamptz end
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(id uuid, status text, "disabledReason" text,
      "lastSuccessAt" timestamptz, "lastFailureAt" timestamptz, "failingSince" timestamptz, exhausted int)
    where w.id = x.id`.execute(work.db);
  for (const { before, after, error } of changed)
    if (after.status !== before.status) await notifyTeam(work, mail, after, error);
};

const notifyTeam = async (work: Work, mail: Mail, webhook: LockedWebhook, error: string): Promise<void> => {
  const { id: webhookId, tenantId, url, status, disabledReason } = webhook;
  // Its path and query may contain a token.
  const about = { webhookId, host: new URL(url).host };
  if (status === "FAILED")
    await notifyAdmins(mail, work, tenantId, { template: "webhook-failing", values: { ...about, error } });
  if (status === "DISABLED") {
    const values = { ...about, reason: disabledReason ?? "" };
    await notifyAdmins(mail, work, tenantId, { template: "webhook-disabled", values });
  }
};

/** Maximum random lengthening of a delay, so that simultaneous failures are not retried simultaneously. */
const JITTER_MAX = 0.05;
/** Retry-After is honoured up to this multiple of the table's delay. */
const RETRY_AFTER_MAX = 2;

/**
 * Returns the delay from the end of a failed attempt to the next one, in ms: that of the table, up to 5 %
 * longer at random, or what the endpoint asked for, up to twice that of the table.
 * @param attempts number of attempts made in this cycle, including the failed one
 * @param random from 0 to 1
 * @returns undefined when no attempt is left
 */
export const waitAfter = (
  attempts: number,
  { random, retryAfterSeconds }: { random: number; retryAfterSeconds: number | null },
): number | undefined => {
  const base = ATTEMPT_DELAYS_MS[attempts];
  if (base === undefined) return undefined;
  const asked = Math.min((retryAfterSeconds ?? 0) * 1_000, base * RETRY_AFTER_MAX);
  return Math.round(Math.max(base * (1 + JITTER_MAX * random), asked));
};

/** A completed attempt. */
export type Result = {
  delivery: ClaimedDelivery;
  outcome: WebhookOutcome;
  startedAt: Date;
  endedAt: Date;
  /** From 0 to 1: the random part of the delay. */
  random: number;
};

/** Effect of an attempt on its delivery. `dueAt` is set while it is pending. */
type Verdict = { status: DeliveryStatus; dueAt: Date | null };

const GONE = 410;
const isGone = ({ responseCode }: WebhookOutcome): boolean => responseCode === GONE;

/** A success ends a delivery, and so do the last failure, 410, and the failure of a test. */
const verdictOf = ({ delivery, outcome, endedAt, random }: Result): Verdict => {
  if (outcome.isSuccess) return { status: "success", dueAt: null };
  const { isTest, body, attempts } = delivery;
  const isLast = isTest || body === null || isGone(outcome);
  const { retryAfterSeconds } = outcome;
  const wait = isLast ? undefined : waitAfter(attempts + 1, { random, retryAfterSeconds });
  if (wait === undefined) return { status: "failed", dueAt: null };
  return { status: "pending", dueAt: new Date(endedAt.getTime() + wait) };
};

/** Converts an endpoint's response to text that PostgreSQL accepts. */
const storable = (text: string | null): string | null => text?.toWellFormed().replaceAll("\0", "") ?? null;

/** Converts an attempt to its log entry. @param attempt from 1 */
export const attemptOf = (attempt: number, at: Date, outcome: WebhookOutcome): Attempt => ({
  attempt,
  at: at.toISOString(),
  durationMs: outcome.durationMs,
  responseCode: outcome.responseCode,
  responseBody: storable(outcome.responseBody),
  error: storable(outcome.error),
});

/**
 * Records attempts, and their effect on their webhooks: a few statements, whatever their number, and one
 * while all are healthy. A success counts as long as the delivery is pending, a failure only while the lease
 * is ours: otherwise another process is sending the delivery, or it was restarted.
 * @returns the number of deliveries given up
 */
export const recordResults = async (work: Work, mail: Mail, results: readonly Result[]): Promise<number> => {
  if (results.length === 0) return 0;
  const counted = results.filter(({ delivery: { isTest, body } }) => !isTest && body !== null);
  const told = counted.filter(mustRecord).map(({ delivery }) => delivery.webhook.id);
  const locked = await lockWebhooks(work, told);
  const noted = await recordDeliveries(work, results);
  await saveHealth(work, mail, changesOf(locked, counted, noted));
  return results.filter((result) => isGivenUp(result, noted)).length;
};

const keyOf = (webhookId: string, id: string): string => `${webhookId}:${id}`;
const keyOfResult = ({ delivery: { webhook, id } }: Result): string => keyOf(webhook.id, id);

const isGivenUp = (result: Result, noted: ReadonlySet<string>): boolean =>
  noted.has(keyOfResult(result)) && verdictOf(result).status === "failed";

/** @returns the keys of those that were recorded */
const recordDeliveries = async (
  { db, now }: Work,
  results: readonly Result[],
): Promise<ReadonlySet<string>> => {
  const rows = results.map((result) => {
    const { delivery, outcome, startedAt } = result;
    const { status, dueAt } = verdictOf(result);
    return {
      w: delivery.webhook.id,
      i: delivery.id,
      l: delivery.leasedUntil,
      s: status,
      d: dueAt,
      r: storable(outcome.error),
      e: attemptOf(delivery.attempts + 1, startedAt, outcome),
    };
  });
  const found = await kept(
    db,
    sql<{ webhook_id: string; id: string }>`
    update webhook_deliveries d set status = x.s, attempts = d.attempts + 1, error = x.r, due_at = x.d,
      next_attempt_at = x.d, updated_at = ${now.toISOString()}::timestamptz,
      log = case when jsonb_array_length(d.log) < ${sql.lit(ATTEMPTS_KEPT)} then d.log else d.log - 0 end
        || x.e
    from json_to_recordset(${JSON.stringify(rows)}::json)
      as x(w uuid, i uuid, l timestamptz, s text, d timestamptz, r text, e jsonb)
    where d.webhook_id = x.w and d.id = x.i and d.status = 'pending' and (x.s = 'success' or d.due_at = x.l)
    returning d.webhook_id, d.id`,
  );
  return new Set(found.rows.map(({ webhook_id, id }) => keyOf(webhook_id, id)));
};

const changesOf = (
  locked: readonly LockedWebhook[],
  results: readonly Result[],
  noted: ReadonlySet<string>,
): Parameters<typeof saveHealth>[2] => {
  const byWebhook = Map.groupBy(results, ({ delivery }) => delivery.webhook.id);
  return locked.flatMap((webhook) => {
    const signs = (byWebhook.get(webhook.id) ?? []).flatMap((result) => signOf(result, noted));
    if (signs.length === 0) return [];
    const error = signs.findLast(({ error: found }) => found !== null)?.error ?? "";
    return [{ before: webhook, after: healthAfter(webhook, signs), error }];
  });
};

const signOf = (result: Result, noted: ReadonlySet<string>): HealthSignal[] => {
  const { outcome, endedAt } = result;
  const { isSuccess, error } = outcome;
  if (!isSuccess && !noted.has(keyOfResult(result))) return [];
  const isExhausted = verdictOf(result).status === "failed";
  return [{ isSuccess, at: endedAt, isExhausted, isGone: isGone(outcome), error }];
};
