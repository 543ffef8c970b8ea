import { z } from "zod";
import { type Actor, ADMINS, ROLES, userOf } from "../../domain/kernel/caller.ts";
import { DOMAIN_MAX } from "../../domain/accounts/sso/domain-name.ts";
import {
  deleteSso,
  getSso,
  putSso,
  requireDiscovery,
  showSso,
  testSso,
} from "../../domain/accounts/sso/configure.ts";
import { inputOf, SSO_PROVIDERS, SSO_STATUSES, SsoRequest } from "../../domain/accounts/sso/configuration.ts";
import type { App } from "../../app.ts";
import {
  addressesOf,
  customHostAddresses,
  type FailureParts,
  findSsoTenant,
  listFailures,
  SSO_FLOW_SECONDS,
  startSso,
} from "../../domain/accounts/sso/clients.ts";
import {
  addDomain,
  checkDomain,
  listDomains,
  removeDomain,
  showDomain,
  verifyDomain,
} from "../../domain/accounts/sso/domains.ts";
import { group, Reply } from "../route.ts";
import { countCheck } from "./domains.ts";
import { provenAgain } from "./mfa-login.ts";
import { Deleted, deleted } from "./bodies.ts";
import { EMAIL_MAX } from "../../domain/accounts/email/address.ts";
import { REDIRECT_URI_MAX, RESPONSE_MODES } from "../../domain/accounts/oauth/provider.ts";
import type { CustomHost } from "../../domain/accounts/domains/known.ts";
import { completeOidc, completeSaml, type CompleteSsoParts } from "../../domain/accounts/sso/resolve.ts";
import { discoverSso } from "../../domain/accounts/sso/enforcement.ts";
import { StreamedBody } from "../compression.ts";
import { answerOf, redirect, reportTo, ssoCookieOf } from "./oauth.ts";

const Nullable = z.string().nullable();

const SsoBody = z
  .object({
    id: z.uuid(),
    provider: z.enum(SSO_PROVIDERS),
    displayName: z.string(),
    samlEntityId: Nullable,
    samlSsoUrl: Nullable,
    samlCertificate: Nullable,
    samlCertificates: z.array(
      z.object({
        fingerprint: z.string().meta({ description: "SHA-256, hex" }),
        subject: z.string(),
        notBefore: z.iso.datetime(),
        notAfter: z.iso.datetime(),
      }),
    ),
    samlCertificateExpiresAt: z.iso
      .datetime()
      .nullable()
      .meta({ description: "When the first of them expires; OWNERs and ADMINs are mailed before" }),
    samlIdpInitiated: z.boolean(),
    oidcIssuer: Nullable,
    oidcClientId: Nullable,
    oidcClientSecretSet: z.boolean().meta({ description: "The secret itself is never returned" }),
    oidcScopes: z.array(z.string()),
    autoProvision: z.boolean(),
    defaultRole: z.enum(ROLES),
    allowedDomains: z.array(z.string()),
    enforceSso: z.boolean(),
    breakGlassUserId: z.uuid().nullable(),
    status: z.enum(SSO_STATUSES),
    spEntityId: z.string().meta({ description: "This server's entity id and metadata, for the provider" }),
    acsUrl: z.string().meta({ description: "Where the provider posts SAML responses to" }),
    oidcRedirectUri: z.string().meta({ description: "The redirect URI to register with the provider" }),
    customDomains: z
      .array(z.object({ domain: z.string(), acsUrl: z.string(), oidcRedirectUri: z.string() }))
      .meta({
        description:
          "Addresses to register besides, for sign-ins that begin at the tenant's custom domains. The " +
          "entity id is the same, and the addresses above go on to work",
      }),
    lastTestedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "SsoConfiguration" });

const SsoDomainBody = z
  .object({
    id: z.uuid(),
    domain: z.string(),
    status: z.enum(["PENDING", "VERIFIED"]),
    txtName: z.string().meta({ description: "Name of the TXT record to make" }),
    txtValue: z.string().meta({ description: "Its value" }),
    verifiedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "SsoDomain" });

