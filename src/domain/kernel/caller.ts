import assert from "node:assert/strict";
import { DomainError, type FieldProblem, forbidden } from "./errors.ts";

/** The refusal of what needs an approved tenant. */
export const approvalRequired = (): DomainError =>
  forbidden(
    "APPROVAL_REQUIRED",
    "The tenant has not been approved: a super-admin of this server does that, by " +
      "POST /superadmin/tenants/{tenantId}/approve",
  );

export const PLANS = ["FREE", "STARTER", "PRO", "ENTERPRISE"] as const;
export type Plan = (typeof PLANS)[number];

/** Limits of plans, each in the order of PLANS; null is unlimited. */
const LIMITS_BY_PLAN = {
  /** Of API keys, per project. Those of FREE, STARTER and PRO are from the specification. */
  requestsPerMinute: [100, 500, 1_000, null],
  /** Events taken in a calendar month in UTC, of all projects and sandboxes. */
  eventsPerMonth: [50_000, 500_000, 5_000_000, null],
  /** Players with an event in a calendar month in UTC; more are played on, and told of. */
  activePlayersPerMonth: [1_000, 10_000, 100_000, null],
  projects: [1, 3, 10, null],
  /** Including pending invitations. */
  members: [2, 5, 20, null],
  activeKeysPerProject: [5, 20, 100, 500],
  webhooks: [0, 0, 10, 50],
  customDomains: [0, 0, 1, 20],
  analyticsHistoryDays: [7, 30, 180, 730],
  deliveryLogDays: [0, 0, 30, 90],
  /** The most that a project's setting of the same name may keep. */
  activityDays: [30, 30, 90, null],
  executionsDays: [90, 90, 180, null],
} as const;

/** Limits of a plan; null is unlimited. */
export type PlanLimits = Record<keyof typeof LIMITS_BY_PLAN, number | null>;

const limitsOfPlan = (place: number): PlanLimits =>
  Object.fromEntries(
    Object.entries(LIMITS_BY_PLAN).map(([name, byPlan]) => [name, byPlan[place]]),
  ) as PlanLimits;

export const PLAN_LIMITS = Object.fromEntries(
  PLANS.map((plan, place) => [plan, limitsOfPlan(place)]),
) as Readonly<Record<Plan, PlanLimits>>;

export const FEATURES = ["webhooks", "customDomains", "sso"] as const;
type Feature = (typeof FEATURES)[number];

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

/** A limit of the plan and what is used of it. `more`: what else is told of it, such as ", sent 3". */
type Reached = { metric: keyof PlanLimits; limit: number; used: number; more?: string };

/** Builds the error for exceeding a limit of the plan. */
export const planLimitExceeded = (message: string, reached?: Reached): DomainError =>
  new DomainError("PAYMENT_REQUIRED", message, {
    reason: "PLAN_LIMIT_EXCEEDED",
    details: reached ? [detailOf(reached)] : [],
  });

const detailOf = ({ metric: field, limit, used, more = "" }: Reached): FieldProblem => {
  return { field, message: `limit ${limit}, used ${used}${more}` };
};

const FEATURE_TEXTS: Readonly<Record<Feature, string>> = {
  webhooks: "webhooks",
  customDomains: "custom domains",
  sso: "single sign-on",
};

/** Builds the error for what the plan does not include. */
export const featureUnavailable = (plan: Plan, feature: Feature): DomainError => {
  const others = PLANS.filter((one) => PLAN_FEATURES[one].includes(feature)).join(" or ");
  const message = `The plan ${plan} does not include ${FEATURE_TEXTS[feature]}; ${others} does`;
  return new DomainError("PAYMENT_REQUIRED", message, { reason: "PLAN_FEATURE_UNAVAILABLE" });
};

export const hasFeature = ({ plan }: Pick<Subscriber, "plan">, feature: Feature): boolean =>
  PLAN_FEATURES[plan].includes(feature);

/** Console roles, exactly as on the wire. */
export const ROLES = ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER", "VIEWER"] as const;
export type Role = (typeof ROLES)[number];

export const MEMBER_STATUSES = ["PENDING", "ACTIVE", "SUSPENDED"] as const;
export type MemberStatus = (typeof MEMBER_STATUSES)[number];

/** Permissions of a platform token; a super-admin who is logged in has all ("*"). */
export const ADMIN_SCOPES = ["*", "blog:sync"] as const;
export type AdminScope = (typeof ADMIN_SCOPES)[number];

/** Properties of the tenant that requests need, at most 5 s old. */
export type CallerTenant = {
  plan: Plan;
  /** Limits that a super-admin has set for the tenant. */
  planOverrides: Partial<PlanLimits>;
  approvalStatus: ApprovalStatus;
};

/** Identity of the sender of a request, established from its credentials alone. */
export type Caller =
  | { kind: "anonymous" }
  | {
      kind: "user";
      userId: string;
      tenantId: string;
      role: Role;
      sessionId: string;
      /** PENDING: waits to be accepted by an OWNER or ADMIN; SUSPENDED: blocked by one. */
      status: MemberStatus;
      emailVerified: boolean;
      /** Their tenant requires a second factor, and they have none: they may do nothing but set one up. */
      mustEnrol?: true;
      tenant: CallerTenant;
    }
  /** A super-admin; or, with `isMachine`, a platform token created by one, with its own id. */
  | {
      kind: "admin";
      adminId: string;
      isMachine?: true;
      scopes: readonly AdminScope[];
      /** Of a super-admin's login: it ends with all others when the version of the account changes. */
      loginVersion?: number;
      /** They have no second factor: they may do nothing but set one up. */
      mustEnrol?: true;
    }
  | {
      kind: "key";
      keyId: string;
      tenantId: string;
      /** The project the key acts on: for a `svc_test_` key, the sandbox of `ownerProjectId`. */
      projectId: string;
      /** The project that the key was created for, shown as `ApiKey.projectId`. */
      ownerProjectId: string;
      scopes: readonly string[];
      /** Requests per minute, when the key has its own limit. */
      rateLimit: number | null;
      tenant: CallerTenant;
      isTest: boolean;
    };

