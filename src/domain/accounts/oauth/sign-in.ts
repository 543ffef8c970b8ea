import { UniqueConstraintViolationException } from "@mikro-orm/core";
import { sql } from "kysely";
import {
  forgetOldTokens,
  hashRandomSecret,
  issueRefreshToken,
  newRandomSecret,
} from "../auth/one-time-secrets.ts";
import { type DisposableSettings, isDisposable } from "../auth/registration.ts";
import { type SignedIn, signedIn, startSession } from "../auth/sessions.ts";
import { Session, type SignInMethod, type Tokens } from "../auth/tokens.ts";
import { User } from "../auth/user.ts";
import type { CustomHost } from "../domains/known.ts";
import type { Mail } from "../email/mail.ts";
import { challengeFor, signInOrChallenge, type SignInOutcome } from "../mfa/sign-in.ts";
import { addIdentity, announceIdentity } from "./identities.ts";
import {
  consumeFlow,
  type Flow,
  type FlowKind,
  Identity,
  OAuthError,
  type OAuthProvider,
  PROVIDER_NAMES,
  type ProviderId,
  type ProviderProfile,
  provisionalName,
  refusal,
  type ResponseMode,
  withParameters,
} from "./provider.ts";
import { type Limiter, LIMITS } from "../rate-limits/limiter.ts";
import { limitKeyOf } from "../../kernel/networks.ts";
import { holdIdp, isClaimed, requireSso } from "../sso/enforcement.ts";
import { consumeInvitation, type Invited } from "../team/accept.ts";
import { addUser, openTenant, Tenant, type TenantDefaults } from "../tenants/tenant.ts";
import { DomainError, invalid, notFound } from "../../kernel/errors.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/**
 * Returns a session that is still open, which it stays until the commit: who ends it either precedes this or
 * waits. The user is locked as well.
 */
const holdSession = async (
  { db, em, now }: Work,
  { userId, sessionId }: { userId: string; sessionId: string },
): Promise<Session | undefined> => {
  // The user is locked before the session, as where a password is set, to avoid deadlocks.
  await sql`select 1 from users where id = ${userId}::uuid for no key update`.execute(db);
  const { rows } = await sql`
    select 1 from sessions where id = ${sessionId}::uuid and user_id = ${userId}::uuid
      and revoked_at is null and expires_at > ${now.toISOString()}::timestamptz
    for share`.execute(db);
  return rows.length === 1 ? em.findOneOrFail(Session, { id: sessionId }, { refresh: true }) : undefined;
};

/**
 * Returns further tokens of a session that is held. It stays what it was: as old, ending when it did, and
 * with the proofs that it had. `refreshUntil`: as in `startSession`.
 */
const goOn = async (
  work: Work,
  tokens: Tokens,
  { user, session, refreshUntil }: { user: User; session: Session; refreshUntil?: Date },
): Promise<SignedIn> => {
  const endMs = Math.min(session.expiresAt.getTime(), refreshUntil?.getTime() ?? Infinity);
  const refreshToken = await issueRefreshToken(work, session, new Date(endMs));
  await forgetOldTokens(work, session.id);
  return signedIn(work, tokens, { user, session, refreshToken });
};

/** The `method` of sessions that begin with a provider, or through a tenant's identity provider. */
const METHODS: Readonly<Record<CodeIssuer, SignInMethod>> = {
  google: "GOOGLE",
  github: "GITHUB",
  sso: "SSO",
};

type SignInParts = { mail: Mail; config: TenantDefaults & DisposableSettings };

/** Returns the user, unless disabled by a super-admin or of a deleted tenant. */
export const findActive = async ({ em }: Work, userId: string): Promise<User | undefined> => {
  const user = await em.findOne(User, { id: userId, disabledAt: null });
  const tenant = user && (await em.findOne(Tenant, { id: user.tenantId, deletedAt: null }));
  return user && tenant ? user : undefined;
};

/** A completed flow with the profile of the person. */
type CompletedFlow = { flow: Flow; profile: ProviderProfile };

/** Who may have a session now. `session`: the one that has linked a provider, and goes on. */
type Resolved = { user: User; session?: Session };

/**
 * Returns the user who may have a session now, by the kind of flow, creating accounts and identities as
 * needed. @throws OAuthError, FORBIDDEN SSO_REQUIRED
 */
const resolveUser = async (work: Work, parts: SignInParts, completed: CompletedFlow): Promise<Resolved> => {
  const { flow } = completed;
  const resolved = await RESOLVE[flow.flow](work, parts, completed);
  const { user } = resolved;
  // The redirect URI may be the tenant's own choice, so no tokens of other tenants are sent there.
  if (flow.tenantId !== null && user.tenantId !== flow.tenantId) throw noSuchFlow(flow.provider);
  if (!(await findActive(work, user.id))) {
    throw new OAuthError("account_disabled", "This account is disabled; ask the operator of this server");
  }
  return resolved;
};

