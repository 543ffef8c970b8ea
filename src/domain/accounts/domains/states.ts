import type { CaaResult } from "./caa.ts";
import type { CheckResult, DomainStatus, DomainWithCertificate, SslStatus } from "./row.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** How often records are looked for: at first, later, once they are there, and while some are gone. */
const EAGER_MS = HOUR_MS;
const EAGER_EVERY_MS = MINUTE_MS;
const PENDING_EVERY_MS = 10 * MINUTE_MS;
const HELD_EVERY_MS = DAY_MS;
const FAILING_EVERY_MS = 6 * HOUR_MS;
/** After DNS servers have given no answer. */
const UNKNOWN_EVERY_MS = 10 * MINUTE_MS;
/** How long a state lasts at most. */
export const PENDING_MAX_MS = 72 * HOUR_MS;
export const FAILING_MAX_MS = 3 * DAY_MS;
export const DEGRADED_MAX_MS = 14 * DAY_MS;
export const PLAN_GRACE_MS = 7 * DAY_MS;
/** How long a tenant that is suspended or rejected keeps its names. */
export const TENANT_GRACE_MS = 30 * DAY_MS;
/** DNS servers that have given no answer for this time count as records that are missing. */
export const UNKNOWN_MAX_MS = 7 * DAY_MS;

/** Whether a domain in this state belongs to its tenant: nobody else can have it, and its host is served. */
export const HELD: ReadonlySet<DomainStatus> = new Set(["VERIFIED", "ACTIVE", "DEGRADED"]);

/** What DNS says of a domain. `error`: the first thing that is missing. */
export type Seen = { txt: CheckResult; routing: CheckResult; caa: CaaResult; error: string | null };

/** What the tenant is told by mail. */
export type DomainNotice = {
  change: "DEGRADED" | "SUSPENDED" | "PLAN_LOST" | "TENANT_SUSPENDED" | "LOST";
  until: Date | null;
};

/** Whether a tenant may have a domain: by its plan, and by its own state. */
export type Entitlement = "ENTITLED" | "PLAN_LOST" | "TENANT_SUSPENDED";

/** What a check changes. */
export type Step = {
  status: DomainStatus;
  failingSince: Date | null;
  degradedAt: Date | null;
  planLostAt: Date | null;
  tenantSuspendedAt: Date | null;
  unknownSince: Date | null;
  nextCheckAt: Date | null;
  notice?: DomainNotice;
};

type Known = Pick<
  DomainWithCertificate,
  | "status"
  | "pendingSince"
  | "failingSince"
  | "degradedAt"
  | "planLostAt"
  | "tenantSuspendedAt"
  | "unknownSince"
  | "certificate"
>;
/** What DNS alone changes of a domain that is held. */
type Seeing = Omit<Step, "planLostAt" | "tenantSuspendedAt">;

const after = (at: Date, ms: number): Date => new Date(at.getTime() + ms);
const isOver = (since: Date, ms: number, now: Date): boolean => now.getTime() - since.getTime() >= ms;

/** `hasOwnCertificate`: whether this server itself gets the certificate. */
type CheckedAs = { now: Date; entitlement: Entitlement; hasOwnCertificate: boolean };

/**
 * Returns the state of a domain after its records were looked at. Pure. DNS servers that give no answer
 * change no state for a week; then they count as records that are missing.
 * @param entitlement whether the tenant may have the domain
 */
export const afterCheck = (
  domain: Known,
  seen: Pick<Seen, "txt" | "routing">,
  { now, entitlement, hasOwnCertificate }: CheckedAs,
): Step => {
  const isUnknown = seen.txt === "UNKNOWN" || seen.routing === "UNKNOWN";
  const isOk = seen.txt === "OK" && seen.routing === "OK";
  const served = hasOwnCertificate && !domain.certificate ? "VERIFIED" : "ACTIVE";
  const isEntitled = entitlement === "ENTITLED";
  if (!HELD.has(domain.status)) return afterPending(domain, { isOk, isUnknown, served, isEntitled, now });
  const lost = afterLoss(domain, entitlement, now);
  if (lost.isOver) return suspended(now);
  const step = afterHeld(domain, { isOk, isUnknown, served, now });
  if (step.status === "SUSPENDED") return suspended(now);
  const notice = step.notice ?? lost.notice;
  return { ...step, ...lost.clocks, ...(notice ? { notice } : {}) };
};

type Held = { isOk: boolean; isUnknown: boolean; served: DomainStatus; now: Date };

