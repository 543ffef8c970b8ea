import { defineEntity, p } from "@mikro-orm/core";
import { sql } from "kysely";
import { z } from "zod";
import { hashRandomSecret, newRandomSecret } from "../auth/one-time-secrets.ts";
import { User } from "../auth/user.ts";
import { EmailAddress, normaliseEmail } from "../email/address.ts";
import { getTenant, Name, NAME_MIN } from "../tenants/tenant.ts";
import { invalid, notFound, unauthorized } from "../../kernel/errors.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** Values of `error` in the redirect when the sign-in fails. */
type OAuthErrorCode =
  /** The user or the provider denied it. */
  | "access_denied"
  | "provider_error"
  | "temporarily_unavailable"
  | "server_error"
  | "account_not_found"
  | "account_exists"
  | "account_disabled"
  | "email_not_verified"
  | "email_disposable"
  | "identity_already_linked"
  | "invitation_invalid"
  /** Enterprise single sign-on. */
  | "sso_required"
  | "email_missing"
  | "email_domain_not_allowed"
  | "email_of_other_tenant"
  | "seat_limit"
  | "rate_limited";

/** Why a sign-in failed, without secrets. `isAnybodys`: a browser alone says so, which may be anybody's. */
export type FailureReason = { text: string; isAnybodys: boolean };

/** Ends a flow whose redirect URI is known: reported by the redirect, never by a status code. */
export class OAuthError extends Error {
  readonly code: OAuthErrorCode;
  /** What exactly was wrong, for who runs the provider; the browser is not told. */
  readonly reason: FailureReason | undefined;
  constructor(code: OAuthErrorCode, message: string, cause?: unknown, reason?: FailureReason) {
    super(message, { cause });
    this.name = "OAuthError";
    this.code = code;
    this.reason = reason;
  }
}

export const PROVIDERS = ["google", "github"] as const;
export type ProviderId = (typeof PROVIDERS)[number];

/** Display names. */
export const PROVIDER_NAMES: Readonly<Record<ProviderId, string>> = { google: "Google", github: "GitHub" };

/** The secrets of one flow. Each is at least 32 random bytes, base64url. */
export type Handshake = { state: string; nonce: string; codeVerifier: string };

/** The identity of a person, as confirmed by the provider. */
export type ProviderProfile = {
  /** Never changes and is never reassigned. */
  subject: string;
  /** Lower case; undefined unless verified by the provider. */
  email: string | undefined;
  /** Undefined when there is none, or none that is valid for a user. */
  name: string | undefined;
};

/** An OAuth provider. Both functions access the network. */
export type OAuthProvider = {
  /** Returns the URL to redirect the browser to. @throws OAuthError */
  authorizationUrl(handshake: Handshake): Promise<string>;
  /** Verifies the parameters that the browser came back with, and fetches the profile. @throws OAuthError */
  profileOf(answer: URLSearchParams, handshake: Handshake): Promise<ProviderProfile>;
};

/** The providers that this server is a client of. */
export type OAuthProviders = Readonly<Partial<Record<ProviderId, OAuthProvider>>>;

export const FLOWS = ["login", "signup", "link"] as const;
export type FlowKind = (typeof FLOWS)[number];
/** How the result of a sign-in is returned: tokens in the URL, or a code to exchange for them. */
export const RESPONSE_MODES = ["query", "code"] as const;
export type ResponseMode = (typeof RESPONSE_MODES)[number];

export const FLOW_SECONDS = 600;
/** From POST /auth/oauth/{provider}/link to opening the URL that it returns. */
const TICKET_SECONDS = 120;

/** An OAuth flow in progress. */
export type Flow = {
  provider: ProviderId;
  flow: FlowKind;
  redirectUri: string;
  responseMode: ResponseMode;
  /** Only users of this tenant may complete it. */
  tenantId: string | null;
  /**
   * For a link: the user who will own the identity, and the requesting session, which must still be active.
   */
  userId: string | null;
  sessionId: string | null;
  invitationToken: string | null;
};

