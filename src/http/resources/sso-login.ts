import { z } from "zod";
import type { App } from "../../app.ts";
import { EMAIL_MAX } from "../../domain/accounts/email/address.ts";
import { REDIRECT_URI_MAX, RESPONSE_MODES } from "../../domain/accounts/oauth/provider.ts";
import type { CustomHost } from "../../domain/accounts/domains/known.ts";
import {
  addressesOf,
  customHostAddresses,
  type FailureParts,
  findSsoTenant,
  SSO_FLOW_SECONDS,
  startSso,
} from "../../domain/accounts/sso/clients.ts";
import { completeOidc, completeSaml, type CompleteSsoParts } from "../../domain/accounts/sso/resolve.ts";
import type { Actor } from "../../domain/kernel/caller.ts";
import { discoverSso } from "../../domain/accounts/sso/enforcement.ts";
import { Reply, group } from "../route.ts";
import { StreamedBody } from "../compression.ts";
import { answerOf, redirect, reportTo, ssoCookieOf } from "./oauth.ts";

const STATE_MAX = 128;
/** Bytes of a form with a SAML response: Base64, percent-encoded. */
const FORM_MAX_BYTES = 384 * 1_024;
const RESPONSE_MAX = 300_000;

const open = group({ tag: "Single sign-on", project: "none", access: "public" });
const redirecting = open.with({ status: 302, response: z.undefined() });

type Asked = { actor: Actor; host: CustomHost | undefined };

/** Logs what an administrator of the tenant cannot mend, and what they could not be told. */
const reportFailure =
  (log: App["log"], { actor: { requestId } }: Asked): FailureParts["report"] =>
  ({ tenantId, failure }, problem) => {
    const about = { tenantId, requestId };
    if (failure.cause !== undefined) reportTo(log, "single sign-on failed", about)(failure);
    if (problem !== undefined)
      log.error({ ...about, err: problem }, "why single sign-on failed could not be kept");
  };

const partsOf = (app: App, asked: Asked): CompleteSsoParts => ({
  ...app,
  publicUrl: app.config.publicUrl,
  host: asked.host,
  redirectUris: app.config.oauth.redirectUris,
  isProduction: app.config.isProduction,
  report: reportFailure(app.log, asked),
});

export const ssoLoginRoutes = [
  open.post("/auth/sso/discover", "discoverSso", {
    summary: "Find where somebody signs in",
    description:
      "By the domain of the address, which a tenant has verified: the answer is the same for every address " +
      "of a domain. Open `authUrl` with redirect_uri in the browser, at the host that was asked.",
    body: z.object({ email: z.string().max(EMAIL_MAX).meta({ example: "ada@acme.com" }) }),
    example: { email: "ada@acme.com" },
    response: z.object({
      ssoRequired: z.boolean().meta({ description: "Passwords are refused" }),
      authUrl: z.string().nullable().meta({ description: "Path; null: sign in with a password" }),
      displayName: z.string().nullable().meta({ description: "Label of the sign-in button" }),
    }),
    run: (work, { body, host }) => discoverSso(work, body.email, host),
  }),
  redirecting.get("/auth/sso/{tenantId}", "startSso", {
    summary: "Start a single sign-on",
    description:
      "Sends the browser to the tenant's identity provider, from there to the host where it began, and " +
      "back to redirect_uri: with " +
      "access_token, refresh_token, token_type and expires_in, with a code for POST /auth/oauth/exchange, " +
      "or with error and error_description, as an OAuth flow does.",
    query: z.object({
      redirect_uri: z.string().max(REDIRECT_URI_MAX).optional().meta({
        description: "Address to return to; must equal one of the server's or of the tenant's redirectUris",
      }),
      response_mode: z.enum(RESPONSE_MODES).default("query").meta({
        description: "query: tokens come back in the address; code: a code for them does",
      }),
      login_hint: z.string().min(1).max(EMAIL_MAX).optional().meta({
        description: "The address that the page has asked for; an OpenID provider fills it in",
      }),
    }),
    outside: async (app, { params, query, cookie, actor, host }) => {
      const { browser, location } = await startSso(partsOf(app, { actor, host }), {
        browser: ssoCookieOf(app, host).read(cookie),
        tenantId: params.tenantId,
        redirectUri: query.redirect_uri,
        responseMode: query.response_mode,
        loginHint: query.login_hint,
      });
      return redirect(location, browser && ssoCookieOf(app, host).set(browser, SSO_FLOW_SECONDS));
    },
  }),
  redirecting.get("/auth/sso/oidc/{tenantId}/callback", "completeSsoOidc", {
    summary: "Complete a single sign-on by OpenID Connect",
    description: "Where an OpenID provider sends the browser back to: `oidcRedirectUri`.",
    // Providers may send unknown parameters.
    query: z.looseObject({ state: z.string().max(STATE_MAX).optional() }),
    outside: async (app, { params, query, cookie, actor, host }) => {
      const { read } = ssoCookieOf(app, host);
      const back = { tenantId: params.tenantId, answer: answerOf(query), browser: read(cookie) };
      return redirect(await completeOidc(partsOf(app, { actor, host }), back));
    },
  }),
  redirecting.post("/auth/sso/saml/{tenantId}/acs", "completeSsoSaml", {
    summary: "Complete a single sign-on by SAML",
    description:
      "Where a SAML identity provider posts its response to: `acsUrl`. The response needs a signed " +
      "assertion, not encrypted, for this server's entity id.",
    takesForm: true,
    bodyLimit: FORM_MAX_BYTES,
    body: z.looseObject({
      SAMLResponse: z.string().min(1).max(RESPONSE_MAX),
      RelayState: z.string().max(REDIRECT_URI_MAX).optional(),
    }),
    example: { SAMLResponse: "PHNhbWxwOlJlc3BvbnNl...", RelayState: "x7Zk" },
    outside: async (app, { params, body, cookie, actor, host }) => {
      const { read } = ssoCookieOf(app, host);
      const { SAMLResponse: response, RelayState: relayState } = body;
      const back = { tenantId: params.tenantId, response, relayState, browser: read(cookie) };
      return redirect(await completeSaml(partsOf(app, { actor, host }), back));
    },
  }),
  open.get("/auth/sso/saml/{tenantId}/metadata", "getSsoSamlMetadata", {
    summary: "Get the SAML metadata of this server",
    description:
      "As the service provider of a tenant that signs in by SAML; its address is the entity id. It has the " +
      "ACS of PUBLIC_URL as the default, and those of the tenant's custom domains.",
    media: ["application/samlmetadata+xml"],
    response: z.string(),
    outside: async ({ transact, sso, config }, { params, host }) => {
      const xml = await transact(async (work) => {
        const { id } = await findSsoTenant(work, params.tenantId, host);
        const { spEntityId, acsUrl } = addressesOf(config.publicUrl, id);
        const own = await customHostAddresses(work, config, id);
        return sso.saml.metadata({ spEntityId, acsUrls: [acsUrl, ...own.map((one) => one.acsUrl)] });
      });
      const make = async (put: (piece: string) => Promise<void>) => {
        await put(xml);
        return {};
      };
      const type = "application/samlmetadata+xml";
      return new Reply(200, new StreamedBody({ kind: "made", type, trailers: [], make }) as never);
    },
  }),
];
