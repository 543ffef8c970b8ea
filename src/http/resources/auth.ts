import { z } from "zod";
import type { App } from "../../app.ts";
import {
  APPROVAL_STATUSES,
  type Caller,
  MEMBER_STATUSES,
  OWN_ACCOUNT,
  OWN_ENROLMENT,
  PLANS,
  ROLES,
  userOf,
} from "../../domain/kernel/caller.ts";
import {
  changePassword,
  getAccount,
  login,
  refresh,
  type Self,
  updateAccount,
} from "../../domain/accounts/auth/account.ts";
import { listSessions, logout, revokeSession, SESSION_ORDERS } from "../../domain/accounts/auth/sessions.ts";
import { SIGN_IN_METHODS } from "../../domain/accounts/auth/tokens.ts";
import { invalid, unauthorized } from "../../domain/kernel/errors.ts";
import { Name } from "../../domain/accounts/tenants/tenant.ts";
import { mayCall } from "../access.ts";
import { type AnyRoute, group } from "../route.ts";
import { CurrentPassword, Email, LoginBody, NewPassword, TOKEN_INPUT_MAX } from "./registration.ts";
import { LoginInput, proofParts } from "./mfa-login.ts";
import { accepted, Accepted, deleted, Deleted, paged } from "./bodies.ts";

const AccountBody = z
  .object({
    user: z.object({
      id: z.uuid(),
      email: z.string(),
      name: z.string(),
      tenantId: z.uuid(),
      role: z.enum(ROLES),
      status: z.enum(MEMBER_STATUSES),
      emailVerified: z.boolean(),
      mustVerifyEmail: z.boolean().meta({
        description: "Whether some operations answer EMAIL_NOT_VERIFIED until the address is verified",
      }),
      profileCompleted: z
        .boolean()
        .meta({ description: "False until POST /auth/complete-profile, after a sign-up without a name" }),
      hasPassword: z.boolean().meta({ description: "False for users who only sign in through a provider" }),
      mfaEnabled: z.boolean().meta({ description: "Whether a second factor is set" }),
      pendingEmail: z
        .string()
        .nullable()
        .meta({ description: "New address that waits for the link of its mail" }),
      createdAt: z.iso.datetime(),
      updatedAt: z.iso.datetime(),
    }),
    tenant: z.object({
      id: z.uuid(),
      name: z.string(),
      plan: z.enum(PLANS).nullable().meta({ description: "Null while the user waits to be accepted" }),
      approvalStatus: z.enum(APPROVAL_STATUSES),
    }),
    permissions: z.array(z.string()).meta({
      description:
        "operationId of every operation that the user may call now, as role, membership, plan and state of " +
        "the tenant are",
      example: ["listProjects", "createProject"],
    }),
  })
  .meta({ id: "Account" });

const SessionBody = z
  .object({
    id: z.uuid(),
    ip: z.string(),
    userAgent: z.string(),
    method: z.enum(SIGN_IN_METHODS),
    createdAt: z.iso.datetime(),
    lastUsedAt: z.iso.datetime().meta({ description: "Exact to a minute" }),
    expiresAt: z.iso
      .datetime()
      .meta({ description: "30 days after the sign-in; refreshing does not move it" }),
    current: z.boolean().meta({ description: "The session of this request" }),
  })
  .meta({ id: "Session" });

const selfOf = (caller: Caller, ip: string): Self => {
  const { userId, tenantId, sessionId } = userOf(caller);
  return { userId, tenantId, sessionId, ip };
};

const account = async (app: App, caller: Caller, routes: readonly AnyRoute[]) => {
  const shown = await app.transact((work) => getAccount(work, userOf(caller).userId));
  const mustVerifyEmail = app.config.isVerifiedEmailRequired && !shown.user.emailVerified;
  const user = { ...shown.user, mustVerifyEmail };
  return {
    ...shown,
    user,
    permissions: routes.filter((one) => mayCall(app, caller, one)).map(({ id }) => id),
  };
};

/** Properties shared by all operations of a signed-in user on their own account. */
const own = group({ tag: "Authentication", access: OWN_ACCOUNT, project: "none" });

const open = group({ tag: "Authentication", project: "none", access: "public" });

/** @throws VALIDATION_ERROR, UNAUTHORIZED CREDENTIALS_MISSING */
const refreshTokenOf = (
  session: { refreshToken: string | undefined } | undefined,
  body: { refreshToken?: string | undefined },
): string => {
  const token = session ? session.refreshToken : body.refreshToken;
  if (token !== undefined) return token;
  if (session) throw unauthorized("CREDENTIALS_MISSING", "No session is kept in a cookie; log in");
  throw invalid("refreshToken", "is required without X-Session: cookie");
};

