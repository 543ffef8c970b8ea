import { ADMINS, DEFAULT_SCOPES, DEVELOPERS, type Scope, SCOPES } from "../../kernel/access.ts";
import type { Role } from "../../kernel/caller.ts";
import { DomainError, forbidden } from "../../kernel/errors.ts";

/**
 * Roles that may grant a scope to a key: a DEVELOPER may not change definitions, so neither may such keys.
 */
const GRANTED_BY: Readonly<Record<Scope, readonly Role[]>> = {
  "events:read": DEVELOPERS,
  "events:write": DEVELOPERS,
  "players:read": DEVELOPERS,
  "players:write": DEVELOPERS,
  "rules:read": DEVELOPERS,
  "rules:manage": ADMINS,
  "leaderboards:read": DEVELOPERS,
  "leaderboards:write": DEVELOPERS,
  "leaderboards:manage": ADMINS,
  "quests:read": DEVELOPERS,
  "quests:write": DEVELOPERS,
  "quests:manage": ADMINS,
  "adventures:read": DEVELOPERS,
  "adventures:write": DEVELOPERS,
  "adventures:manage": ADMINS,
  "lobbies:read": DEVELOPERS,
  "lobbies:write": DEVELOPERS,
  "chat:read": DEVELOPERS,
  "chat:write": DEVELOPERS,
  "chat:moderate": ADMINS,
  "config:read": DEVELOPERS,
  "config:manage": ADMINS,
  "projects:read": DEVELOPERS,
  "realtime:connect": DEVELOPERS,
  "webhooks:read": DEVELOPERS,
  "webhooks:write": DEVELOPERS,
  "analytics:read": DEVELOPERS,
};

const isScope = (text: string): text is Scope => (SCOPES as readonly string[]).includes(text);

const matching = (wanted: string): readonly Scope[] => {
  if (isScope(wanted)) return [wanted];
  if (wanted === "*") return SCOPES;
  return wanted.endsWith(":*") ? SCOPES.filter((scope) => scope.startsWith(wanted.slice(0, -1))) : [];
};

/**
 * Expands `wanted` to scopes; `*` and `players:*` stand for the scopes of today, so that scopes added later
 * are not granted silently. Absent: the default scopes. @throws VALIDATION_ERROR naming each unknown scope
 */
export const expandScopes = (wanted: readonly string[] | undefined): Scope[] => {
  if (wanted === undefined) return [...DEFAULT_SCOPES];
  const unknown = wanted.filter((scope) => matching(scope).length === 0);
  if (unknown.length > 0) {
    throw new DomainError("VALIDATION_ERROR", `Unknown scope: ${unknown.join(", ")}`, {
      details: wanted.flatMap((scope, at) =>
        unknown.includes(scope)
          ? [{ field: `scopes.${at}`, message: `unknown scope ${scope}; known are ${SCOPES.join(", ")}` }]
          : [],
      ),
    });
  }
  const granted = new Set(wanted.flatMap(matching));
  return SCOPES.filter((scope) => granted.has(scope));
};

const mayGrant = (role: Role, scope: string): boolean =>
  (isScope(scope) ? GRANTED_BY[scope] : ADMINS).includes(role);

/**
 * Rejects creating, changing or rotating a key with scopes that the role may not grant. @throws FORBIDDEN
 * INSUFFICIENT_ROLE
 */
export const checkCeiling = (role: Role, scopes: readonly string[]): void => {
  const above = scopes.filter((scope) => !mayGrant(role, scope));
  if (above.length === 0) return;
  throw forbidden(
    "INSUFFICIENT_ROLE",
    `Your role ${role} may not grant ${above.join(", ")}; ask an OWNER or ADMIN`,
  );
};
