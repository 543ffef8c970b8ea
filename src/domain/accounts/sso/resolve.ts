import { sql } from "kysely";
import { audit, ofUser } from "../audit/audit.ts";
import { mailVerification } from "../auth/email-verification.ts";
import { consumeId, endUserTokens, hashRandomSecret } from "../auth/one-time-secrets.ts";
import { forgetAddresses, type Tokens } from "../auth/tokens.ts";
import { User } from "../auth/user.ts";
import { type Mail, mailUser } from "../email/mail.ts";
import {
  isRedirectUri,
  OAuthError,
  provisionalName,
  refusal,
  type ResponseMode,
  withParameters,
} from "../oauth/provider.ts";
import { findActive, granted } from "../oauth/sign-in.ts";
import {
  findOpenSso,
  keepFailure,
  oidcSettingsOf,
  type OpenSso,
  type SamlClaims,
  samlSettingsOf,
  type SsoClaims,
  type SsoFlow,
  type SsoHandshake,
  type SsoParts,
  stateInvalid,
  takeSsoFlow,
  unasked,
} from "./clients.ts";
import { SsoConfiguration } from "./configuration.ts";
import { domainOf } from "./domain-name.ts";
import { isVerified, releaseUnproved } from "./domains.ts";
import { holdIdp, idpMark, isClaimed } from "./enforcement.ts";
import { consumeInvitationOf } from "../team/accept.ts";
import { endInvitations, requireSeat } from "../team/invitations.ts";
import { addUser, lockTenant } from "../tenants/tenant.ts";
import type { Role } from "../../kernel/caller.ts";
import { DomainError } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { LOCKED, type Work } from "../../kernel/work.ts";
import { revokeSessions } from "../auth/sessions.ts";
import { resetFactors } from "../mfa/factors.ts";

/**
 * Takes from an account everything that signs in to it, or leads to it: also links that were mailed, and what
 * its devices are known by. Anybody may register under any address: one that nobody has verified or accepted
 * may be a stranger's. The row of the user is locked.
 */
const disownStranger = async (work: Work, user: User): Promise<void> => {
  Object.assign(user, { passwordHash: null, updatedAt: work.now });
  await work.em.flush();
  await revokeSessions(work, user.id, { reason: "SSO_CHANGED" });
  await endUserTokens(work, user.id, ["VERIFY_EMAIL", "CHANGE_EMAIL", "RESET_PASSWORD"]);
  await forgetAddresses(work, user.id);
  await sql`delete from identities where user_id = ${user.id}::uuid`.execute(work.db);
  if (user.mfaEnabled) await resetFactors(work, undefined, { kind: "user", row: user });
};

/**
 * Notes that a suspended user may come as another person of the identity provider once they are let in again:
 * it may have made them anew. Until somebody else comes by the user's address, the link counts as before.
 */
export const releaseLinksOf = async ({ db, now }: Work, userId: string): Promise<void> => {
  await sql`
    update sso_identities set released_at = ${now.toISOString()}::timestamptz
    where user_id = ${userId}::uuid and released_at is null`.execute(db);
};

/** Keeps the link by which a user has come, and forgets those of the same provider that were released. */
const keepLink = async (
  { db }: Work,
  { issuer, subject }: { issuer: string; subject: string },
  { id }: { id: string },
): Promise<void> => {
  const own = sql`user_id = ${id}::uuid and issuer = ${issuer} and released_at is not null`;
  await sql`delete from sso_identities where ${own} and subject <> ${subject}`.execute(db);
  await sql`update sso_identities set released_at = null where ${own} and subject = ${subject}`.execute(db);
};

/** Somebody at the door of a tenant. */
type Arrival = { sso: SsoConfiguration; claims: SsoClaims };
type Addressed = Arrival & { email: string; isDomainOurs: boolean };

const refused = (code: OAuthError["code"], message: string, reason?: string): OAuthError =>
  new OAuthError(
    code,
    message,
    undefined,
    reason === undefined ? reason : { text: reason, isAnybodys: false },
  );

