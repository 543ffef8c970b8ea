import { sql } from "kysely";
import { hashRandomSecret } from "../auth/random-secret.ts";
import type { OAuthError } from "../oauth/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** Kinds of failures that are kept of a tenant, the latest; and for how long after the last time, in days. */
export const FAILURES_KEPT = 50;
export const FAILURE_DAYS = 30;
const DAY_MS = 86_400_000;

/** A sign-in that has failed. `email`: the address that the provider gave; undefined before it gave one. */
export type SsoFailure = { tenantId: string; failure: OAuthError; email: string | undefined };

type Row = {
  error: string;
  message: string;
  reason: string | null;
  email: string | null;
  requestId: string;
  times: number;
  firstAt: Date | string;
  lastAt: Date | string;
};

/** `report` is called with each failure; `problem`: why it could not be kept. */
export type FailureParts = { transact: Transact; report: (failed: SsoFailure, problem?: unknown) => void };

/** Keeps why a sign-in has failed for the administrators; who signs in is told in any case. */
export const keepFailure = async ({ transact, report }: FailureParts, failed: SsoFailure): Promise<void> => {
  try {
    await transact((work) => noteFailure(work, failed));
    report(failed);
  } catch (error) {
    report(failed, error);
  }
};

/** Maximum length of a reason. */
const REASON_MAX = 500;

/** Reasons may quote a provider: what the database cannot keep is left out. */
const plain = (text: string): string => text.replaceAll(/\p{C}+/gu, " ").slice(0, REASON_MAX);

/**
 * Notes why a sign-in has failed, for the tenant's administrators. Failures alike are one row, and so are
 * those whose reasons differ by what a browser has brought: anybody pushes no others out by that.
 */
const noteFailure = async (work: Work, { tenantId, failure, email }: SsoFailure): Promise<void> => {
  const { code, message, reason } = failure;
  const at = work.serverNow;
  const text = reason === undefined ? null : plain(reason.text);
  const alike = [code, message, email, reason?.isAnybodys === true || text];
  const digest = hashRandomSecret(JSON.stringify(alike));
  const expiresAt = new Date(at.getTime() + FAILURE_DAYS * DAY_MS);
  const now = sql`${at.toISOString()}::timestamptz`;
  await sql`
    with noted as (
      insert into sso_failures (tenant_id, digest, error, message, reason, email, request_id, times, first_at,
        last_at, expires_at)
      values (${tenantId}::uuid, ${digest}, ${code}, ${message}, ${text}, ${email ?? null},
        ${work.by?.requestId ?? ""}, 1, ${now}, ${now}, ${expiresAt.toISOString()}::timestamptz)
      on conflict (tenant_id, digest) do update set
        request_id = excluded.request_id, reason = excluded.reason,
        times = sso_failures.times + 1, last_at = excluded.last_at, expires_at = excluded.expires_at)
    delete from sso_failures where tenant_id = ${tenantId}::uuid and digest in (
      select digest from sso_failures where tenant_id = ${tenantId}::uuid and digest <> ${digest}
      order by last_at desc offset ${sql.lit(FAILURES_KEPT - 1)} for update skip locked)`.execute(work.db);
};

/** Returns a tenant's failures, the latest first: at most 50. */
export const listFailures = async ({ db, serverNow }: Work, tenantId: string) => {
  const { rows } = await sql<Row>`
    select error, message, reason, email, request_id as "requestId", times, first_at as "firstAt",
      last_at as "lastAt"
    from sso_failures
    where tenant_id = ${tenantId}::uuid and expires_at > ${serverNow.toISOString()}::timestamptz
    order by last_at desc, digest limit ${sql.lit(FAILURES_KEPT)}`.execute(db);
  return rows.map(({ firstAt, lastAt, ...row }) => {
    return { ...row, firstAt: new Date(firstAt).toISOString(), lastAt: new Date(lastAt).toISOString() };
  });
};