export const newHandshake = (): Handshake => ({
  state: newRandomSecret(),
  nonce: newRandomSecret(),
  codeVerifier: newRandomSecret(),
});

/** What is sealed of a flow. */
type Kept = Omit<Handshake, "state"> & Pick<Flow, "invitationToken">;
type Row = Omit<Flow, "invitationToken"> & { secrets: string | null };

const contextOf = (state: string): string => `oauth_flows:${hashRandomSecret(state)}`;

/** What names a flow: a state in the browser that began it, or a ticket, which any browser may bring. */
type FlowKey = { secret: string; browser?: string };

const browserHash = ({ browser }: FlowKey): string | null =>
  browser === undefined ? null : hashRandomSecret(browser);

const insert = async (
  { db, now }: Work,
  flow: Flow,
  { seconds, secrets, ...key }: FlowKey & { seconds: number; secrets: string | null },
): Promise<void> => {
  const expiresAt = new Date(now.getTime() + seconds * 1_000).toISOString();
  await sql`
    insert into oauth_flows (state_hash, browser_hash, provider, flow, redirect_uri, response_mode,
      tenant_id, user_id, session_id, secrets, expires_at)
    values (${hashRandomSecret(key.secret)}, ${browserHash(key)}, ${flow.provider}, ${flow.flow},
      ${flow.redirectUri}, ${flow.responseMode}, ${flow.tenantId}::uuid, ${flow.userId}::uuid,
      ${flow.sessionId}::uuid, ${secrets}, ${expiresAt}::timestamptz)`.execute(db);
};

/** Deletes what was stored and is not over yet, and returns it. */
const take = async ({ db, now }: Work, provider: ProviderId, key: FlowKey): Promise<Row | undefined> => {
  const { rows } = await sql<Row>`
    delete from oauth_flows
    where state_hash = ${hashRandomSecret(key.secret)}
      and browser_hash is not distinct from ${browserHash(key)}
      and provider = ${provider} and expires_at > ${now.toISOString()}::timestamptz
    returning provider, flow, redirect_uri as "redirectUri", response_mode as "responseMode",
      tenant_id as "tenantId", user_id as "userId", session_id as "sessionId", secrets`.execute(db);
  return rows[0];
};

/** Stores a flow until the browser with the cookie `browser` comes back with the state. */
const storeFlow = async (
  work: Work,
  secretBox: SecretBox,
  flow: Flow,
  { handshake, browser }: { handshake: Handshake; browser: string },
): Promise<void> => {
  const { state, ...kept } = handshake;
  const sealed = { ...kept, invitationToken: flow.invitationToken } satisfies Kept;
  const secrets = secretBox.seal(JSON.stringify(sealed), contextOf(state));
  await insert(work, flow, { secret: state, browser, secrets, seconds: FLOW_SECONDS });
};

/**
 * Consumes a flow: once, in time, and only in the browser that began it. Other requests leave it unchanged,
 * so that a leaked state cannot be used up.
 *
 * @throws VALIDATION_ERROR OAUTH_STATE_INVALID
 */
export const consumeFlow = async (
  work: Work,
  secretBox: SecretBox,
  { provider, state, browser }: { provider: ProviderId; state: string; browser: string },
): Promise<{ flow: Flow; handshake: Handshake }> => {
  const row = await take(work, provider, { secret: state, browser });
  if (!row?.secrets) {
    throw invalid(
      "state",
      "is unknown, used, older than 10 minutes, or of another browser; start the sign-in again",
      "OAUTH_STATE_INVALID",
    );
  }
  const { secrets, ...flow } = row;
  const { invitationToken, ...kept } = JSON.parse(secretBox.open(secrets, contextOf(state))) as Kept;
  return { flow: { ...flow, invitationToken }, handshake: { state, ...kept } };
};

/** Stores a link until its URL is opened. The returned ticket is valid once, for two minutes. */
const storeTicket = async (work: Work, flow: Flow): Promise<string> => {
  const ticket = newRandomSecret();
  await insert(work, flow, { secret: ticket, secrets: null, seconds: TICKET_SECONDS });
  return ticket;
};

