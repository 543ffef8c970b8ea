import { type DomainError, forbidden } from "./errors.ts";

/** The refusal of what needs an approved tenant. */
export const approvalRequired = (): DomainError =>
  forbidden(
    "APPROVAL_REQUIRED",
    "The tenant has not been approved: a super-admin of this server does that, by " +
      "POST /superadmin/tenants/{tenantId}/approve",
  );