/** The same whether nobody has the address, or somebody of another tenant, who is not to be told of. */
const unknownAccount = ({ sso, isDomainOurs }: Addressed): OAuthError => {
  const why = sso.autoProvision && !isDomainOurs ? "its domain is not verified" : "autoProvision is off";
  return refused(
    "account_not_found",
    "Your tenant has no account with your address; ask an OWNER or ADMIN to invite you",
    `no member has the address, no invitation counts for it, and ${why}`,
  );
};

/**
 * Returns the user who may have a session now. In this order: whom the identity is linked to; else the
 * address, which the provider or the tenant's verified domain must vouch for, and whose domain must be
 * allowed; else, if they are invited or the tenant wants that, a new user. Users of other tenants are never
 * signed in, nor those who are linked to another person of the provider.
 *
 * @throws OAuthError
 */
const resolveSsoUser = async (work: Work, mail: Mail, arrival: Arrival): Promise<User> => {
  checkOrganisation(arrival);
  const user = (await findLinked(work, arrival)) ?? (await findByAddress(work, mail, arrival));
  if (!(await findActive(work, user.id)))
    throw refused("account_disabled", "This account is disabled; ask the operator of this server");
  return user;
};

/** Everybody can have a Google account: only those of the Workspace count. */
const checkOrganisation = ({ sso, claims: { hostedDomain = "" } }: Arrival): void => {
  if (sso.provider !== "GOOGLE_WORKSPACE" || sso.allowedDomains.includes(hostedDomain)) return;
  const told = hostedDomain === "" ? "no organisation" : `the organisation ${hostedDomain.slice(0, 100)}`;
  throw refused(
    "email_domain_not_allowed",
    "This Google account is not of your organisation",
    `it is of ${told}, which allowedDomains does not name`,
  );
};

const findLinked = async (
  work: Work,
  { sso: { tenantId }, claims: { issuer, subject } }: Arrival,
): Promise<User | undefined> => {
  const { db, em } = work;
  const { rows } = await sql<{ user_id: string; is_released: boolean }>`
    select user_id, released_at is not null as is_released from sso_identities
    where tenant_id = ${tenantId}::uuid and issuer = ${issuer} and subject = ${subject}`.execute(db);
  const user = rows[0] && (await em.findOneOrFail(User, { id: rows[0].user_id, tenantId }));
  if (user && rows[0]!.is_released && user.status === "ACTIVE") {
    // First of all, as whoever changes the provider does, and then takes its links.
    await lockTenant(work, tenantId);
    await keepLink(work, { issuer, subject }, user);
  }
  return user;
};

const findByAddress = async (work: Work, mail: Mail, arrival: Arrival): Promise<User> => {
  const addressed = await checkAddress(work, arrival);
  // Locked, so that two sign-ins of a new person make one account, and seats are counted.
  await lockTenant(work, arrival.sso.tenantId);
  const linked = await findLinked(work, arrival);
  if (linked) return linked;
  const known = await findKnown(work, mail, addressed);
  const user = known
    ? await adopt(work, await lockKnown(work, known, addressed), addressed)
    : await provision(work, addressed);
  await link(work, arrival, user);
  const values = { name: user.name, provider: "sso" } as const;
  if (known) await mailUser(work, mail, user, { template: "identity-linked", values });
  else if (!user.emailVerified) await mailVerification(work, mail, user);
  return user;
};

/**
 * Returns the member who has the address. An account of another tenant is never signed in; one that has
 * never proved the address gives it up, where it is of the tenant's own domain.
 */
const findKnown = async (work: Work, mail: Mail, addressed: Addressed): Promise<User | undefined> => {
  const { email, isDomainOurs } = addressed;
  const { tenantId } = addressed.sso;
  const known = await work.em.findOne(User, { email });
  if (!known || known.tenantId === tenantId) return known ?? undefined;
  if (await releaseUnproved(work, mail, { tenantId, email })) return undefined;
  // The tenant's own provider may name any address: who has an account is told for its own domains alone.
  throw isDomainOurs
    ? refused("email_of_other_tenant", "Your address belongs to an account of another tenant")
    : unknownAccount(addressed);
};

