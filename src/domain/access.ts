import type { Role } from "./caller.ts";

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
  "config:read",
  "config:manage",
  "projects:read",
  "realtime:connect",
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

/**
 * Who may call an operation. An absent `scope` shuts API keys out, absent `roles` shuts console users out.
 */
export type Access = "public" | { scope?: Scope; roles?: readonly Role[] };
