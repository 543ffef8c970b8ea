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

/** The `method` of sessions that begin with a provider. */
export const methodOf = (provider: ProviderId): SignInMethod => METHODS[provider];

export type SignInParts = TenantDefaults & { mail: Mail; disposableEmail: DisposableLists };

/** The user, unless a super-admin has shut them out or their tenant is deleted. */
export const findActive = async ({ em }: Work, userId: string): Promise<User | undefined> => {
  const user = await em.findOne(User, { id: userId, disabledAt: null });
  const tenant = user && (await em.findOne(Tenant, { id: user.tenantId, deletedAt: null }));
  return user && tenant ? user : undefined;
};

/** Somebody who came back from a provider. */
type Arrival = { flow: Flow; profile: ProviderProfile };

/**
 * The user who may have a session now, by what the flow is for. Accounts and identities that this takes are
 * made here. @throws OAuthError
 */
export const resolveUser = async (work: Work, parts: SignInParts, arrival: Arrival): Promise<User> => {
  const { flow } = arrival;
  const user = await RESOLVE[flow.flow](work, parts, arrival);
  // The way back may be the tenant's own choice, so nobody else's tokens go there.
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
      "has proved that address; sign up, or log in another way and link it",
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
    `${PROVIDER_NAMES[provider]} does not vouch for your email address; verify it there first`,
  );
};

const findByIdentity = async ({ em }: Work, { flow, profile }: Arrival): Promise<User | undefined> => {
  const { provider } = flow;
  const identity = await em.findOne(Identity, { provider, subject: profile.subject });
  return identity ? em.findOneOrFail(User, { id: identity.userId }) : undefined;
};

const logIn = async (work: Work, { mail }: SignInParts, arrival: Arrival): Promise<User> => {
  const { flow, profile } = arrival;
  const known = await findByIdentity(work, arrival);
  if (known) return known;
  const email = verifiedEmail(flow.provider, profile);
  // An address that nobody has proved here may have been typed in by anyone, to wait for its owner.
  const user = await work.em.findOne(User, { email, emailVerified: true });
  if (!user || (flow.tenantId !== null && user.tenantId !== flow.tenantId)) throw notFound(flow.provider);
  return addLink(work, mail, { user, arrival });
};

/** Links, or finds that a rival of this moment has linked the same. */
const addLink = async (
  work: Work,
  mail: Mail,
  { user, arrival }: { user: User; arrival: Arrival },
): Promise<User> => {
  const { flow, profile } = arrival;
  if (await addIdentity(work, user, flow.provider, profile)) {
    await announceIdentity(work, mail, user, flow.provider);
    return user;
  }
  const owner = await findByIdentity(work, arrival);
  if (owner?.id !== user.id) throw linked(flow.provider);
  return user;
};

const signUp = async (work: Work, parts: SignInParts, arrival: Arrival): Promise<User> => {
  const { flow, profile } = arrival;
  const email = verifiedEmail(flow.provider, profile);
  const known = (await findByIdentity(work, arrival)) ?? (await work.em.findOne(User, { email }));
  if (known) throw accountExists();
  if (isDisposable(email, parts.disposableEmail)) {
    const message = "The address is of a provider of throw-away addresses; use a lasting one";
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

/** The error for a person who has an account already. */
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

/** Held until the commit, so that whoever ends the session finds what was linked, or nothing is. */
const isSessionOpen = async ({ db, now }: Work, { userId, sessionId }: Flow): Promise<boolean> => {
  // The user before the session, as whoever sets a password: else two could wait for each other.
  await sql`select 1 from users where id = ${userId}::uuid for no key update`.execute(db);
  const { rows } = await sql`
    select 1 from sessions where id = ${sessionId}::uuid and user_id = ${userId}::uuid
      and revoked_at is null and expires_at > ${now.toISOString()}::timestamptz
    for share`.execute(db);
  return rows.length === 1;
};

const linkIsOver = (): OAuthError =>
  new OAuthError("access_denied", "The session that asked for this link has ended; log in and link again");

const link = async (work: Work, { mail }: SignInParts, arrival: Arrival): Promise<User> => {
  const { flow, profile } = arrival;
  if (!(await isSessionOpen(work, flow))) throw linkIsOver();
  const user = await work.em.findOne(User, { id: flow.userId! });
  if (!user) throw notFound(flow.provider);
  // Else whoever talks somebody into opening their link's address would have that person's next sign-in.
  const namesake = profile.email === undefined ? null : await work.em.findOne(User, { email: profile.email });
  if (namesake && namesake.id !== user.id) throw linked(flow.provider);
  return addLink(work, mail, { user, arrival });
};

const RESOLVE: Readonly<Record<FlowKind, typeof logIn>> = { login: logIn, signup: signUp, link };