const noSuchFlow = (provider: ProviderId): OAuthError =>
  new OAuthError(
    "account_not_found",
    `No account is linked to this ${PROVIDER_NAMES[provider]} account, and none with its address ` +
      "has verified that address; sign up, or log in another way and link it",
  );

const linked = (provider: ProviderId): OAuthError =>
  new OAuthError(
    "identity_already_linked",
    `This ${PROVIDER_NAMES[provider]} account belongs to another account, or yours has one already; ` +
      "unlink that one first",
  );

const verifiedEmail = (provider: ProviderId, { email }: ProviderProfile): string => {
  if (email !== undefined) return email;
  throw new OAuthError(
    "email_not_verified",
    `${PROVIDER_NAMES[provider]} has not verified your email address; verify it there first`,
  );
};

const findByIdentity = async ({ em }: Work, { flow, profile }: CompletedFlow): Promise<User | undefined> => {
  const { provider } = flow;
  const identity = await em.findOne(Identity, { provider, subject: profile.subject });
  return identity ? em.findOneOrFail(User, { id: identity.userId }) : undefined;
};

const logIn = async (work: Work, { mail }: SignInParts, completed: CompletedFlow): Promise<Resolved> => {
  const { flow, profile } = completed;
  const known = await findByIdentity(work, completed);
  if (known) return { user: known };
  const email = verifiedEmail(flow.provider, profile);
  // An unverified address may have been entered by anyone, to wait for its owner.
  const user = await work.em.findOne(User, { email, emailVerified: true });
  if (!user || (flow.tenantId !== null && user.tenantId !== flow.tenantId)) throw noSuchFlow(flow.provider);
  return { user: await addLink(work, mail, { user, completed }) };
};

/** Links the identity, or detects that a concurrent request has linked the same one. */
const addLink = async (
  work: Work,
  mail: Mail,
  { user, completed }: { user: User; completed: CompletedFlow },
): Promise<User> => {
  const { flow, profile } = completed;
  if (await addIdentity(work, user, flow.provider, profile)) {
    await announceIdentity(work, mail, user, flow.provider);
    return user;
  }
  const owner = await findByIdentity(work, completed);
  if (owner?.id !== user.id) throw linked(flow.provider);
  return user;
};

const signUp = async (work: Work, parts: SignInParts, completed: CompletedFlow): Promise<Resolved> => {
  const { flow, profile } = completed;
  const email = verifiedEmail(flow.provider, profile);
  const known = (await findByIdentity(work, completed)) ?? (await work.em.findOne(User, { email }));
  if (known) throw accountExists();
  if (isDisposable(email, parts.config.disposableEmail)) {
    const message = "The address belongs to a provider of disposable addresses; use a permanent one";
    throw new OAuthError("email_disposable", message);
  }
  const account = {
    email,
    name: profile.name ?? provisionalName(email),
    passwordHash: null,
    emailVerified: true,
    profileCompleted: profile.name !== undefined,
  };
  const invited = await invitationOf(work, flow, email);
  if (!invited && (await isClaimed(work, email, undefined)))
    throw new OAuthError(
      "sso_required",
      "People with addresses of this domain sign in through their company's identity provider",
    );
  const user = invited
    ? await addUser(work, invited.tenantId, { ...account, role: invited.role, status: "ACTIVE" })
    : (await openTenant(work, parts.config, account.name, account)).user;
  if (!(await addIdentity(work, user, flow.provider, profile))) throw accountExists();
  return { user };
};

/** Builds the error for a person who already has an account. */
const accountExists = (): OAuthError =>
  new OAuthError(
    "account_exists",
    "There is an account for this person already: log in instead, or set its password by mail if it is not " +
      "of your making",
  );

const invitationOf = async (work: Work, flow: Flow, email: string): Promise<Invited | undefined> => {
  if (flow.invitationToken === null) return undefined;
  try {
    return await consumeInvitation(work, flow.invitationToken, email);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    throw new OAuthError("invitation_invalid", error.message, error);
  }
};

const linkIsOver = (): OAuthError =>
  new OAuthError("access_denied", "The session that asked for this link has ended; log in and link again");

