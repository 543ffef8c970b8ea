import { parseCookie, stringifySetCookie } from "cookie";
import { z } from "zod";
import type { App } from "../../app.ts";
import type { CustomHost } from "../../domain/accounts/domains/known.ts";
import {
  FLOW_SECONDS,
  FLOWS,
  type OAuthError,
  type OAuthProvider,
  PROVIDER_NAMES,
  type ProviderId,
  PROVIDERS,
  REDIRECT_URI_MAX,
  RESPONSE_MODES,
  startFlow,
  startLink,
} from "../../domain/accounts/oauth/provider.ts";
import { DomainError, invalid, notFound } from "../../domain/kernel/errors.ts";
import { shown } from "../../domain/kernel/json.ts";
import { group, Reply } from "../route.ts";
import { orChallenge } from "../../domain/accounts/mfa/sign-in.ts";
import { OWN_ACCOUNT, userOf } from "../../domain/kernel/caller.ts";
import { completeFlow, exchangeCode, startAtPublicUrl } from "../../domain/accounts/oauth/sign-in.ts";
import { listIdentities, unlinkIdentity } from "../../domain/accounts/oauth/identities.ts";
import { requireChangeProof } from "../../domain/accounts/mfa/step-up.ts";
import { ASKED, ChangeProofBody, proofParts, selfOf } from "./mfa-login.ts";
import { LoginBody, TOKEN_INPUT_MAX } from "./registration.ts";
import { Deleted, deleted } from "./bodies.ts";

const SECRET = /^[\w-]{43}$/;

/**
 * Names and sends the cookie of a browser that signs in at an address: one secret for all its flows, which may
 * be in several tabs.
 */
const browserCookie = (address: string, plainName: string, isPosted: boolean) => {
  const secure = address.startsWith("https:");
  // With this prefix, browsers allow only this host to set the cookie, and only over TLS.
  const name = secure ? `__Host-${plainName}` : plainName;
  const sameSite = isPosted && secure ? "none" : "lax";
  const set = (value: string, maxAge: number): string =>
    stringifySetCookie({ name, value, maxAge, path: "/", httpOnly: true, secure, sameSite });
  const read = (cookie: string): string | undefined => {
    const value = parseCookie(cookie)[name];
    return value !== undefined && SECRET.test(value) ? value : undefined;
  };
  return { read, set };
};

const cookieOf = ({ config }: App) => browserCookie(config.publicUrl, "laurel-oauth", false);

/** SAML responses are posted by pages of other sites, with which browsers send no other cookies. */
export const ssoCookieOf = ({ config }: App, host: CustomHost | undefined) =>
  browserCookie(host ? `https://${host.domain}` : config.publicUrl, "laurel-sso", true);

const causesOf = (error: unknown): string[] =>
  error instanceof Error ? [error.message, ...causesOf(error.cause)] : [];

/**
 * Logs failures that the user cannot fix, with what says whose they are: of a provider's the text alone,
 * since errors may hold tokens.
 */
export const reportTo =
  (log: App["log"], message: string, about: Record<string, unknown> = {}) =>
  ({ code, cause }: OAuthError): void => {
    if (code === "server_error") log.error({ ...about, err: cause }, message);
    else log.warn({ ...about, error: code, causes: causesOf(cause) }, message);
  };

/** Keeps addresses with secrets out of caches and Referer headers. */
export const redirect = (location: string, cookie?: string): Reply<undefined> =>
  new Reply(302, undefined, {
    Location: location,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    ...(cookie === undefined ? {} : { "Set-Cookie": cookie }),
  });

/** @throws VALIDATION_ERROR for a repeated parameter */
export const answerOf = (query: Record<string, unknown>): URLSearchParams => {
  const answer = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (typeof value !== "string") throw invalid(name, "must be given once");
    answer.set(name, value);
  }
  return answer;
};

const SECRET_MAX = 128;

const RedirectUri = z.string().max(REDIRECT_URI_MAX);
const ResponseMode = z.enum(RESPONSE_MODES).default("query").meta({
  description: "query: tokens come back in the address; code: a code for POST /auth/oauth/exchange does",
});

