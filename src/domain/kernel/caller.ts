import assert from "node:assert/strict";
import type { PlanLimits, Plan } from "./plans.ts";

/** Console roles, exactly as on the wire. */
export const ROLES = ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER", "VIEWER"] as const;
export type Role = (typeof ROLES)[number];

export const MEMBER_STATUSES = ["PENDING", "ACTIVE", "SUSPENDED"] as const;
export type MemberStatus = (typeof MEMBER_STATUSES)[number];

/** What a platform token may do; a super-admin who is logged in may do everything ("*"). */
export const ADMIN_SCOPES = ["*", "blog:sync"] as const;
export type AdminScope = (typeof ADMIN_SCOPES)[number];

/** What a request must know of its tenant, at most 5 s old. */
export type CallerTenant = {
  plan: Plan;
  /** What a super-admin has set besides the plan. */
  planOverrides: Partial<PlanLimits>;
  approvalStatus: ApprovalStatus;
};

/** Who makes a request, as established from its credentials and nothing else. */
export type Caller =
  | { kind: "anonymous" }
  | {
      kind: "user";
      userId: string;
      tenantId: string;
      role: Role;
      sessionId: string;
      /** PENDING: waits until an OWNER or ADMIN accepts; SUSPENDED: shut out by one. */
      status: MemberStatus;
      emailVerified: boolean;
      tenant: CallerTenant;
    }
  /** A super-admin; or, as `isMachine`, a platform token that one has made, with its own id. */
  | { kind: "admin"; adminId: string; isMachine?: true; scopes: readonly AdminScope[] }
  | {
      kind: "key";
      keyId: string;
      tenantId: string;
      /** The project the key acts on: for a `svc_test_` key, the sandbox of `ownerProjectId`. */
      projectId: string;
      /** The project that the key was made for and that `ApiKey.projectId` shows. */
      ownerProjectId: string;
      scopes: readonly string[];
      /** Requests per minute, when the key has a limit of its own. */
      rateLimit: number | null;
      tenant: CallerTenant;
      isTest: boolean;
    };

/** Who does something, and from where: for the audit log, sessions and limits. */
export type Actor = {
  caller: Caller;
  ip: string;
  userAgent: string;
  requestId: string;
  /** Of a request: the bytes of its body, and when its client has gone. */
  waits?: { bytes: number; signal: AbortSignal };
};

export type UserCaller = Extract<Caller, { kind: "user" }>;
export type KeyCaller = Extract<Caller, { kind: "key" }>;
export type AdminCaller = Extract<Caller, { kind: "admin" }>;

/** The console user that an operation without a scope is asked by. */
export const userOf = (caller: Caller): UserCaller => {
  assert(caller.kind === "user", "no scope opens the operation to keys");
  return caller;
};

/** The super-admin, or their platform token, that an operation with `access.admin` is asked by. */
export const adminOf = (caller: Caller): AdminCaller => {
  assert(caller.kind === "admin", "the operation is a super-admin's");
  return caller;
};

/** The tenant of a caller that has passed the access check. */
export const tenantOf = (caller: Caller): string => {
  assert(caller.kind === "user" || caller.kind === "key", "the operation is a tenant's");
  return caller.tenantId;
};

/** A name for audit fields such as `createdBy` and `cause.actor`. */
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
