import { isDisposable, type DisposableLists } from "../auth/disposable.ts";
import type { Session, SignInMethod } from "../auth/session.ts";
import { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { DomainError } from "../../kernel/errors.ts";
import { consumeInvitation, type Invited } from "../team/accept.ts";
import { addUser, openTenant, type TenantDefaults } from "../tenants/open-tenant.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";
import { isClaimed } from "../sso/discover.ts";
import { requireSso } from "../sso/enforcement.ts";
import { OAuthError } from "./errors.ts";
import type { Flow, FlowKind } from "./flows.ts";
import { holdSession } from "./going-on.ts";
import { addIdentity, announceIdentity } from "./identities.ts";
import { Identity } from "./identity.ts";
import { provisionalName } from "./profile.ts";
import { PROVIDER_NAMES, type ProviderId, type ProviderProfile } from "./provider.ts";

const METHODS: Readonly<Record<ProviderId | "sso", SignInMethod>> = {
  google: "GOOGLE",
  github: "GITHUB",
  sso: "SSO",
};

/** Returns the `method` of sessions that begin with a provider, or through a tenant's identity provider. */
export const methodOf = (provider: ProviderId | "sso"): SignInMethod => METHODS[provider];

export type SignInParts = TenantDefaults & { mail: Mail; disposableEmail: DisposableLists };

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
export const resolveUser = async (
  work: Work,
  parts: SignInParts,
  completed: CompletedFlow,
): Promise<Resolved> => {
  const { flow } = completed;
  const resolved = await RESOLVE[flow.flow](work, parts, completed);
  const { user } = resolved;
  // The redirect URI may be the tenant's own choice, so no tokens of other tenants are sent there.
  if (flow.tenantId !== null && user.tenantId !== flow.tenantId) throw notFound(flow.provider);
  if (!(await findActive(work, user.id))) {
    throw new OAuthError("account_disabled", "This account is disabled; ask the operator of this server");
  }
  return resolved;
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

const logIn = async (work: Work, { mail }: SignInParts, completed: CompletedFlow): Promise<Resolved> => {
  const { flow, profile } = completed;
  const known = await findByIdentity(work, completed);
  if (known) return { user: known };
  const email = verifiedEmail(flow.provider, profile);
  // An unverified address may have been entered by anyone, to wait for its owner.
  const user = await work.em.findOne(User, { email, emailVerified: true });
  if (!user || (flow.tenantId !== null && user.tenantId !== flow.tenantId)) throw notFound(flow.provider);
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
  if (!invited && (await isClaimed(work, email, undefined)))
    throw new OAuthError(
      "sso_required",
      "People with addresses of this domain sign in through their company's identity provider",
    );
  const user = invited
    ? await addUser(work, invited.tenantId, { ...account, role: invited.role, status: "ACTIVE" })
    : (await openTenant(work, parts, account.name, account)).user;
  if (!(await addIdentity(work, user, flow.provider, profile))) throw accountExists();
  return { user };
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

const linkIsOver = (): OAuthError =>
  new OAuthError("access_denied", "The session that asked for this link has ended; log in and link again");

const link = async (work: Work, { mail }: SignInParts, completed: CompletedFlow): Promise<Resolved> => {
  const { flow, profile } = completed;
  const session = await holdSession(work, { userId: flow.userId!, sessionId: flow.sessionId! });
  if (!session) throw linkIsOver();
  const user = await work.em.findOne(User, { id: flow.userId! });
  if (!user) throw notFound(flow.provider);
  await requireSso(work, user, { method: methodOf(flow.provider) });
  // Otherwise an attacker who makes somebody open the link's URL would receive that person's next sign-in.
  const namesake = profile.email === undefined ? null : await work.em.findOne(User, { email: profile.email });
  if (namesake && namesake.id !== user.id) throw linked(flow.provider);
  return { user: await addLink(work, mail, { user, completed }), session };
};

const RESOLVE: Readonly<Record<FlowKind, typeof logIn>> = { login: logIn, signup: signUp, link };
