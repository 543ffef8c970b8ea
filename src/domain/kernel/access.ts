import type { AdminScope, Role } from "./caller.ts";
import type { Feature } from "./plans.ts";

/** Every scope an API key may carry; `read` reads, `write` is run time, `manage` is definitions. */
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
] as const;
export type Scope = (typeof SCOPES)[number];

export const DEFAULT_SCOPES: readonly Scope[] = ["events:write", "players:read", "players:write"];

/**
 * Role sets of the permission matrix. Roles are not a ladder: DESIGNER and DEVELOPER each have what the other
 * lacks.
 */
export const EVERY_ROLE: readonly Role[] = ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER", "VIEWER"];
export const ADMINS: readonly Role[] = ["OWNER", "ADMIN"];
export const DESIGNERS: readonly Role[] = ["OWNER", "ADMIN", "DESIGNER"];
export const DEVELOPERS: readonly Role[] = ["OWNER", "ADMIN", "DEVELOPER"];
export const BUILDERS: readonly Role[] = ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER"];

/** What must be so besides the role or scope. */
export type Needs = {
  /** The user has proved their address (where this server sends mail). */
  verifiedEmail?: true;
  /** The tenant is APPROVED. */
  approval?: true;
  /** The tenant's plan has it. */
  feature?: Feature;
  /** Stays open while the tenant is SUSPENDED: what its people need to see and to mend it. */
  suspended?: true;
  /** Open to members whom nobody has accepted yet: their own account. */
  pending?: true;
};

/**
 * Who may call an operation. An absent `scope` shuts API keys out, of several any one opens it; absent
 * `roles` shuts console users out; `admin` is for super-admins, and for platform tokens that have that scope.
 */
export type Access =
  | "public"
  | { scope?: Scope | readonly Scope[]; roles?: readonly Role[]; needs?: Needs; admin?: AdminScope };

/** The scopes of which a key needs one; empty where keys are shut out. */
export const scopesOf = (access: Access): readonly Scope[] => {
  if (access === "public" || access.scope === undefined) return [];
  return typeof access.scope === "string" ? [access.scope] : access.scope;
};

/** What every member may do to their own account, in whatever state it and its tenant are. */
export const OWN_ACCOUNT = { roles: EVERY_ROLE, needs: { suspended: true, pending: true } } as const;
