import { UniqueConstraintViolationException } from "@mikro-orm/core";
import { normaliseEmail } from "../email/address.ts";
import type { Mail } from "../email/mail.ts";
import { conflict } from "../../kernel/errors.ts";
import { consumeInvitation, findInvitation } from "../team/accept.ts";
import { addUser, type NewUser, openTenant, type TenantDefaults } from "../tenants/open-tenant.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { requireUnclaimed } from "../sso/discover.ts";
import { releaseUnproved } from "../sso/unproved.ts";
import { type Captcha, requireCaptcha } from "./captcha.ts";
import { type DisposableLists, refuseDisposable } from "./disposable.ts";
import { mailVerification } from "./email-verification.ts";
import type { Origin } from "./known-origins.ts";
import { type Passwords, refuseWeakPassword } from "./passwords.ts";
import { respondToBot, type BotParts } from "./registration-decoy.ts";
import { isNoticeAllowed, joinWaiting, requireOpenTenant, notifyAdminsOfJoin } from "./registration-join.ts";
import type { MailRequestParts } from "./account-mail.ts";
import type { RegisteredUser, Registration } from "./registration-request.ts";
import { type LoggedIn, startSessionOn } from "./sessions.ts";
import { REGISTRATION_TOKEN_SECONDS, type Tokens } from "./tokens.ts";
import type { User } from "./user.ts";

export type RegistrationParts = TenantDefaults &
  BotParts &
  MailRequestParts & {
    transact: Transact;
    tokens: Tokens;
    passwords: Passwords;
    captcha: Captcha;
    disposableEmail: DisposableLists;
  };

/**
 * Registers a user: as the OWNER of a new tenant; with an invitation, as the member it invites; with a
 * tenantId alone, as a VIEWER who waits (PENDING) until an OWNER or ADMIN of the tenant accepts them.
 *
 * A filled `website` gets a response of the same shape and nothing is stored. A taken address is reported,
 * unlike anywhere else: the applicant must know, and the limit of 5 an hour for each client address
 * bounds what can be learnt.
 *
 * @throws VALIDATION_ERROR CAPTCHA_FAILED, EMAIL_DISPOSABLE, PASSWORD_TOO_WEAK; NOT_FOUND for an unknown
 * tenant or invitation; PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED when the tenant is full; CONFLICT
 * EMAIL_ALREADY_EXISTS, INVALID_STATE; GONE INVITATION_EXPIRED, INVITATION_REVOKED; FORBIDDEN
 * INVITATION_EMAIL_MISMATCH, TENANT_SUSPENDED, EMAIL_DOMAIN_CLAIMED; SERVICE_UNAVAILABLE CAPTCHA_UNAVAILABLE,
 * BUSY
 */
export const register = async (
  parts: RegistrationParts,
  body: Registration,
  { ip, deviceToken }: Origin,
): Promise<LoggedIn<RegisteredUser>> => {
  const { transact, passwords } = parts;
  const email = normaliseEmail(body.email);
  if (body.website) return respondToBot(parts, { ...body, email }, ip);
  await requireCaptcha(parts, body.captchaToken, ip);
  refuseDisposable(email, parts.disposableEmail);
  await checkTenant(transact, body, email);
  refuseWeakPassword(body.password, { email, name: body.name });
  const passwordHash = await passwords.hash(body.password);
  const isNoticed = await isNoticeAllowed(parts.limiter, body.tenantId);
  const account: NewAccount = { email, name: body.name, passwordHash };
  return transact(async (work) => {
    const user = await join(work, parts, { body, account });
    if (!user.emailVerified) await mailVerification(work, parts, user);
    if (user.status === "PENDING" && isNoticed) await notifyAdminsOfJoin(work, parts.mail, user);
    return signInNew(work, parts.tokens, user, { ...body, deviceToken });
  }).catch((error: unknown) => {
    if (!(error instanceof UniqueConstraintViolationException)) throw error;
    throw conflict(
      "EMAIL_ALREADY_EXISTS",
      "An account with this email address exists already; log in instead",
    );
  });
};

type NewAccount = Pick<NewUser, "email" | "name"> & { passwordHash: string };

/** Checks that the tenant to be joined exists, and is the address's, before the password costs a hash. */
const checkTenant = (
  transact: Transact,
  { tenantId, invitationToken }: Registration,
  email: string,
): Promise<void> =>
  transact(async (work) => {
    // Its token was mailed, so it is theirs.
    if (invitationToken !== undefined) return void (await findInvitation(work, invitationToken));
    if (tenantId !== undefined) await requireOpenTenant(work, tenantId);
    await requireUnclaimed(work, email, tenantId);
  });

const join = async (
  work: Work,
  parts: TenantDefaults & { mail: Mail },
  { body, account }: { body: Registration; account: NewAccount },
): Promise<User> => {
  const { tenantId, invitationToken, tenantName = account.name } = body;
  if (invitationToken !== undefined) {
    const invited = await consumeInvitation(work, invitationToken, account.email);
    const { role } = invited;
    // The token came by mail, so the address is theirs.
    await releaseUnproved(work, parts.mail, { tenantId: invited.tenantId, email: account.email });
    return addUser(work, invited.tenantId, { ...account, role, status: "ACTIVE", emailVerified: true });
  }
  if (tenantId !== undefined) return joinWaiting(work, tenantId, account);
  return (await openTenant(work, parts, tenantName, { ...account, emailVerified: false })).user;
};

const signInNew = async (
  work: Work,
  tokens: Tokens,
  user: User,
  { invitationToken, deviceToken }: Registration & Pick<Origin, "deviceToken">,
): Promise<LoggedIn<RegisteredUser>> => {
  const method = invitationToken === undefined ? "PASSWORD" : "INVITATION";
  const expiresIn = REGISTRATION_TOKEN_SECONDS;
  const started = await startSessionOn(work, tokens, user, { method, expiresIn, deviceToken });
  const { id, email, name, tenantId, role, emailVerified } = user;
  const registered = { id, email, name, tenantId, role, emailVerified };
  return { ...started, signedIn: { ...started.signedIn, user: registered } };
};
