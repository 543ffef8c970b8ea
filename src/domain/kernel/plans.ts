import { DomainError, type FieldProblem } from "./errors.ts";

export const PLANS = ["FREE", "STARTER", "PRO", "ENTERPRISE"] as const;
export type Plan = (typeof PLANS)[number];

/** Limits of a plan; null is unlimited. */
export type PlanLimits = {
  /** Of API keys, per project. */
  requestsPerMinute: number | null;
  /** Events taken in a calendar month in UTC, of all projects and sandboxes. */
  eventsPerMonth: number | null;
  /** Players with an event in a calendar month in UTC; more are played on, and told of. */
  activePlayersPerMonth: number | null;
  projects: number | null;
  /** Including pending invitations. */
  members: number | null;
  activeKeysPerProject: number | null;
  webhooks: number | null;
  customDomains: number | null;
  analyticsHistoryDays: number | null;
  deliveryLogDays: number | null;
  /** The most that a project's setting of the same name may keep. */
  activityDays: number | null;
  executionsDays: number | null;
};

export const FEATURES = ["webhooks", "customDomains", "sso"] as const;
export type Feature = (typeof FEATURES)[number];

/** Limits by plan. From the specification: requests per minute of FREE, STARTER and PRO. */
export const PLAN_LIMITS: Readonly<Record<Plan, PlanLimits>> = {
  FREE: {
    requestsPerMinute: 100,
    eventsPerMonth: 50_000,
    activePlayersPerMonth: 1_000,
    projects: 1,
    members: 2,
    activeKeysPerProject: 5,
    webhooks: 0,
    customDomains: 0,
    analyticsHistoryDays: 7,
    deliveryLogDays: 0,
    activityDays: 30,
    executionsDays: 90,
  },
  STARTER: {
    requestsPerMinute: 500,
    eventsPerMonth: 500_000,
    activePlayersPerMonth: 10_000,
    projects: 3,
    members: 5,
    activeKeysPerProject: 20,
    webhooks: 0,
    customDomains: 0,
    analyticsHistoryDays: 30,
    deliveryLogDays: 0,
    activityDays: 30,
    executionsDays: 90,
  },
  PRO: {
    requestsPerMinute: 1_000,
    eventsPerMonth: 5_000_000,
    activePlayersPerMonth: 100_000,
    projects: 10,
    members: 20,
    activeKeysPerProject: 100,
    webhooks: 10,
    customDomains: 1,
    analyticsHistoryDays: 180,
    deliveryLogDays: 30,
    activityDays: 90,
    executionsDays: 180,
  },
  ENTERPRISE: {
    requestsPerMinute: null,
    eventsPerMonth: null,
    activePlayersPerMonth: null,
    projects: null,
    members: null,
    activeKeysPerProject: 500,
    webhooks: 50,
    customDomains: 20,
    analyticsHistoryDays: 730,
    deliveryLogDays: 90,
    activityDays: null,
    executionsDays: null,
  },
};

export const PLAN_FEATURES: Readonly<Record<Plan, readonly Feature[]>> = {
  FREE: [],
  STARTER: [],
  PRO: ["webhooks", "customDomains"],
  ENTERPRISE: ["webhooks", "customDomains", "sso"],
};

type Subscriber = { plan: Plan; planOverrides: Partial<PlanLimits> };

/** Returns the limits of a tenant: those of its plan, overridden by those that a super-admin has set. */
export const limitsOf = ({ plan, planOverrides }: Subscriber): PlanLimits => ({
  ...PLAN_LIMITS[plan],
  ...planOverrides,
});

/** Percent of its events that a paid plan may use in a month before more are refused; FREE: 100. */
const PAID_EVENTS_PERCENT = 120;

/** Returns how many events of a month are taken of a tenant; null is any number. */
export const eventsTakenOf = (tenant: Subscriber): number | null => {
  const { eventsPerMonth } = limitsOf(tenant);
  if (eventsPerMonth === null || tenant.plan === "FREE") return eventsPerMonth;
  return Math.floor((eventsPerMonth * PAID_EVENTS_PERCENT) / 100);
};

/** Builds the error for exceeding a limit of the plan. */
export const planLimitExceeded = (message: string, details: FieldProblem[] = []): DomainError =>
  new DomainError("PAYMENT_REQUIRED", message, { reason: "PLAN_LIMIT_EXCEEDED", details });

/** Builds the error for what the plan does not include. */
export const featureUnavailable = (plan: Plan): DomainError =>
  new DomainError("PAYMENT_REQUIRED", `The plan ${plan} does not include this`, {
    reason: "PLAN_FEATURE_UNAVAILABLE",
  });

export const hasFeature = ({ plan }: Pick<Subscriber, "plan">, feature: Feature): boolean =>
  PLAN_FEATURES[plan].includes(feature);