const link = async (work: Work, { mail }: SignInParts, completed: CompletedFlow): Promise<Resolved> => {
  const { flow, profile } = completed;
  const session = await holdSession(work, { userId: flow.userId!, sessionId: flow.sessionId! });
  if (!session) throw linkIsOver();
  const user = await work.em.findOne(User, { id: flow.userId! });
  if (!user) throw noSuchFlow(flow.provider);
  await requireSso(work, user, { method: METHODS[flow.provider] });
  // Otherwise an attacker who makes somebody open the link's URL would receive that person's next sign-in.
  const namesake = profile.email === undefined ? null : await work.em.findOne(User, { email: profile.email });
  if (namesake && namesake.id !== user.id) throw linked(flow.provider);
  return { user: await addLink(work, mail, { user, completed }), session };
};

const RESOLVE: Readonly<Record<FlowKind, typeof logIn>> = { login: logIn, signup: signUp, link };

/** What a code can stand for: a provider's sign-in, or one through a tenant's identity provider. */
type CodeIssuer = ProviderId | "sso";

const CODE_SECONDS = 60;

/**
 * Issues a code that is valid once, for a minute, for POST /auth/oauth/exchange. Only its hash is stored.
 * @param session the one that it gives further tokens of; without one it begins a session
 */
export const issueCode = async (
  work: Work,
  user: User,
  provider: CodeIssuer,
  session?: Pick<Session, "id">,
): Promise<string> => {
  const code = newRandomSecret();
  const expiresAt = new Date(work.now.getTime() + CODE_SECONDS * 1_000).toISOString();
  const idp = (await idpOf(work, user, provider)) ?? null;
  await sql`
    insert into oauth_codes (hash, user_id, provider, idp, session_id, expires_at)
    values (${hashRandomSecret(code)}, ${user.id}::uuid, ${provider}, ${idp},
      ${session?.id ?? null}::uuid, ${expiresAt}::timestamptz)`.execute(work.db);
  return code;
};

/** The identity provider that a code stands for: with another one, or none, the code counts no more. */
const idpOf = async (
  work: Work,
  { tenantId }: User,
  provider: CodeIssuer,
): Promise<string | null | undefined> => (provider === "sso" ? holdIdp(work, tenantId) : null);

type StoredCode = {
  user_id: string;
  provider: CodeIssuer;
  idp: string | null;
  session_id: string | null;
  expires_at: Date;
};

/** Whether nothing has changed since a code was issued: a new password or address, or another provider. */
const isCurrent = async (work: Work, user: User, code: StoredCode): Promise<boolean> => {
  const issuedMs = code.expires_at.getTime() - CODE_SECONDS * 1_000;
  return user.updatedAt.getTime() <= issuedMs && (await idpOf(work, user, code.provider)) === code.idp;
};

/** `tenantId`: of whom alone codes are taken, at their custom domain. */
type BroughtCode = { code: string; tenantId: string | undefined };

const codeInvalid = (): DomainError => {
  const message = "is unknown, used or older than 60 seconds; start the sign-in again";
  return invalid("code", message, "OAUTH_CODE_INVALID");
};

/**
 * Starts the session that a code stands for, unless the user has a second factor to prove first; or goes on
 * with the one that has linked a provider.
 *
 * @throws VALIDATION_ERROR OAUTH_CODE_INVALID
 */
export const exchangeCode = async (
  work: Work,
  tokens: Tokens,
  { code, tenantId }: BroughtCode,
): Promise<SignInOutcome> => {
  const { rows } = await sql<StoredCode>`
    delete from oauth_codes
    where hash = ${hashRandomSecret(code)} and expires_at > ${work.now.toISOString()}::timestamptz
    returning user_id, provider, idp, session_id, expires_at`.execute(work.db);
  const found = rows[0];
  const user = found && (await findActive(work, found.user_id));
  const isElsewhere = tenantId !== undefined && tenantId !== user?.tenantId;
  if (!found || !user || isElsewhere || !(await isCurrent(work, user, found))) throw codeInvalid();
  if (found.session_id !== null) {
    const session = await holdSession(work, { userId: user.id, sessionId: found.session_id });
    if (!session) throw codeInvalid();
    return goOn(work, tokens, { user, session });
  }
  return signInOrChallenge(work, tokens, user, METHODS[found.provider]);
};

/** A refresh token sent in a URL must be exchanged for another within this time. */
const REFRESH_IN_ADDRESS_SECONDS = 300;

/** How somebody signed in. `session`: the one that goes on, of somebody who only linked a provider. */
type Grant = { by: CodeIssuer; responseMode: ResponseMode; session?: Session | undefined };

/**
 * Returns the parameters with which the browser of somebody who signed in goes back: tokens, or a code.
 * @throws FORBIDDEN SSO_REQUIRED
 */
