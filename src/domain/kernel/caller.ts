import assert from "node:assert/strict";
import type { PlanLimits, Plan } from "./plans.ts";

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
    }
  /** A tenant's identity provider, by a token that SCIM alone accepts. */
  | { kind: "scim"; tokenId: string; tenantId: string; tenant: CallerTenant };

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
export type ScimCaller = Extract<Caller, { kind: "scim" }>;
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

/** Returns the tenant whose identity provider calls an operation of SCIM. */
export const providerOf = (caller: Caller): ScimCaller => {
  assert(caller.kind === "scim", "the operation is SCIM's");
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
        : caller.kind === "scim"
          ? `scim-token:${caller.tokenId}`
          : "anonymous";

export const APPROVAL_STATUSES = ["PENDING", "APPROVED", "REJECTED", "SUSPENDED"] as const;

export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];