const signInRoutes = [
  open.post("/auth/login", "login", {
    errors: ["UNAUTHORIZED"],
    summary: "Log in",
    description:
      "After 5 wrong passwords for an account, the next tries wait 1, 2, 4 .. seconds: up to 60 at an " +
      "address that has signed in to it before, up to 360 at all others together. An address has 20 wrong " +
      "passwords in 15 minutes. An account with a second factor answers 401 with the reason MFA_REQUIRED, " +
      "and `challenge` for POST /auth/login/mfa; with `mfaCode` one call does both.",
    body: LoginInput,
    example: { email: "ada@example.com", password: "Engine-No-1" },
    session: "begins",
    response: LoginBody,
    outside: (app, { body, actor }) => login(proofParts(app, actor), { ...body, ip: actor.ip }),
  }),
  open.post("/auth/refresh", "refreshSession", {
    errors: ["UNAUTHORIZED"],
    summary: "Refresh a session",
    description:
      "A refresh token is good once: keep the new one. For 30 seconds after its use it works again, for " +
      "parallel tabs and lost answers; later the session ends, since two have the token. Role and tenant " +
      "are read anew; the session ends 30 days after the sign-in all the same.",
    body: z.object({
      refreshToken: z
        .string()
        .max(TOKEN_INPUT_MAX)
        .optional()
        .meta({ description: "Needed without X-Session: cookie" }),
    }),
    example: { refreshToken: "the refreshToken of the last answer" },
    needsBody: true,
    session: "renews",
    response: LoginBody,
    outside: (app, { body, session }) => refresh(app, refreshTokenOf(session, body)),
  }),
  own.post("/auth/logout", "logout", {
    access: OWN_ENROLMENT,
    summary: "Log out",
    description:
      "Ends the session of the access token, and with `refreshToken` that token's session if it is another " +
      "of yours; with `all` every session. Access tokens of an ended session die within 5 seconds.",
    takesNoIdempotencyKey: true,
    body: z.object({
      refreshToken: z.string().max(TOKEN_INPUT_MAX).optional(),
      all: z.boolean().optional(),
    }),
    example: { refreshToken: "the refreshToken of the last answer" },
    session: "ends",
    response: Accepted,
    run: (work, { caller, body, session }) => {
      const refreshToken = session?.refreshToken ?? body.refreshToken;
      return accepted(logout(work, userOf(caller), { ...body, refreshToken }));
    },
  }),
];

const accountRoutes = (routes: () => readonly AnyRoute[]) => [
  own.get("/auth/me", "getAccount", {
    access: OWN_ENROLMENT,
    summary: "Get your account",
    response: AccountBody,
    outside: (app, { caller }) => account(app, caller, routes()),
  }),
  own.patch("/auth/me", "updateAccount", {
    summary: "Change your account",
    description:
      "A new `email` needs `currentPassword`. It is mailed a link, good for 24 hours, and replaces the old " +
      "address once its token was sent to POST /auth/verify-email; then the old address is notified.",
    body: z.object({
      name: Name.optional(),
      email: Email.optional(),
      currentPassword: CurrentPassword.optional(),
    }),
    example: { name: "Ada Lovelace" },
    response: AccountBody,
    outside: async (app, { caller, body, actor }) => {
      const accounts = app.transactAs({ role: "accounts", by: actor });
      await updateAccount({ ...app, accounts }, selfOf(caller, actor.ip), body);
      return account(app, caller, routes());
    },
  }),
  own.post("/auth/change-password", "changePassword", {
    summary: "Change your password",
    description: "Ends your other sessions. Without a password so far: POST /auth/forgot-password.",
    takesNoIdempotencyKey: true,
    body: z.object({ currentPassword: CurrentPassword, newPassword: NewPassword }),
    example: { currentPassword: "Engine-No-1", newPassword: "Copper-Kettle-91" },
    response: Accepted,
    outside: (app, { caller, body, actor }) => accepted(changePassword(app, selfOf(caller, actor.ip), body)),
  }),
];

const sessionRoutes = [
  own.get("/auth/sessions", "listSessions", {
    summary: "List your sessions",
    description: "Those that go on, newest first; at most 100.",
    ...paged(SessionBody, SESSION_ORDERS, {}),
    run: (work, { caller, query }) => listSessions(work, userOf(caller), query),
  }),
  own.delete("/auth/sessions/{sessionId}", "revokeSession", {
    summary: "End one of your sessions",
    response: Deleted,
    run: (work, { caller, params }) => deleted(revokeSession(work, userOf(caller), params.sessionId)),
  }),
];

/** @param routes every operation of the API; GET /auth/me lists those that the user may call */
export const authRoutes = (routes: () => readonly AnyRoute[]): readonly AnyRoute[] => [
  ...signInRoutes,
  ...accountRoutes(routes),
  ...sessionRoutes,
];
