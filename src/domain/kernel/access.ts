import type { AdminScope, Role } from "./caller.ts";
import type { Feature } from "./plans.ts";

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
 * scope. `scim` is for identity providers with a token of their own alone.
 */
export type Access =
  | "public"
  | {
      scope?: Scope | readonly Scope[];
      roles?: readonly Role[];
      needs?: Needs;
      admin?: AdminScope;
      scim?: true;
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