/** @throws NOT_FOUND */
const providerId = (text: string): ProviderId => {
  const id = PROVIDERS.find((one) => one === text);
  if (id === undefined) throw notFound("Provider");
  return id;
};

/** @throws NOT_FOUND, SERVICE_UNAVAILABLE OAUTH_NOT_CONFIGURED */
const providerOf = ({ oauth }: App, text: string): { id: ProviderId; provider: OAuthProvider } => {
  const id = providerId(text);
  const provider = oauth[id];
  if (provider) return { id, provider };
  const name = `OAUTH_${id.toUpperCase()}_CLIENT_ID`;
  const message = `${PROVIDER_NAMES[id]} is not set up on this server: ${name}`;
  throw new DomainError("SERVICE_UNAVAILABLE", message, { reason: "OAUTH_NOT_CONFIGURED" });
};

const rulesOf = ({ config }: App) => ({
  redirectUris: config.oauth.redirectUris,
  isProduction: config.isProduction,
});

const common = group({ tag: "OAuth", project: "none" });
const open = common.with({ access: "public" });
const signingIn = open.with({ errors: ["UNAUTHORIZED"] });
const redirecting = signingIn.with({ status: 302, response: z.undefined() });

const ASKED_HERE = `${ASKED} An account with neither must have signed in within 10 minutes.`;

