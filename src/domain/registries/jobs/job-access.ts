import type { Scope } from "../../kernel/access.ts";
import type { Caller, Role } from "../../kernel/caller.ts";
import type { JobAccess } from "../../long-work/job-kind.ts";
import { JOB_KINDS } from "./kinds.ts";

const opens = ({ scope, roles }: JobAccess, caller: Caller): boolean => {
  if (caller.kind === "key") return caller.scopes.includes(scope);
  return caller.kind === "user" && roles.includes(caller.role);
};

/** Returns the kinds of job that a caller may see, read and cancel: those that they may start. */
export const jobKindsOf = (caller: Caller): string[] =>
  JOB_KINDS.filter(({ access }) => opens(access, caller)).map(({ kind }) => kind);

/** The scopes and roles that see at least one kind of job. */
export const ANY_JOB: { scope: readonly Scope[]; roles: readonly Role[] } = {
  scope: [...new Set(JOB_KINDS.map(({ access }) => access.scope))],
  roles: [...new Set(JOB_KINDS.flatMap(({ access }) => access.roles))],
};