const afterHeld = (domain: Known, { isOk, isUnknown, served, now }: Held): Seeing => {
  const { status, failingSince, degradedAt } = domain;
  if (isOk) {
    const nextCheckAt = after(now, HELD_EVERY_MS);
    const none = { failingSince: null, degradedAt: null, unknownSince: null };
    return { status: served, ...none, nextCheckAt };
  }
  if (!isUnknown) return afterMissing(domain, now);
  const unknownSince = domain.unknownSince ?? now;
  if (isOver(unknownSince, UNKNOWN_MAX_MS, now)) return { ...afterMissing(domain, now), unknownSince };
  const nextCheckAt = after(now, UNKNOWN_EVERY_MS);
  return { status, failingSince, degradedAt, unknownSince, nextCheckAt };
};

type Pending = { isOk: boolean; isUnknown: boolean; served: DomainStatus; isEntitled: boolean; now: Date };

const afterPending = (
  { pendingSince }: Known,
  { isOk, isUnknown, served, isEntitled, now }: Pending,
): Step => {
  const none = { failingSince: null, degradedAt: null, unknownSince: null, ...NOTHING_LOST };
  if (isOk && isEntitled) return { status: served, nextCheckAt: after(now, HELD_EVERY_MS), ...none };
  if (isOver(pendingSince, PENDING_MAX_MS, now)) return { status: "FAILED", nextCheckAt: null, ...none };
  // Servers that give no answer are slow to ask, and keep others waiting.
  const isEager = !isUnknown && !isOver(pendingSince, EAGER_MS, now);
  const everyMs = isEager ? EAGER_EVERY_MS : PENDING_EVERY_MS;
  return { status: "PENDING", nextCheckAt: after(now, everyMs), ...none };
};

type Clocks = Pick<Step, "planLostAt" | "tenantSuspendedAt">;
type Lost = { clocks: Clocks; isOver: boolean; notice?: DomainNotice };

const NOTHING_LOST: Clocks = { planLostAt: null, tenantSuspendedAt: null };

/**
 * A plan without room and a tenant that is suspended have a clock and a grace each. The one that is not the
 * reason does not run, and begins anew: a plan that is lost when a long suspension ends has its whole grace.
 */
const afterLoss = (domain: Known, entitlement: Entitlement, now: Date): Lost => {
  if (entitlement === "ENTITLED") return { clocks: NOTHING_LOST, isOver: false };
  const [clock, graceMs] =
    entitlement === "PLAN_LOST"
      ? (["planLostAt", PLAN_GRACE_MS] as const)
      : (["tenantSuspendedAt", TENANT_GRACE_MS] as const);
  const since = domain[clock];
  const clocks = { ...NOTHING_LOST, [clock]: since ?? now };
  if (since) return { clocks, isOver: isOver(since, graceMs, now) };
  return { clocks, isOver: false, notice: { change: entitlement, until: after(now, graceMs) } };
};

/** The end of a domain that was held. @param change LOST: the name is another tenant's */
export const suspended = (now: Date, change: "SUSPENDED" | "LOST" = "SUSPENDED"): Step => ({
  status: "SUSPENDED",
  failingSince: null,
  degradedAt: null,
  ...NOTHING_LOST,
  unknownSince: null,
  nextCheckAt: null,
  notice: { change, until: now },
});

const afterMissing = ({ status, failingSince, degradedAt }: Known, now: Date): Seeing => {
  const since = failingSince ?? now;
  const next = { nextCheckAt: after(now, FAILING_EVERY_MS), unknownSince: null };
  if (status === "DEGRADED") {
    const begun = degradedAt ?? now;
    if (isOver(begun, DEGRADED_MAX_MS, now)) return suspended(now);
    return { status, failingSince: since, degradedAt: begun, ...next };
  }
  if (!isOver(since, FAILING_MAX_MS, now)) return { status, failingSince: since, degradedAt: null, ...next };
  const notice = { change: "DEGRADED", until: after(now, DEGRADED_MAX_MS) } as const;
  return { status: "DEGRADED", failingSince: since, degradedAt: now, ...next, notice };
};

/** Returns what the certificate's state is called at a time. */
export const shownSslStatus = (
  { sslStatus, certificate }: Pick<DomainWithCertificate, "sslStatus" | "certificate">,
  now: Date,
): SslStatus => (certificate && certificate.notAfter <= now ? "EXPIRED" : sslStatus);