/** Locks the user, who may be changing the address; refuses one who is not to be linked. */
const lockKnown = async (work: Work, { id, email }: User, addressed: Addressed): Promise<User> => {
  const user = await work.em.findOne(User, { id, email }, LOCKED);
  if (!user) throw unknownAccount(addressed);
  return user;
};

/**
 * Refuses another person of the provider: addresses change hands, and people may choose their own. Members
 * who are suspended get no other link.
 */
const requireUnlinked = async ({ db }: Work, { claims }: Arrival, { id, status }: User): Promise<void> => {
  if (status === "SUSPENDED")
    throw refused("account_disabled", "Your membership is suspended; ask an OWNER or ADMIN of your tenant");
  // Some providers name people by their address, in any case of its letters.
  const { rows } = await sql`
    select 1 from sso_identities
    where user_id = ${id}::uuid and issuer = ${claims.issuer} and released_at is null
      and not (position('@' in subject) > 0 and lower(subject) = lower(${claims.subject}))`.execute(db);
  if (rows.length === 0) return;
  throw refused(
    "identity_already_linked",
    "Another person of the identity provider signs in to the account with your address; if you are that " +
      "person, ask an OWNER or ADMIN to suspend the account and let it in again",
  );
};

const checkAddress = async (work: Work, arrival: Arrival): Promise<Addressed> => {
  const { sso, claims } = arrival;
  const { email } = claims;
  if (email === undefined)
    throw refused(
      "email_missing",
      "The identity provider gives no email address; it must for the first time",
    );
  if (claims.isEmailUnproved)
    throw refused(
      "email_not_verified",
      "The identity provider says that your address is not verified: verify it there first",
    );
  const domain = domainOf(email);
  const isDomainOurs = await isVerified(work, sso.tenantId, domain);
  if (!claims.isEmailVerified && !isDomainOurs)
    throw refused(
      "email_not_verified",
      "Neither has the identity provider verified your address, nor your tenant its domain",
    );
  if (sso.allowedDomains.length > 0 && !sso.allowedDomains.includes(domain))
    throw refused(
      "email_domain_not_allowed",
      "Addresses of your domain may not sign in here",
      `allowedDomains does not name ${domain}`,
    );
  return { ...arrival, email, isDomainOurs };
};

/**
 * Lets somebody in who has an account. One that nobody has accepted, with an address that nobody has
 * verified, may be a stranger's: then everything that signs in to it goes. The tenant's provider verifies
 * addresses of the tenant's own domains alone: by others people sign in elsewhere on this server.
 */
const adopt = async (work: Work, user: User, addressed: Addressed): Promise<User> => {
  await requireUnlinked(work, addressed, user);
  if (!user.emailVerified && user.status !== "ACTIVE") await disownStranger(work, user);
  if (addressed.isDomainOurs) user.emailVerified = true;
  if (user.status === "PENDING") {
    const role = await roleOfNew(work, addressed);
    if (role !== undefined) {
      Object.assign(user, { status: "ACTIVE", role, updatedAt: work.now });
      await recordMember(work, user, "member.accepted");
    }
  }
  await work.em.flush();
  return user;
};

/**
 * Takes a seat for a new member: that of their invitation, with its role; else, if the tenant wants that and
 * has proved that the address is of its own domain, another one.
 *
 * @returns undefined for nobody who may have one
 */
const roleOfNew = async (work: Work, addressed: Addressed): Promise<Role | undefined> => {
  const { sso, email, claims, isDomainOurs } = addressed;
  const { tenantId } = sso;
  // As OWNER only by a provider's express word.
  const isEligible = (role: Role): boolean => role !== "OWNER" || claims.isEmailVerified;
  const invited = await consumeInvitationOf(work, { tenantId, email, isEligible });
  // No word of a provider makes a member of somebody whose company signs in elsewhere on this server.
  if (invited && !isDomainOurs && (await isClaimed(work, email, tenantId)))
    throw refused("email_domain_not_allowed", "People of your domain sign in through another tenant");
  if (invited) return invited.role;
  if (!sso.autoProvision || !isDomainOurs) return undefined;
  await endInvitations(work, { tenantId, email }, "sso");
  await takeSeat(work, tenantId);
  // Never an OWNER, whatever the row says.
  return sso.defaultRole === "OWNER" ? "VIEWER" : sso.defaultRole;
};