export const granted = async (
  work: Work,
  tokens: Tokens,
  user: User,
  { by, responseMode, session }: Grant,
): Promise<Record<string, string>> => {
  if (responseMode === "code") return { code: await issueCode(work, user, by, session) };
  const method = METHODS[by];
  const refreshUntil = new Date(work.now.getTime() + REFRESH_IN_ADDRESS_SECONDS * 1_000);
  if (session) return inAddress(await goOn(work, tokens, { user, session, refreshUntil }));
  if (user.mfaEnabled) return challenged(work, tokens, user, method);
  return inAddress(await startSession(work, tokens, user, { method, refreshUntil }));
};

const inAddress = (result: SignedIn): Record<string, string> => ({
  access_token: result.accessToken,
  refresh_token: result.refreshToken,
  token_type: result.tokenType,
  expires_in: String(result.expiresIn),
});

/** An error of which the page makes a question for the code, with what it sends along. */
const challenged = async (
  work: Work,
  tokens: Tokens,
  row: User,
  method: SignInMethod,
): Promise<Record<string, string>> => {
  const { token, methods } = await challengeFor(work, tokens, { kind: "user", row }, method);
  return {
    error: "mfa_required",
    error_description: "This account has a second factor: send challenge_token to POST /auth/login/mfa",
    challenge_token: token,
    challenge_methods: methods.join(","),
  };
};

export type CompleteParts = SignInParts & {
  transact: Transact;
  secretBox: SecretBox;
  tokens: Tokens;
  limiter: Limiter;
  /** Called with errors that the user cannot fix. */
  report: (failure: OAuthError) => void;
};

/** Parameters, cookie and origin with which the browser came back. */
type FlowReturn = {
  id: ProviderId;
  answer: URLSearchParams;
  browser: string | undefined;
  ip: string;
};

/**
 * Completes a flow and returns the URL to redirect the browser to, with tokens, a code or an error.
 * @throws VALIDATION_ERROR OAUTH_STATE_INVALID while that URL is not known
 */
export const completeFlow = async (
  parts: CompleteParts,
  provider: OAuthProvider,
  { id, answer, browser, ip }: FlowReturn,
): Promise<string> => {
  const state = answer.get("state");
  if (state === null || browser === undefined) {
    const message = "the sign-in was started in another browser or at another URL of this server";
    throw invalid("state", message, "OAUTH_STATE_INVALID");
  }
  const { transact, secretBox } = parts;
  const { flow, handshake } = await transact((work) =>
    consumeFlow(work, secretBox, { provider: id, state, browser }),
  );
  try {
    if (flow.flow === "signup") await countSignUp(parts, ip);
    const profile = await provider.profileOf(answer, handshake);
    const parameters = await transact(async (work) => {
      const { user, session } = await resolveUser(work, parts, { flow, profile });
      return granted(work, parts.tokens, user, { by: id, responseMode: flow.responseMode, session });
    });
    return withParameters(flow.redirectUri, parameters);
  } catch (error) {
    const failure = asOAuthError(error);
    if (failure.cause !== undefined) parts.report(failure);
    return refusal(flow.redirectUri, failure);
  }
};

/** Signing up through a provider counts as a registration, and so does a failed attempt. */
const countSignUp = async ({ limiter }: CompleteParts, ip: string): Promise<void> => {
  const { isAllowed } = await limiter.consume(LIMITS.registration, limitKeyOf(ip));
  if (isAllowed) return;
  throw new OAuthError(
    "rate_limited",
    "Too many accounts were registered from your address; try again later",
  );
};

const asOAuthError = (error: unknown): OAuthError => {
  if (error instanceof OAuthError) return error;
  // Two concurrent sign-ups of the same person: the other one created the account.
  if (error instanceof UniqueConstraintViolationException) return accountExists();
  if (error instanceof DomainError && error.reason === "SSO_REQUIRED")
    return new OAuthError("sso_required", error.message);
  return new OAuthError("server_error", "Something went wrong here; try again", error);
};

type Query = Readonly<Record<string, string | undefined>> & {
  flow?: string | undefined;
  tenantId?: string | undefined;
};

/**
 * Returns where a flow that is asked for at a custom domain begins: at PUBLIC_URL, the only address that
 * Google and GitHub send browsers back to, and for the domain's tenant alone. Whoever controls the domain's
 * DNS would otherwise see the sign-ins of its members pass. @throws NOT_FOUND for another tenant
 */
export const startAtPublicUrl = (
  publicUrl: string,
  provider: ProviderId,
  query: Query,
  host: CustomHost,
): string => {
  if (query.tenantId !== undefined && query.tenantId !== host.tenantId) throw notFound("Tenant");
  const url = new URL(`${publicUrl}/api/v1/auth/oauth/${provider}`);
  // A link is of the account that has asked for it.
  const pinned = query.flow === "link" ? query : { ...query, tenantId: host.tenantId };
  for (const [name, value] of Object.entries(pinned))
    if (value !== undefined) url.searchParams.set(name, value);
  return url.href;
};
