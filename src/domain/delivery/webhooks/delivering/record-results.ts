import { sql } from "kysely";
import type { Mail } from "../../../accounts/email/mail.ts";
import type { Work } from "../../../kernel/work.ts";
import type { ClaimedDelivery } from "./claim.ts";
import { type Attempt, ATTEMPTS_KEPT, type DeliveryStatus } from "./delivery.ts";
import {
  healthAfter,
  mustRecord,
  type LockedWebhook,
  lockWebhooks,
  saveHealth,
  type HealthSignal,
} from "./health.ts";
import { waitAfter } from "./schedule.ts";
import type { WebhookOutcome } from "./sender.ts";

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
export type Verdict = { status: DeliveryStatus; dueAt: Date | null };

const GONE = 410;
const isGone = ({ responseCode }: WebhookOutcome): boolean => responseCode === GONE;

/** A success ends a delivery, and so do the last failure, 410, and the failure of a test. */
export const verdictOf = ({ delivery, outcome, endedAt, random }: Result): Verdict => {
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
  const failing = new Set(
    counted.filter(({ outcome }) => !outcome.isSuccess).map(({ delivery }) => delivery.webhook.id),
  );
  const locked = await lockWebhooks(work, failing);
  await recordSuccesses(
    work,
    counted.filter(({ delivery }) => !failing.has(delivery.webhook.id)),
  );
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
  const found = await sql<{ webhook_id: string; id: string }>`
    update webhook_deliveries d set status = x.s, attempts = d.attempts + 1, error = x.r, due_at = x.d,
      next_attempt_at = x.d, updated_at = ${now.toISOString()}::timestamptz,
      log = case when jsonb_array_length(d.log) < ${sql.lit(ATTEMPTS_KEPT)} then d.log else d.log - 0 end
        || x.e
    from json_to_recordset(${JSON.stringify(rows)}::json)
      as x(w uuid, i uuid, l timestamptz, s text, d timestamptz, r text, e jsonb)
    where d.webhook_id = x.w and d.id = x.i and d.status = 'pending' and (x.s = 'success' or d.due_at = x.l)
    returning d.webhook_id, d.id`.execute(db);
  return new Set(found.rows.map(({ webhook_id, id }) => keyOf(webhook_id, id)));
};

/**
 * Records successes of webhooks without a failure among the results: only at intervals while they are
 * healthy.
 */
const recordSuccesses = async ({ db, now }: Work, results: readonly Result[]): Promise<void> => {
  const latest = new Map<string, Date>();
  for (const { delivery, endedAt } of results) {
    if (mustRecord(delivery.webhook, endedAt)) latest.set(delivery.webhook.id, endedAt);
  }
  if (latest.size === 0) return;
  const rows = [...latest].map(([w, at]) => ({ w, at }));
  // In a fixed order, to prevent deadlocks between processes that record the same ones.
  await sql`
    with one as (
      select w.id, x.at from json_to_recordset(${JSON.stringify(rows)}::json) as x(w uuid, at timestamptz)
      join webhooks w on w.id = x.w
      where w.deleted_at is null order by w.id for no key update of w)
    update webhooks w set last_success_at = greatest(w.last_success_at, one.at), failing_since = null,
      exhausted = 0, status = case when w.status = 'FAILED' then 'ACTIVE' else w.status end,
      updated_at = case when w.status = 'FAILED' then ${now.toISOString()}::timestamptz else w.updated_at end
    from one where w.id = one.id`.execute(db);
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
    return [{ webhook, health: healthAfter(webhook.health, signs), error }];
  });
};

const signOf = (result: Result, noted: ReadonlySet<string>): HealthSignal[] => {
  const { outcome, endedAt } = result;
  const { isSuccess, error } = outcome;
  if (!isSuccess && !noted.has(keyOfResult(result))) return [];
  const isExhausted = verdictOf(result).status === "failed";
  return [{ isSuccess, at: endedAt, isExhausted, isGone: isGone(outcome), error }];
};
