import { sql } from "kysely";
import { isDisposable, type DisposableLists } from "../auth/disposable.ts";
import type { SignInMethod } from "../auth/session.ts";
import { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { DomainError } from "../../kernel/errors.ts";
import { consumeInvitation, type Invited } from "../team/accept.ts";
import { addUser, openTenant, type TenantDefaults } from "../tenants/open-tenant.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";
import { OAuthError } from "./errors.ts";
import type { Flow, FlowKind } from "./flows.ts";
import { addIdentity, announceIdentity } from "./identities.ts";
import { Identity } from "./identity.ts";
import { provisionalName } from "./profile.ts";
import { PROVIDER_NAMES, type ProviderId, type ProviderProfile } from "./provider.ts";

const METHODS: Readonly<Record<ProviderId, SignInMethod>> = { google: "GOOGLE", github: "GITHUB" };

/** Returns the `method` of sessions that begin with a provider. */
export const methodOf = (provider: ProviderId): SignInMethod => METHODS[provider];

export type SignInParts = TenantDefaults & { mail: Mail; disposableEmail: DisposableLists };

/** Returns the user, unless disabled by a super-admin or of a deleted tenant. */
export const findActive = async ({ em }: Work, userId: string): Promise<User | undefined> => {
  const user = await em.findOne(User, { id: userId, disabledAt: null });
  const tenant = user && (await em.findOne(Tenant, { id: user.tenantId, deletedAt: null }));
  return user && tenant ? user : undefined;
};

/** A completed flow with the profile of the person. */
type CompletedFlow = { flow: Flow; profile: ProviderProfile };

/**
 * Returns the user who may have a session now, by the kind of flow, creating accounts and identities as
 * needed. @throws OAuthError
 */
export const resolveUser = async (
  work: Work,
  parts: SignInParts,
  completed: CompletedFlow,
): Promise<User> => {
  const { flow } = completed;
  const user = await RESOLVE[flow.flow](work, parts, completed);
  // The redirect URI may be the tenant's own choice, so no tokens of other tenants are sent there.
  if (flow.tenantId !== null && user.tenantId !== flow.tenantId) throw notFound(flow.provider);
  if (!(await findActive(work, user.id))) {
    throw new OAuthError("account_disabled", "This account is disabled; ask the operator of this server");
  }
  return user;
};

const notFound = (provider: ProviderId): OAuthError =>
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

const logIn = async (work: Work, { mail }: SignInParts, completed: CompletedFlow): Promise<User> => {
  const { flow, profile } = completed;
  const known = await findByIdentity(work, completed);
  if (known) return known;
  const email = verifiedEmail(flow.provider, profile);
  // An unverified address may have been entered by anyone, to wait for its owner.
  const user = await work.em.findOne(User, { email, emailVerified: true });
  if (!user || (flow.tenantId !== null && user.tenantId !== flow.tenantId)) throw notFound(flow.provider);
  return addLink(work, mail, { user, completed });
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

const signUp = async (work: Work, parts: SignInParts, completed: CompletedFlow): Promise<User> => {
  const { flow, profile } = completed;
  const email = verifiedEmail(flow.provider, profile);
  const known = (await findByIdentity(work, completed)) ?? (await work.em.findOne(User, { email }));
  if (known) throw accountExists();
  if (isDisposable(email, parts.disposableEmail)) {
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
  const user = invited
    ? await addUser(work, invited.tenantId, { ...account, role: invited.role, status: "ACTIVE" })
    : (await openTenant(work, parts, account.name, account)).user;
  if (!(await addIdentity(work, user, flow.provider, profile))) throw accountExists();
  return user;
};

/** Builds the error for a person who already has an account. */
export const accountExists = (): OAuthError =>
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

/** Locks the session until the commit, so that ending it either precedes the link or sees it. */
const isSessionOpen = async ({ db, now }: Work, { userId, sessionId }: Flow): Promise<boolean> => {
  // The user is locked before the session, as where a password is set, to avoid deadlocks.
  await sql`select 1 from users where id = ${userId}::uuid for no key update`.execute(db);
  const { rows } = await sql`
    select 1 from sessions where id = ${sessionId}::uuid and user_id = ${userId}::uuid
      and revoked_at is null and expires_at > ${now.toISOString()}::timestamptz
    for share`.execute(db);
  return rows.length === 1;
};

const linkIsOver = (): OAuthError =>
  new OAuthError("access_denied", "The session that asked for this link has ended; log in and link again");

const link = async (work: Work, { mail }: SignInParts, completed: CompletedFlow): Promise<User> => {
  const { flow, profile } = completed;
  if (!(await isSessionOpen(work, flow))) throw linkIsOver();
  const user = await work.em.findOne(User, { id: flow.userId! });
  if (!user) throw notFound(flow.provider);
  // Otherwise an attacker who makes somebody open the link's URL would receive that person's next sign-in.
  const namesake = profile.email === undefined ? null : await work.em.findOne(User, { email: profile.email });
  if (namesake && namesake.id !== user.id) throw linked(flow.provider);
  return addLink(work, mail, { user, completed });
};

const RESOLVE: Readonly<Record<FlowKind, typeof logIn>> = { login: logIn, signup: signUp, link };
