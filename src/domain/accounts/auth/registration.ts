import { UniqueConstraintViolationException } from "@mikro-orm/core";
import { disposableEmailBlocklistSet } from "disposable-email-domains-js";
import { audit, ofTenant, ofUser } from "../audit/audit.ts";
import { type MailRequestParts, mailVerification } from "./email-verification.ts";
import { type Captcha, newRefreshToken, requireCaptcha } from "./one-time-secrets.ts";
import { type Passwords, refuseWeakPassword } from "./passwords.ts";
import { type SignedIn, startSession } from "./sessions.ts";
import { REGISTRATION_TOKEN_SECONDS, type Tokens } from "./tokens.ts";
import { User } from "./user.ts";
import { normaliseEmail } from "../email/address.ts";
import type { Mail } from "../email/mail.ts";
import { type AbuseParts, noteAbuse } from "../rate-limits/ip-blocks.ts";
import { type Limiter, LIMITS } from "../rate-limits/limiter.ts";
import { normaliseDomain } from "../sso/domain-name.ts";
import { releaseUnproved } from "../sso/domains.ts";
import { requireUnclaimed } from "../sso/enforcement.ts";
import { consumeInvitation, findInvitation } from "../team/accept.ts";
import { requireSeat } from "../team/invitations.ts";
import { notifyAdmins } from "../tenants/notify-owners.ts";
import {
  addUser,
  getTenant,
  lockTenant,
  type NewUser,
  openTenant,
  Tenant,
  type TenantDefaults,
} from "../tenants/tenant.ts";
import { conflict, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import { shown } from "../../kernel/json.ts";
import { newId } from "../../kernel/ids.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** The operator's own domains, which override the list: each with its sub-domains, in any case. */
export type DisposableLists = { allow: readonly string[]; deny: readonly string[] };

export type DisposableSettings = { disposableEmail: DisposableLists };

/** Kept here because the library builds the set on each call. */
const listed: ReadonlySet<string> = disposableEmailBlocklistSet();

/** Returns a domain and its parents, the nearest first: `a.b.c` gives `a.b.c` and `b.c`. */
const withParents = (domain: string): string[] => {
  const labels = domain.split(".");
  return labels.slice(0, -1).map((_, index) => labels.slice(index).join("."));
};

const names = (list: readonly string[], domain: string): boolean =>
  list.some((entry) => normaliseDomain(entry) === domain);

/**
 * Returns whether the address belongs to a provider of throw-away mailboxes. The nearest known domain
 * decides.
 */
export const isDisposable = (email: string, { allow, deny }: DisposableLists): boolean => {
  const domain = email.slice(email.lastIndexOf("@") + 1).toLowerCase();
  for (const known of withParents(domain)) {
    if (names(allow, known)) return false;
    if (names(deny, known) || listed.has(known)) return true;
  }
  return false;
};

/** @throws VALIDATION_ERROR EMAIL_DISPOSABLE */
export const refuseDisposable = (email: string, lists: DisposableLists): void => {
  if (!isDisposable(email, lists)) return;
  throw invalid(
    "email",
    "belongs to a provider of disposable addresses; use a permanent one",
    "EMAIL_DISPOSABLE",
  );
};

/** The body of a registration. */
type Registration = {
  email: string;
  name: string;
  password: string;
  /** Name of the new tenant; the user's name when absent. */
  tenantName?: string | undefined;
  /** Tenant to join. */
  tenantId?: string | undefined;
  /** From the mail of an invitation; it determines the tenant and the role. */
  invitationToken?: string | undefined;
  captchaToken?: string | undefined;
  /** Invisible to people; only a bot fills it in. */
  website?: string | undefined;
};

const REGISTERED = ["id", "email", "name", "tenantId", "role", "emailVerified"] as const;
/** The user in the response to a registration. */
type RegisteredUser = Pick<User, (typeof REGISTERED)[number]>;

type BotParts = AbuseParts & { tokens: Tokens; passwords: Passwords };

/**
 * Responds to a bot: with what looks like a registration and costs as much, without storing anything. Ten of
 * them in an hour block the address for a day.
 */
const respondToBot = async (
  parts: BotParts,
  body: Registration,
  ip: string,
): Promise<SignedIn<RegisteredUser>> => {
  const { tokens, passwords } = parts;
  await noteAbuse(parts, "honeypot", ip);
  await passwords.hash(body.password);
  const isJoining = body.tenantId !== undefined || body.invitationToken !== undefined;
  const user: RegisteredUser = {
    id: newId(),
    email: body.email,
    name: body.name,
    tenantId: body.tenantId ?? newId(),
    role: isJoining ? "VIEWER" : "OWNER",
    emailVerified: body.invitationToken !== undefined,
  };
  const claims = { sub: user.id, tid: user.tenantId, sid: newId(), role: user.role };
  const { token, expiresIn } = await tokens.signDecoy(claims, REGISTRATION_TOKEN_SECONDS);
  const refreshToken = newRefreshToken();
  return { accessToken: token, refreshToken, tokenType: "Bearer", expiresIn, user };
};

/** Maximum recipients of a notice that somebody waits. */
const RECIPIENTS_MAX = 20;

/** Refuses a tenant that nobody may ask to join any more. @throws NOT_FOUND */
const requireOpen = ({ deleteAfter }: Tenant): void => {
  if (deleteAfter) throw notFound("Tenant");
};

/**
 * Adds a VIEWER who waits to be accepted by somebody of the tenant, and can only manage their own account
 * until then.
 *
 * @throws NOT_FOUND, PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
const joinWaiting = async (
  work: Work,
  tenantId: string,
  account: Pick<NewUser, "email" | "name" | "passwordHash">,
): Promise<User> => {
  // Locked, so that two concurrent registrations cannot both take the last seat.
  const tenant = await lockTenant(work, tenantId);
  requireOpen(tenant);
  // Waiting users are limited to the seats of the plan as well: strangers decide how many register.
  await requireSeat(work, tenant, { withWaiting: true });
  const waiting = { role: "VIEWER", status: "PENDING", emailVerified: false } as const;
  const user = await addUser(work, tenantId, { ...account, ...waiting });
  await audit(work, { ...ofUser(user), action: "member.requested", data: { email: user.email } });
  return user;
};

/** Returns whether the tenant may be mailed about a waiting user: strangers decide how often that happens. */
const isNoticeAllowed = async (limiter: Limiter, tenantId: string | undefined): Promise<boolean> =>
  tenantId !== undefined &&
  (await limiter.consume(LIMITS.mailTenant, `member-pending:${tenantId}`)).isAllowed;

/** Notifies those who can accept a waiting user. */
const notifyAdminsOfJoin = async (work: Work, mail: Mail, { tenantId, name, email }: User): Promise<void> => {
  const { name: tenantName } = await work.em.findOneOrFail(Tenant, { id: tenantId });
  const values = { tenantName, name, email };
  const notice = { template: "member-pending", values, limit: RECIPIENTS_MAX } as const;
  await notifyAdmins(mail, work, tenantId, notice);
};

type Profile = { name: string; tenantName?: string | undefined };

/**
 * Completes, once, the account of a user whose provider gave no name.
 *
 * @throws CONFLICT INVALID_STATE when it was complete, FORBIDDEN INSUFFICIENT_ROLE for the tenant's name
 * unless an OWNER sets it
 */
export const completeProfile = async (
  work: Work,
  { userId, tenantId }: { userId: string; tenantId: string },
  { name, tenantName }: Profile,
): Promise<RegisteredUser & { profileCompleted: boolean }> => {
  const { em, now } = work;
  const user = await em.findOne(User, { id: userId, tenantId });
  // Removed since the session was read, which may be 5 s ago.
  if (!user) throw notFound("User");
  if (user.profileCompleted) {
    throw conflict("INVALID_STATE", "The profile is complete already; change it with PATCH /auth/me");
  }
  if (tenantName !== undefined) {
    if (user.role !== "OWNER") throw forbidden("INSUFFICIENT_ROLE", "Only an OWNER names the tenant");
    const tenant = await em.findOneOrFail(Tenant, { id: tenantId });
    Object.assign(tenant, { name: tenantName, updatedAt: now });
    await audit(work, { ...ofTenant(tenantId), action: "tenant.updated", data: { tenantName } });
  }
  Object.assign(user, { name, profileCompleted: true, updatedAt: now });
  return shown(user, [...REGISTERED, "profileCompleted"]);
};

type RegistrationParts = BotParts &
  MailRequestParts & { captcha: Captcha; config: TenantDefaults & DisposableSettings };

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
  ip: string,
): Promise<SignedIn<RegisteredUser>> => {
  const { transact, passwords } = parts;
  const email = normaliseEmail(body.email);
  if (body.website) return respondToBot(parts, { ...body, email }, ip);
  await requireCaptcha(parts, body.captchaToken, ip);
  refuseDisposable(email, parts.config.disposableEmail);
  await checkTenant(transact, body, email);
  refuseWeakPassword(body.password, { email, name: body.name });
  const passwordHash = await passwords.hash(body.password);
  const isNoticed = await isNoticeAllowed(parts.limiter, body.tenantId);
  const account: NewAccount = { email, name: body.name, passwordHash };
  return transact(async (work) => {
    const user = await join(work, parts, { body, account });
    if (!user.emailVerified) await mailVerification(work, parts.mail, user);
    if (user.status === "PENDING" && isNoticed) await notifyAdminsOfJoin(work, parts.mail, user);
    return signInNew(work, parts.tokens, user, body);
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
    if (tenantId !== undefined) requireOpen(await getTenant(work, tenantId));
    await requireUnclaimed(work, email, tenantId);
  });

const join = async (
  work: Work,
  { mail, config }: { mail: Mail; config: TenantDefaults },
  { body, account }: { body: Registration; account: NewAccount },
): Promise<User> => {
  const { tenantId, invitationToken, tenantName = account.name } = body;
  if (invitationToken !== undefined) {
    const invited = await consumeInvitation(work, invitationToken, account.email);
    const { role } = invited;
    // The token came by mail, so the address is theirs.
    await releaseUnproved(work, mail, { tenantId: invited.tenantId, email: account.email });
    return addUser(work, invited.tenantId, { ...account, role, status: "ACTIVE", emailVerified: true });
  }
  if (tenantId !== undefined) return joinWaiting(work, tenantId, account);
  return (await openTenant(work, config, tenantName, { ...account, emailVerified: false })).user;
};

const signInNew = async (
  work: Work,
  tokens: Tokens,
  user: User,
  { invitationToken }: Registration,
): Promise<SignedIn<RegisteredUser>> => {
  const method = invitationToken === undefined ? "PASSWORD" : "INVITATION";
  const expiresIn = REGISTRATION_TOKEN_SECONDS;
  const started = await startSession(work, tokens, user, { method, expiresIn });
  return { ...started, user: shown(user, REGISTERED) };
};
