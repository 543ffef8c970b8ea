import type { Role } from "../../kernel/caller.ts";
import { forbidden } from "../../kernel/errors.ts";

/** Returns whether a role may grant another: an OWNER all, an ADMIN all but OWNER, others none. */
export const mayGrant = (by: Role, role: Role): boolean =>
  by === "OWNER" || (by === "ADMIN" && role !== "OWNER");

/** @throws FORBIDDEN INSUFFICIENT_ROLE */
export const requireGrant = (by: Role, role: Role): void => {
  if (mayGrant(by, role)) return;
  throw forbidden("INSUFFICIENT_ROLE", `The role ${by} may not give or take away the role ${role}`);
};
