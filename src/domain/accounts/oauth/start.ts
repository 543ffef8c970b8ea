import { newRandomSecret } from "../auth/random-secret.ts";
import { User } from "../auth/user.ts";
import { invalid, notFound, unauthorized } from "../../kernel/errors.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { OAuthError } from "./errors.ts";
import {
  type Flow,
  storeFlow,
  storeTicket,
  newHandshake,
  type ResponseMode,
  consumeTicket,
} from "./flows.ts";
import type { OAuthProvider, ProviderId } from "./provider.ts";
import { type RedirectRules, requireRedirectUri, tenantRedirectUris, withParameters } from "./redirects.ts";

export type StartParts = RedirectRules & { transact: Transact; secretBox: SecretBox };

/** The query parameters of a client. */
export type FlowRequest = {
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
    if (ticket !== undefined) return consumeTicket(work, { provider, ticket });
    const message = "A link starts with POST /auth/oauth/{provider}/link, which returns the URL to open";
    throw unauthorized("CREDENTIALS_MISSING", message);
  }
  refuseStrayParameters(request);
  const { tenantId = null, invitationToken = null } = request;
  const ofTenant = tenantId === null ? [] : await tenantRedirectUris(work, tenantId);
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

export type LinkRequest = {
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
  const registered = [...redirectUris, ...(await tenantRedirectUris(work, request.tenantId))];
  requireRedirectUri(redirectUri, registered, isProduction);
  return storeTicket(work, { ...request, flow: "link", redirectUri, invitationToken: null });
};