/** @throws VALIDATION_ERROR OAUTH_STATE_INVALID */
const consumeTicket = async (work: Work, provider: ProviderId, ticket: string): Promise<Flow> => {
  const row = await take(work, provider, { secret: ticket });
  if (row) return { ...row, invitationToken: null };
  throw invalid(
    "ticket",
    "is unknown, used or older than 2 minutes; get a new URL from POST /auth/oauth/{provider}/link",
    "OAUTH_STATE_INVALID",
  );
};

const IdentitySchema = defineEntity({
  name: "Identity",
  tableName: "identities",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    userId: p.uuid(),
    provider: p.text().$type<ProviderId>(),
    /** The provider's id of the person; unique over the whole platform together with the provider. */
    subject: p.text(),
    /** The verified address when the identity was linked; only for display. */
    email: p.text().nullable(),
    createdAt: p.datetime(3),
  },
});
/** A user's account at a provider. */
export class Identity extends IdentitySchema.class {}
IdentitySchema.setClass(Identity);

const Subject = z
  .string()
  .min(1)
  .max(255)
  .regex(/^[\x21-\x7e]+$/);

/** A provider's claims about a person, unchecked. */
type Claims = {
  subject: unknown;
  email?: unknown;
  /** Only `true` counts. */
  isEmailVerified?: unknown;
  name?: unknown;
};

/** Validates a provider's claims and returns those to be stored. @throws OAuthError provider_error */
export const profileFrom = ({ subject, email, isEmailVerified, name }: Claims): ProviderProfile => {
  const parsed = Subject.safeParse(subject);
  if (!parsed.success) throw new OAuthError("provider_error", "The provider did not say who you are");
  const address = isEmailVerified === true ? EmailAddress.safeParse(email).data : undefined;
  return {
    subject: parsed.data,
    email: address === undefined ? undefined : normaliseEmail(address),
    name: Name.safeParse(name).data,
  };
};

/** Returns a provisional name for a user whose provider gave no name. */
export const provisionalName = (email: string): string => {
  const [local = ""] = email.split("@");
  return local.length >= NAME_MIN ? local : email;
};

export const REDIRECT_URI_MAX = 2_048;
const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1"]);

/** The server's settings of redirect URIs. */
export type RedirectRules = { redirectUris: readonly string[]; isProduction: boolean };

/**
 * Returns whether tokens may be sent to a URI at all: https (outside production also http to the same
 * machine), without user and fragment, in the spelling of browsers.
 */
export const isRedirectUri = (text: string, isProduction: boolean): boolean => {
  if (text.length > REDIRECT_URI_MAX || !URL.canParse(text)) return false;
  const url = new URL(text);
  // "https://host" is what a browser calls "https://host/"; any other difference is a second spelling.
  if (![text, `${text}/`].includes(url.href) || text.includes("#")) return false;
  if (`${url.username}${url.password}` !== "") return false;
  if (url.protocol === "https:") return true;
  return url.protocol === "http:" && !isProduction && LOOPBACK.has(url.hostname);
};

/**
 * Accepts a redirect URI that equals a registered one, character by character.
 * @throws VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED; nobody is ever redirected to a rejected URI
 */
export const requireRedirectUri = (
  uri: string | undefined,
  registered: readonly string[],
  isProduction: boolean,
): string => {
  if (uri !== undefined && registered.includes(uri) && isRedirectUri(uri, isProduction)) return uri;
  throw invalid(
    "redirect_uri",
    "must equal a registered address: one of OAUTH_REDIRECT_URIS, or with tenantId one of the tenant's " +
      "redirectUris",
    "REDIRECT_URI_NOT_ALLOWED",
  );
};

/** Adds query parameters to a URI, replacing any of the same name. */
export const withParameters = (uri: string, parameters: Record<string, string>): string => {
  const url = new URL(uri);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
};

type StartParts = RedirectRules & { transact: Transact; secretBox: SecretBox };