const SsoTestBody = z
  .object({
    success: z.boolean(),
    checks: z.array(z.object({ name: z.string(), ok: z.boolean(), message: z.string() })),
    testedAt: z.iso.datetime(),
  })
  .meta({ id: "SsoTest" });

const SsoFailureBody = z
  .object({
    error: z.string().meta({ description: "As the browser was told it", example: "provider_error" }),
    message: z.string().meta({ description: "The `error_description` that the browser was told" }),
    reason: z.string().nullable().meta({
      description: "What exactly was wrong, where more is known",
      example: "the provider says invalid_client: the client secret is wrong",
    }),
    email: z.string().nullable().meta({ description: "The address that the provider gave; null: none yet" }),
    requestId: z.string().meta({ description: "Of the last one: the operator finds it in the log" }),
    times: z.int().meta({ description: "How often this has happened" }),
    firstAt: z.iso.datetime(),
    lastAt: z.iso.datetime(),
  })
  .meta({ id: "SsoFailure" });

const common = group({ tag: "Single sign-on", project: "none" });
const NEEDS = { feature: "sso", verifiedEmail: true } as const;
const owners = common.with({
  access: { roles: ["OWNER"], needs: NEEDS },
  errors: ["PAYMENT_REQUIRED", "UNPROCESSABLE_ENTITY"],
});

const partsOf = (app: App) => ({ ...app, publicUrl: app.config.publicUrl });