/** Makes an account, of somebody who is invited, or whom the tenant lets in by its own domain. */
const provision = async (work: Work, addressed: Addressed): Promise<User> => {
  const { sso, claims, email, isDomainOurs } = addressed;
  const role = await roleOfNew(work, addressed);
  if (role === undefined) throw unknownAccount(addressed);
  const user = await addUser(work, sso.tenantId, {
    email,
    name: claims.name ?? provisionalName(email),
    passwordHash: null,
    emailVerified: isDomainOurs,
    profileCompleted: claims.name !== undefined,
    role,
    status: "ACTIVE",
  });
  await recordMember(work, user, "member.provisioned");
  return user;
};

const takeSeat = async (work: Work, tenantId: string): Promise<void> => {
  try {
    await requireSeat(work, await lockTenant(work, tenantId));
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    throw refused("seat_limit", "Your tenant has no room for another member; ask an OWNER");
  }
};

const recordMember = (work: Work, user: User, action: string): Promise<void> =>
  audit(work, { ...ofUser(user), action, data: { email: user.email, role: user.role, by: "sso" } });

const link = async (work: Work, { claims }: Arrival, user: User): Promise<void> => {
  const { id, tenantId } = user;
  await sql`
    insert into sso_identities (id, tenant_id, user_id, issuer, subject, email, created_at)
    values (${newId()}::uuid, ${tenantId}::uuid, ${id}::uuid, ${claims.issuer}, ${claims.subject},
      ${claims.email ?? null}, ${work.now.toISOString()}::timestamptz)`.execute(work.db);
  await keepLink(work, claims, user);
  const data = { provider: "sso", issuer: claims.issuer };
  await audit(work, { ...ofUser(user), action: "identity.linked", data });
};

export type CompleteSsoParts = SsoParts & {
  tokens: Tokens;
  mail: Mail;
};

/** With what a browser came back from an identity provider. */
type Return = { tenantId: string; browser: string | undefined };
type OidcReturn = Return & { answer: URLSearchParams };
type SamlReturn = Return & { response: string; relayState: string | undefined };

type Begun = OpenSso & { flow: SsoFlow; handshake: SsoHandshake };

/** Takes the flow that a browser has begun, unless the tenant has another identity provider since. */
const takeBegun = async (
  { transact, secretBox, host }: SsoParts,
  { tenantId, state, browser }: Return & { state: string | undefined },
  isSaml: boolean,
): Promise<Begun | undefined> => {
  if (state === undefined || browser === undefined) return undefined;
  return transact(async (work) => {
    const open = await findOpenSso(work, tenantId, host);
    const back = { tenantId: open.tenant.id, domain: host?.domain ?? null, state, browser };
    const begun = await takeSsoFlow(work, secretBox, back);
    if (!begun) return undefined;
    const isSame = begun.flow.idpChangedAt.getTime() === open.sso.idpChangedAt.getTime();
    return isSame && (open.sso.provider === "SAML") === isSaml ? { ...open, ...begun } : undefined;
  });
};

/** Where a sign-in ends, whatever its result. */
type Ending = { redirectUri: string; responseMode: ResponseMode };

/** Runs the rest of a sign-in, whose claims `claimsOf` verifies; every error becomes one in the URL. */
const finish = async (
  parts: CompleteSsoParts,
  { sso, flow }: { sso: SsoConfiguration; flow: Ending },
  claimsOf: () => Promise<SsoClaims | SamlClaims>,
): Promise<string> => {
  const { redirectUri } = flow;
  let email: string | undefined;
  try {
    const claims = await claimsOf();
    ({ email } = claims);
    // By itself: it is used up also if nobody is signed in.
    if ("assertionId" in claims) await parts.transact((work) => consumeAssertion(work, sso, claims));
    const parameters = await parts.transact((work) => signIn(work, parts, { sso, claims }, flow));
    return withParameters(redirectUri, parameters);
  } catch (error) {
    const failure =
      error instanceof OAuthError
        ? error
        : new OAuthError("server_error", "Something went wrong here; try again", error);
    await keepFailure(parts, { tenantId: sso.tenantId, failure, email });
    return refusal(redirectUri, failure);
  }
};

