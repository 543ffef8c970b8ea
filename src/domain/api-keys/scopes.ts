import { DEFAULT_SCOPES, type Scope, SCOPES } from "../access.ts";
import type { Role } from "../caller.ts";
import { DomainError, forbidden } from "../errors.ts";

const isScope = (text: string): text is Scope => (SCOPES as readonly string[]).includes(text);

const matching = (wanted: string): readonly Scope[] => {
  if (isScope(wanted)) return [wanted];
  if (wanted === "*") return SCOPES;
  return wanted.endsWith(":*") ? SCOPES.filter((scope) => scope.startsWith(wanted.slice(0, -1))) : [];
};

/**
 * The scopes that `wanted` names; `*` and `players:*` stand for the scopes of today, so a later scope is
 * not granted silently. Absent: the default scopes. @throws VALIDATION_ERROR naming each unknown scope
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

/**
 * Definitions are not a DEVELOPER's to change, so neither are keys that could. @throws FORBIDDEN
 * INSUFFICIENT_ROLE
 */
export const checkCeiling = (role: Role, scopes: readonly Scope[]): void => {
  if (role !== "DEVELOPER") return;
  const above = scopes.filter((scope) => scope.endsWith(":manage"));
  if (above.length === 0) return;
  throw forbidden(
    "INSUFFICIENT_ROLE",
    `Your role DEVELOPER may not grant ${above.join(", ")}; ask an OWNER or ADMIN`,
  );
};