export const ssoRoutes = [
  common.get("/enterprise/sso", "getSso", {
    summary: "Get the SSO configuration",
    description: "404 while there is none. Readable on every plan.",
    access: { roles: ADMINS },
    errors: ["NOT_FOUND"],
    response: SsoBody,
    run: async (work, { caller }, app) =>
      showSso(work, app.config, await getSso(work, userOf(caller).tenantId)),
  }),
  owners.put("/enterprise/sso", "putSso", {
    summary: "Update SSO configuration",
    description:
      "Replaces the whole configuration, and creates it the first time. AZURE_AD, OKTA and " +
      "GOOGLE_WORKSPACE are OpenID providers with rules of their own. The metadata of an OpenID provider " +
      "is read at once: 422 SSO_DISCOVERY_FAILED. OWNERs with a second factor prove it within 10 minutes " +
      "before.",
    body: SsoRequest,
    example: {
      provider: "OIDC",
      displayName: "Acme single sign-on",
      oidcIssuer: "https://login.acme.com",
      oidcClientId: "laurel",
      oidcClientSecret: "secret-of-the-client",
      autoProvision: true,
      defaultRole: "VIEWER",
      allowedDomains: ["acme.com"],
      enforceSso: false,
    },
    needsBody: true,
    response: SsoBody,
    ...provenAgain,
    prepare: (app, { actor, body }) =>
      requireDiscovery(partsOf(app), userOf(actor.caller).tenantId, inputOf(body)),
    run: async (work, { actor, body }, app) =>
      showSso(work, app.config, await putSso(work, app, userOf(actor.caller), inputOf(body))),
  }),
  owners.post("/enterprise/sso/test", "testSso", {
    summary: "Test the SSO configuration",
    description:
      "Looks at what can be seen without signing in: metadata and keys of an OpenID provider, certificates " +
      "and sign-on address of a SAML one. 10 tests an hour. Whether the client secret is right shows only " +
      "when somebody signs in.",
    errors: ["PAYMENT_REQUIRED", "NOT_FOUND"],
    response: SsoTestBody,
    prepare: (app, { caller }) => testSso(partsOf(app), userOf(caller).tenantId),
    run: async (work, { caller, prepared: checks }) => {
      (await getSso(work, userOf(caller).tenantId)).lastTestedAt = work.now;
      return { success: checks.every(({ ok }) => ok), checks, testedAt: work.now.toISOString() };
    },
  }),
  common.get("/enterprise/sso/failures", "listSsoFailures", {
    summary: "List sign-ins that failed",
    description:
      "Why sign-ins through the tenant's identity provider failed, also where the browser was told less: " +
      "the latest first, those alike as one, at most 50, for 30 days after the last time. Not those whose " +
      "browser came back without having begun (OAUTH_STATE_INVALID).",
    access: { roles: ADMINS },
    response: z.object({ data: z.array(SsoFailureBody) }),
    run: async (work, { caller }) => ({ data: await listFailures(work, userOf(caller).tenantId) }),
  }),
  common.delete("/enterprise/sso", "deleteSso", {
    summary: "Remove the SSO configuration",
    description:
      "Sessions that began through it end. Accounts stay; their people set a password by " +
      "POST /auth/forgot-password. OWNERs with a second factor prove it within 10 minutes before.",
    access: { roles: ["OWNER"] },
    errors: ["NOT_FOUND"],
    response: Deleted,
    ...provenAgain,
    run: (work, { actor }, app) => deleted(deleteSso(work, app, userOf(actor.caller))),
  }),
  common.get("/enterprise/sso/domains", "listSsoDomains", {
    summary: "List domains of email addresses",
    description: "In alphabetical order, at most 50.",
    access: { roles: ADMINS },
    response: z.object({ data: z.array(SsoDomainBody) }),
    run: async (work, { caller }) => ({
      data: (await listDomains(work, userOf(caller).tenantId)).map(showDomain),
    }),
  }),
  owners.post("/enterprise/sso/domains", "addSsoDomain", {
    summary: "Claim a domain of email addresses",
    description:
      "Make the TXT record of the answer, then verify the domain. People with addresses of a verified " +
      "domain are led to the tenant's identity provider, which may make accounts for them.",
    body: z.strictObject({ domain: z.string().max(DOMAIN_MAX).meta({ example: "acme.com" }) }),
    example: { domain: "acme.com" },
    status: 201,
    response: SsoDomainBody,
    ...provenAgain,
    run: async (work, { caller, body }) =>
      showDomain(await addDomain(work, userOf(caller).tenantId, body.domain)),
  }),
  owners.post("/enterprise/sso/domains/{domainId}/verify", "verifySsoDomain", {
    summary: "Verify a domain of email addresses",
    description:
      "Looks for the TXT record: 422 DNS_NOT_READY until it is seen, 409 DOMAIN_ALREADY_CLAIMED when " +
      "another tenant has verified the domain. If that one's record is missing, now and three days later, " +
      "the domain passes to who verifies it then. Once a minute.",
    response: SsoDomainBody,
    ...provenAgain,
    prepare: (app, { caller, params }) => {
      const { tenantId } = userOf(caller);
      const count = (domain: string) => countCheck(app, `sso:${tenantId}:${domain}`);
      return checkDomain(
        { ...app, accounts: app.transactAs({ role: "accounts" }), count },
        tenantId,
        params.domainId,
      );
    },
    run: async (work, { caller, params }) =>
      showDomain(await verifyDomain(work, userOf(caller).tenantId, params.domainId)),
  }),
  common.delete("/enterprise/sso/domains/{domainId}", "removeSsoDomain", {
    summary: "Give up a domain of email addresses",
    access: { roles: ["OWNER"] },
    response: Deleted,
    ...provenAgain,
    run: (work, { caller, params }) => deleted(removeDomain(work, userOf(caller).tenantId, params.domainId)),
  }),
];

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

const signInParts = (app: App, asked: Asked): CompleteSsoParts => ({
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
      const { browser, location } = await startSso(signInParts(app, { actor, host }), {
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
      return redirect(await completeOidc(signInParts(app, { actor, host }), back));
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
      return redirect(await completeSaml(signInParts(app, { actor, host }), back));
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
