import { ADMINS } from "../../kernel/access.ts";
import { approvalRequired } from "../../kernel/approval.ts";
import type { Caller } from "../../kernel/caller.ts";
import { forbidden } from "../../kernel/errors.ts";
import type { ConfigChange } from "./diff.ts";
import { REPORTS } from "./document.ts";

/** Sections that only ADMINs may change, as with single changes. */
const OF_ADMINS: ReadonlySet<string> = new Set(["settings", "timezone"]);
/** Scopes that a key needs for a section besides `config:manage`. */
const SCOPES: Readonly<Record<string, string>> = {
  rules: "rules:manage",
  leaderboards: "leaderboards:manage",
  quests: "quests:manage",
  adventures: "adventures:manage",
};

/**
 * Refuses changes that the caller could not make individually.
 * @throws DomainError FORBIDDEN: INSUFFICIENT_ROLE, INSUFFICIENT_SCOPE, APPROVAL_REQUIRED
 */
export const refuseForbidden = (caller: Caller, changes: readonly ConfigChange[]): void => {
  const sections = new Set(changes.map(({ section }) => section));
  if (caller.kind === "user" && !ADMINS.includes(caller.role)) {
    const above = [...sections].filter((section) => OF_ADMINS.has(section));
    if (above.length > 0)
      throw forbidden("INSUFFICIENT_ROLE", `Your role ${caller.role} may not change ${above.join(", ")}`);
  }
  const isOfTenant = caller.kind === "user" || caller.kind === "key";
  if (sections.has(REPORTS) && isOfTenant && caller.tenant.approvalStatus !== "APPROVED")
    throw approvalRequired();
  if (caller.kind !== "key") return;
  const missing = [...sections].flatMap((section) => SCOPES[section] ?? []);
  const lacking = missing.filter((scope) => !caller.scopes.includes(scope));
  if (lacking.length > 0) throw forbidden("INSUFFICIENT_SCOPE", `This needs the scope ${lacking.join(", ")}`);
};