const changedMeanwhile = (): OAuthError =>
  new OAuthError("access_denied", "The identity provider was changed meanwhile; sign in again");

const signIn = async (
  work: Work,
  { tokens, mail }: CompleteSsoParts,
  { sso, claims }: { sso: SsoConfiguration; claims: SsoClaims },
  { responseMode }: Ending,
): Promise<Record<string, string>> => {
  // Another provider, or none, since the answer was verified: then it counts no more.
  const { id, tenantId, idpChangedAt } = sso;
  const now = await work.em.findOne(SsoConfiguration, { id, tenantId, idpChangedAt, status: "ACTIVE" });
  if (!now) throw changedMeanwhile();
  const user = await resolveSsoUser(work, mail, { sso: now, claims });
  // Behind the lock of the tenant, which who changes the provider takes first.
  if ((await holdIdp(work, tenantId)) !== idpMark(sso)) throw changedMeanwhile();
  return granted(work, tokens, user, { by: "sso", responseMode });
};

/**
 * Completes a sign-in by OpenID Connect and returns the URL to redirect the browser to.
 * @throws VALIDATION_ERROR OAUTH_STATE_INVALID, NOT_FOUND while that URL is not known
 */
export const completeOidc = async (
  parts: CompleteSsoParts,
  { tenantId, answer, browser }: OidcReturn,
): Promise<string> => {
  const state = answer.get("state") ?? undefined;
  const begun = await takeBegun(parts, { tenantId, state, browser }, false);
  if (!begun) throw stateInvalid();
  return finish(parts, begun, () =>
    parts.sso.oidc.claimsOf(oidcSettingsOf(begun.sso, parts), answer, begun.handshake),
  );
};

/** Where an answer goes that nobody asked for: to the address that it names, or the first one. */
const unsolicited = async (
  { transact, redirectUris, isProduction, host }: SsoParts,
  { tenantId, relayState }: SamlReturn,
): Promise<(OpenSso & { flow: Ending }) | undefined> => {
  const { sso, tenant } = await transact((work) => findOpenSso(work, tenantId, host));
  if (sso.provider !== "SAML" || !sso.samlIdpInitiated) return undefined;
  const registered = [...tenant.redirectUris, ...redirectUris].filter((uri) =>
    isRedirectUri(uri, isProduction),
  );
  const redirectUri = registered.find((uri) => uri === relayState) ?? registered[0];
  // Nobody has asked for tokens in the address.
  return redirectUri === undefined ? undefined : { sso, tenant, flow: { redirectUri, responseMode: "code" } };
};

/**
 * Completes a sign-in by SAML and returns the URL to redirect the browser to. An answer that nobody asked for
 * counts only if the tenant has switched that on.
 *
 * @throws VALIDATION_ERROR OAUTH_STATE_INVALID, NOT_FOUND while that URL is not known
 */
export const completeSaml = async (parts: CompleteSsoParts, back: SamlReturn): Promise<string> => {
  const { tenantId, response, relayState: state, browser } = back;
  const begun = await takeBegun(parts, { tenantId, state, browser }, true);
  const found = begun ?? (await unsolicited(parts, back));
  if (!found) throw state === undefined ? unasked() : stateInvalid();
  const requestId = begun?.handshake.requestId;
  return finish(parts, found, async () => {
    const now = await parts.transact(async (work) => work.now);
    return parts.sso.saml.claimsOf(samlSettingsOf(found.sso, parts, now), { response, requestId, now });
  });
};

/** An assertion counts once, whatever brings it. @throws OAuthError */
const consumeAssertion = async (
  work: Work,
  { tenantId }: SsoConfiguration,
  claims: SamlClaims,
): Promise<void> => {
  const id = hashRandomSecret([tenantId, claims.issuer, claims.assertionId].join("\n"));
  if (await consumeId(work, { kind: "saml", id, expiresAt: claims.validUntil })) return;
  throw new OAuthError("provider_error", "This answer of the provider was used before; sign in again");
};