export const oauthRoutes = [
  open.get("/auth/oauth/providers", "listOAuthProviders", {
    summary: "List OAuth providers",
    response: z.object({
      providers: z.array(
        z.object({
          id: z.enum(PROVIDERS),
          name: z.string(),
          enabled: z.boolean(),
          authUrl: z.string().meta({ description: "Path", example: "/auth/oauth/google" }),
        }),
      ),
    }),
    outside: async ({ oauth }) => ({
      providers: PROVIDERS.map((id) => ({
        id,
        name: PROVIDER_NAMES[id],
        enabled: oauth[id] !== undefined,
        authUrl: `/auth/oauth/${id}`,
      })),
    }),
  }),
  common.get("/auth/oauth/identities", "listIdentities", {
    summary: "List the providers linked to your account",
    access: OWN_ACCOUNT,
    response: z.object({
      identities: z.array(
        z
          .object({
            provider: z.enum(PROVIDERS),
            email: z.string().nullable().meta({ description: "As proved when it was linked" }),
            createdAt: z.iso.datetime(),
          })
          .meta({ id: "Identity" }),
      ),
    }),
    run: async (work, { caller }) => {
      const identities = await listIdentities(work, userOf(caller).userId);
      return { identities: identities.map((one) => shown(one, ["provider", "email", "createdAt"])) };
    },
  }),
  signingIn.post("/auth/oauth/exchange", "exchangeOAuthCode", {
    summary: "Exchange a code for tokens",
    description:
      "The `code` of a sign-in with response_mode=code is good once, for 60 seconds. A user with a second " +
      "factor gets the challenge of POST /auth/login instead.",
    body: z.object({ code: z.string().max(SECRET_MAX) }),
    example: { code: "the code of the redirection" },
    session: "begins",
    response: LoginBody,
    outside: async ({ transact, tokens }, { body, host }) => {
      const brought = { ...body, tenantId: host?.tenantId };
      return orChallenge(await transact((work) => exchangeCode(work, tokens, brought)));
    },
  }),
  redirecting.get("/auth/oauth/{provider}", "startOAuth", {
    summary: "Start an OAuth flow",
    description:
      "Sends the browser to the provider, and from there back to redirect_uri: with access_token, " +
      "refresh_token, token_type and expires_in (seconds), or with error and error_description. The " +
      "refresh token must be exchanged with POST /auth/refresh within 5 minutes. The error " +
      "mfa_required has a challenge_token for POST /auth/login/mfa.",
    query: z.object({
      flow: z
        .enum(FLOWS)
        .default("login")
        .meta({
          description:
            "login: sign in an existing user; signup: create account and tenant; link: link the provider " +
            "to an existing account, by the address of POST /auth/oauth/{provider}/link",
        }),
      redirect_uri: RedirectUri.optional().meta({
        description: "Address to return to; must equal a registered one. Required except for flow=link",
      }),
      tenantId: z.uuid().optional().meta({
        description: "Only users of this tenant; its own redirectUris count too",
      }),
      response_mode: ResponseMode,
      invitation_token: z.string().max(TOKEN_INPUT_MAX).optional().meta({
        description: "With flow=signup: join the tenant that invites",
      }),
      ticket: z.string().max(SECRET_MAX).optional().meta({ description: "With flow=link" }),
    }),
    outside: async (app, { params, query, cookie, host }) => {
      const { id, provider } = providerOf(app, params.provider);
      if (host) return redirect(startAtPublicUrl(app.config.publicUrl, id, query, host));
      const started = await startFlow({ ...app, ...rulesOf(app) }, provider, {
        provider: id,
        flow: query.flow,
        redirectUri: query.redirect_uri,
        responseMode: query.response_mode,
        tenantId: query.tenantId,
        invitationToken: query.invitation_token,
        ticket: query.ticket,
        browser: cookieOf(app).read(cookie),
      });
      const { browser } = started;
      return redirect(started.location, browser && cookieOf(app).set(browser, FLOW_SECONDS));
    },
  }),
  redirecting.get("/auth/oauth/{provider}/callback", "completeOAuth", {
    summary: "Complete an OAuth flow",
    description: "Where a provider sends the browser back to; register this address there.",
    // Providers may send unknown parameters.
    query: z.looseObject({ state: z.string().max(SECRET_MAX).optional() }),
    outside: async (app, { params, query, cookie, actor, host }) => {
      const { id, provider } = providerOf(app, params.provider);
      // No flow begins at a custom domain, so none ends there.
      if (host) throw notFound("Page");
      const location = await completeFlow(
        { ...app, report: reportTo(app.log, "OAuth sign-in failed") },
        provider,
        {
          id,
          answer: answerOf(query),
          browser: cookieOf(app).read(cookie),
          ip: actor.ip,
        },
      );
      return redirect(location);
    },
  }),
  common.post("/auth/oauth/{provider}/link", "startOAuthLink", {
    summary: "Start linking a provider to your account",
    description:
      "Open `authUrl` in the browser within 2 minutes; it works once. What comes back are further tokens " +
      `of the session that asks, or a code for them. ${ASKED_HERE}`,
    access: OWN_ACCOUNT,
    takesNoIdempotencyKey: true,
    body: z.object({ redirect_uri: RedirectUri, response_mode: ResponseMode, ...ChangeProofBody.shape }),
    example: {
      redirect_uri: "https://console.example.com/signed-in",
      response_mode: "code",
      currentPassword: "Engine-No-1",
    },
    response: z.object({ authUrl: z.string().meta({ description: "A whole address" }) }),
    prepare: async (app, { actor, params, body }) => {
      providerOf(app, params.provider);
      await requireChangeProof(proofParts(app, actor), selfOf(actor), body);
    },
    outside: async (app, { caller, params, body }) => {
      const { id } = providerOf(app, params.provider);
      const { userId, tenantId, sessionId } = userOf(caller);
      const wish = {
        provider: id,
        redirectUri: body.redirect_uri,
        responseMode: body.response_mode,
        userId,
        tenantId,
        sessionId,
      };
      const ticket = await app.transact((work) => startLink(work, rulesOf(app), wish));
      return { authUrl: `${app.config.publicUrl}/api/v1/auth/oauth/${id}?flow=link&ticket=${ticket}` };
    },
  }),
  common.delete("/auth/oauth/{provider}", "unlinkIdentity", {
    summary: "Unlink a provider from your account",
    description: `409 when it is your only way in. ${ASKED_HERE}`,
    access: OWN_ACCOUNT,
    body: ChangeProofBody.optional(),
    example: { currentPassword: "Engine-No-1" },
    response: Deleted,
    prepare: (app, { actor, params, body = {} }) => {
      providerId(params.provider);
      return requireChangeProof(proofParts(app, actor), selfOf(actor), body);
    },
    run: (work, { caller, params }) =>
      deleted(unlinkIdentity(work, userOf(caller).userId, providerId(params.provider))),
  }),
];
