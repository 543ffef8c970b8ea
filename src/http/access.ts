import type { Config } from "../config.ts";
import { DomainError, forbidden, notFound, unauthorized } from "../domain/kernel/errors.ts";
import { isIn, networkOf } from "../domain/kernel/networks.ts";
import {
  type Access,
  type AdminCaller,
  approvalRequired,
  type Caller,
  featureUnavailable,
  hasFeature,
  type KeyCaller,
  type Needs,
  scopesOf,
  type UserCaller,
} from "../domain/kernel/caller.ts";
import type { AnyRoute } from "./route.ts";

type Networks = Pick<Config, "superadminAllowCidrs">;

/** Whether the route is a super-admin's. */
export const isOfPlatform = ({ path, access }: AnyRoute): boolean =>
  path.startsWith("/superadmin/") || (access !== "public" && access.admin !== undefined);

/**
 * Whether the route is a super-admin's and the address is outside SUPERADMIN_ALLOW_CIDRS (none: all are
 * allowed).
 */
export const isHiddenFrom = ({ superadminAllowCidrs }: Networks, ip: string, route: AnyRoute): boolean => {
  if (superadminAllowCidrs.length === 0 || !isOfPlatform(route)) return false;
  const address = networkOf(ip);
  return address === undefined || !isIn(address, superadminAllowCidrs);
};

/** Answers as for an unknown address. @throws NOT_FOUND */
export const refuseOutsiders = (config: Networks, ip: string, route: AnyRoute): void => {
  if (isHiddenFrom(config, ip, route)) throw notFound("Page");
};

/** The configuration that these checks depend on. */
type AccessRules = { isVerifiedEmailRequired: boolean };

/**
 * Checks whether the caller may use the operation: state of the tenant, then role or scope, then the
 * operation's other requirements.
 * @throws DomainError UNAUTHORIZED without credentials of the right kind, FORBIDDEN with the reason,
 * PAYMENT_REQUIRED PLAN_FEATURE_UNAVAILABLE
 */
export const requireAccess = (access: Access, caller: Caller, rules: AccessRules): void => {
  if (access === "public") return;
  if (caller.kind === "anonymous") throw missing(access);
  if (caller.kind === "admin") {
    requireAdmin(access, caller);
    return requireEnrolled(access.needs, caller);
  }
  if (access.admin !== undefined) throw missing(access);
  requireTenantState(access.needs, caller);
  if (caller.kind === "key") requireScope(access, caller);
  else {
    requireRole(access, caller);
    requireEnrolled(access.needs, caller);
  }
  if (access.needs) requireNeeds(access.needs, caller, rules);
};

/** Whether the caller passes these checks, of an operation that is not open to everyone. */
export const mayCall = (
  { config }: { config: AccessRules },
  caller: Caller,
  { access }: Pick<AnyRoute, "access">,
): boolean => {
  if (access === "public") return false;
  try {
    requireAccess(access, caller, config);
    return true;
  } catch (error) {
    if (error instanceof DomainError) return false;
    throw error;
  }
};

type Guarded = Exclude<Access, "public">;
type OfTenant = KeyCaller | UserCaller;

const missing = (access: Guarded): DomainError =>
  unauthorized(
    "CREDENTIALS_MISSING",
    access.admin === undefined
      ? "Send an API key in X-API-Key or an access token in Authorization"
      : "Send a super-admin's token in Authorization",
  );

const requireAdmin = (access: Guarded, { scopes }: AdminCaller): void => {
  if (access.admin === undefined) throw missing(access);
  if (scopes.includes("*") || scopes.includes(access.admin)) return;
  throw forbidden("INSUFFICIENT_SCOPE", `The platform token lacks the scope ${access.admin}`);
};

const requireTenantState = (needs: Needs | undefined, caller: OfTenant): void => {
  if (caller.tenant.approvalStatus === "SUSPENDED" && needs?.suspended !== true) {
    throw forbidden("TENANT_SUSPENDED", "The tenant is suspended; its OWNER has been informed of the reason");
  }
  if (caller.kind !== "user" || caller.status === "ACTIVE" || needs?.pending === true) return;
  if (caller.status === "PENDING")
    throw forbidden("MEMBERSHIP_PENDING", "An OWNER or ADMIN of the tenant has not accepted you yet");
  throw forbidden("MEMBERSHIP_SUSPENDED", "An OWNER or ADMIN of the tenant has suspended your membership");
};

/** @throws FORBIDDEN MFA_ENROLMENT_REQUIRED */
const requireEnrolled = (needs: Needs | undefined, caller: UserCaller | AdminCaller): void => {
  if (caller.mustEnrol !== true || needs?.enrolling === true) return;
  const path = caller.kind === "admin" ? "/superadmin/auth/mfa" : "/auth/mfa";
  throw forbidden(
    "MFA_ENROLMENT_REQUIRED",
    `Set up a second factor first: POST ${path}/totp/setup or POST ${path}/passkeys/options`,
  );
};

const notForKeys = ({ roles = [] }: Guarded): string =>
  "This operation is not open to API keys: send the access token of a user in Authorization: Bearer, see " +
  `POST /auth/login. It is open to ${roles.join(", ")}`;

const requireScope = (access: Guarded, caller: KeyCaller): void => {
  const scopes = scopesOf(access);
  if (scopes.length === 0) throw forbidden("INSUFFICIENT_SCOPE", notForKeys(access));
  if (!scopes.some((scope) => caller.scopes.includes(scope)))
    throw forbidden("INSUFFICIENT_SCOPE", `The API key lacks the scope ${scopes.join(" or ")}`);
};

const requireRole = ({ roles }: Guarded, caller: UserCaller): void => {
  if (roles === undefined) throw forbidden("INSUFFICIENT_ROLE", "This operation is open to API keys only");
  if (!roles.includes(caller.role))
    throw forbidden("INSUFFICIENT_ROLE", `This operation needs one of the roles ${roles.join(", ")}`);
};

/** For operations that only sometimes require it. @throws FORBIDDEN EMAIL_NOT_VERIFIED */
export const requireVerifiedEmail = (caller: Caller, { isVerifiedEmailRequired }: AccessRules): void => {
  if (!isVerifiedEmailRequired || caller.kind !== "user" || caller.emailVerified) return;
  throw forbidden(
    "EMAIL_NOT_VERIFIED",
    "Verify your email address first: see POST /auth/resend-verification",
  );
};

const requireNeeds = (needs: Needs, caller: OfTenant, rules: AccessRules): void => {
  if (needs.scope && caller.kind === "key" && !caller.scopes.includes(needs.scope))
    throw forbidden("INSUFFICIENT_SCOPE", `The API key lacks the scope ${needs.scope}`);
  if (needs.verifiedEmail) requireVerifiedEmail(caller, rules);
  if (needs.approval && caller.tenant.approvalStatus !== "APPROVED") throw approvalRequired();
  if (needs.feature && !hasFeature(caller.tenant, needs.feature))
    throw featureUnavailable(caller.tenant.plan, needs.feature);
};