/** The query parameters of a client. */
type FlowRequest = {
  provider: ProviderId;
  flow: Flow["flow"];
  redirectUri: string | undefined;
  responseMode: ResponseMode;
  tenantId: string | undefined;
  invitationToken: string | undefined;
  /** From POST /auth/oauth/{provider}/link, which has received all other parameters. */
  ticket: string | undefined;
  /** The secret that the browser has already. */
  browser?: string | undefined;
};

/** The redirect of the browser, and the cookie that it must come back with; none on an immediate error. */
export type Started = { location: string; browser?: string };

/**
 * Starts a flow.
 *
 * @throws VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED, OAUTH_STATE_INVALID for an invalid ticket; UNAUTHORIZED
 * CREDENTIALS_MISSING for a link without one; NOT_FOUND for an unknown tenant
 */
export const startFlow = async (
  parts: StartParts,
  provider: OAuthProvider,
  request: FlowRequest,
): Promise<Started> => {
  const flow = await parts.transact((work) => flowFor(work, parts, request));
  const handshake = newHandshake();
  const { browser = newRandomSecret() } = request;
  try {
    const location = await provider.authorizationUrl(handshake);
    await parts.transact((work) => storeFlow(work, parts.secretBox, flow, { handshake, browser }));
    return { location, browser };
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error;
    return { location: refusal(flow.redirectUri, error) };
  }
};

/** Returns the redirect URI with an error, and nothing else. */
export const refusal = (redirectUri: string, { code, message }: OAuthError): string =>
  // RFC 6749 4.1.2.1 allows no other characters.
  withParameters(redirectUri, {
    error: code,
    error_description: message.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "'"),
  });

const flowFor = async (work: Work, rules: RedirectRules, request: FlowRequest): Promise<Flow> => {
  const { provider, flow, ticket, responseMode } = request;
  if (flow === "link") {
    if (ticket !== undefined) return consumeTicket(work, provider, ticket);
    const message = "A link starts with POST /auth/oauth/{provider}/link, which returns the URL to open";
    throw unauthorized("CREDENTIALS_MISSING", message);
  }
  refuseStrayParameters(request);
  const { tenantId = null, invitationToken = null } = request;
  const ofTenant = tenantId === null ? [] : (await getTenant(work, tenantId)).redirectUris;
  const registered = [...rules.redirectUris, ...ofTenant];
  const redirectUri = requireRedirectUri(request.redirectUri, registered, rules.isProduction);
  return {
    provider,
    flow,
    redirectUri,
    responseMode,
    tenantId,
    userId: null,
    sessionId: null,
    invitationToken,
  };
};

const refuseStrayParameters = ({ flow, ticket, tenantId, invitationToken }: FlowRequest): void => {
  if (ticket !== undefined) throw invalid("ticket", "is for flow=link");
  if (flow === "login" && invitationToken !== undefined)
    throw invalid("invitation_token", "is for flow=signup");
  if (flow === "signup" && tenantId !== undefined && invitationToken === undefined) {
    const message = "is needed to sign up to a tenant; leave out tenantId to create a tenant of your own";
    throw invalid("invitation_token", message, "INVITATION_REQUIRED");
  }
};

type LinkRequest = {
  provider: ProviderId;
  redirectUri: string;
  responseMode: ResponseMode;
  userId: string;
  tenantId: string;
  sessionId: string;
};

/** Lets a user who is logged in start a link; the returned ticket is part of the URL to open. */
export const startLink = async (
  work: Work,
  { redirectUris, isProduction }: RedirectRules,
  { redirectUri, ...request }: LinkRequest,
): Promise<string> => {
  // Removed since the session was read, which may be 5 s ago.
  if ((await work.em.count(User, { id: request.userId })) === 0) throw notFound("User");
  const registered = [...redirectUris, ...(await getTenant(work, request.tenantId)).redirectUris];
  requireRedirectUri(redirectUri, registered, isProduction);
  return storeTicket(work, { ...request, flow: "link", redirectUri, invitationToken: null });
};