/** The originator of an action, for the audit log, sessions and limits. */
export type Actor = {
  caller: Caller;
  ip: string;
  userAgent: string;
  requestId: string;
  /** For a request: the bytes of its body, and a signal aborted when the client disconnects. */
  waits?: { bytes: number; signal: AbortSignal };
};

export type UserCaller = Extract<Caller, { kind: "user" }>;
export type KeyCaller = Extract<Caller, { kind: "key" }>;
export type AdminCaller = Extract<Caller, { kind: "admin" }>;

/** Returns the console user that calls an operation without a scope. */
export const userOf = (caller: Caller): UserCaller => {
  assert(caller.kind === "user", "no scope opens the operation to keys");
  return caller;
};

/** Returns the super-admin, or the platform token, that calls an operation with `access.admin`. */
export const adminOf = (caller: Caller): AdminCaller => {
  assert(caller.kind === "admin", "the operation is a super-admin's");
  return caller;
};

/** Returns the tenant of a caller that has passed the access check. */
export const tenantOf = (caller: Caller): string => customerOf(caller).tenantId;

/** Returns a caller that has passed the access check of a tenant's operation. */
export const customerOf = (caller: Caller): UserCaller | KeyCaller => {
  assert(caller.kind === "user" || caller.kind === "key", "the operation is a tenant's");
  return caller;
};

/** Returns the name for audit fields such as `createdBy` and `cause.actor`. */
export const actorOf = (caller: Caller): string =>
  caller.kind === "user"
    ? `user:${caller.userId}`
    : caller.kind === "key"
      ? `key:${caller.keyId}`
      : caller.kind === "admin"
        ? `${caller.isMachine ? "platform-token" : "admin"}:${caller.adminId}`
        : "anonymous";

export const APPROVAL_STATUSES = ["PENDING", "APPROVED", "REJECTED", "SUSPENDED"] as const;

export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

/** All scopes of API keys; `read` reads, `write` is for run time, `manage` is for definitions. */
export const SCOPES = [
  "events:read",
  "events:write",
  "players:read",
  "players:write",
  "rules:read",
  "rules:manage",
  "leaderboards:read",
  "leaderboards:write",
  "leaderboards:manage",
  "quests:read",
  "quests:write",
  "quests:manage",
  "adventures:read",
  "adventures:write",
  "adventures:manage",
  "lobbies:read",
  "lobbies:write",
  "chat:read",
  "chat:write",
  "chat:moderate",
  "config:read",
  "config:manage",
  "projects:read",
  "realtime:connect",
  "webhooks:read",
  "webhooks:write",
  "analytics:read",
] as const;
export type Scope = (typeof SCOPES)[number];

export const DEFAULT_SCOPES: readonly Scope[] = ["events:write", "players:read", "players:write"];

/**
 * Role sets of the permission matrix. Roles are not ordered: DESIGNER and DEVELOPER each have permissions
 * that the other lacks.
 */
export const EVERY_ROLE: readonly Role[] = ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER", "VIEWER"];
export const ADMINS: readonly Role[] = ["OWNER", "ADMIN"];
export const DESIGNERS: readonly Role[] = ["OWNER", "ADMIN", "DESIGNER"];
export const DEVELOPERS: readonly Role[] = ["OWNER", "ADMIN", "DEVELOPER"];
export const BUILDERS: readonly Role[] = ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER"];

/** Requirements besides the role or scope. */
export type Needs = {
  /** The user's email address is verified (where this server sends mail). */
  verifiedEmail?: true;
  /** The tenant is APPROVED. */
  approval?: true;
  /** The tenant's plan includes the feature. */
  feature?: Feature;
  /** A key has this scope too. */
  scope?: Scope;
  /**
   * Stays allowed while the tenant is SUSPENDED: operations that its members need to see and fix the cause.
   */
  suspended?: true;
  /** Allowed for members who have not been accepted yet: their own account. */
  pending?: true;
  /** Allowed for those who must set up a second factor first: what that takes. */
  enrolling?: true;
};

/**
 * Access rules of an operation. Without `scope`, API keys are denied; of several scopes any one suffices.
 * Without `roles`, console users are denied; `admin` is for super-admins, and for platform tokens with that
 * scope.
 */
export type Access =
  | "public"
  | {
      scope?: Scope | readonly Scope[];
      roles?: readonly Role[];
      needs?: Needs;
      admin?: AdminScope;
    };

/** Returns the scopes of which a key needs one; empty where keys are denied. */
export const scopesOf = (access: Access): readonly Scope[] => {
  if (access === "public" || access.scope === undefined) return [];
  return typeof access.scope === "string" ? [access.scope] : access.scope;
};

/** Access to a member's own account, whatever the state of the account and its tenant. */
export const OWN_ACCOUNT = { roles: EVERY_ROLE, needs: { suspended: true, pending: true } } as const;

/** As `OWN_ACCOUNT`, also for those who must set up a second factor first. */
export const OWN_ENROLMENT = {
  roles: EVERY_ROLE,
  needs: { suspended: true, pending: true, enrolling: true },
} as const;
