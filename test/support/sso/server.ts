import { randomUUID } from "node:crypto";
import type { App } from "../../../src/app.ts";
import { LIMITS } from "../../../src/domain/accounts/rate-limits/limiter.ts";
import { createDnsRecords } from "../../../src/platform/dns-records.ts";
import { createSso } from "../../../src/platform/sso.ts";
import { startApp, type Tenant, type TestApp } from "../app/app.ts";
import { type Client, must } from "../http/client.ts";
import { serveApp } from "../http/serve-app.ts";
import { startHostileProvider } from "../providers/hostile-provider.ts";
import { CONSOLE } from "../providers/oauth.ts";
import type { TestProvider } from "../providers/openid-provider.ts";
import { startTxtServer, type TxtServer } from "./txt-server.ts";
import { madeOnce } from "../made.ts";
import { selfSigned } from "../webhooks/receiver.ts";

export type SsoServer = Client & { app: App; dns: TxtServer; close(): Promise<void> };

/** A second HTTP server over the database of the shared one, with DNS servers of its own. */
export const startSsoServer = async (
  { app }: TestApp,
  parts: Partial<App["config"]> = {},
): Promise<SsoServer> => {
  const dns = await startTxtServer();
  const server = await serveApp((url) => {
    const config = {
      ...app.config,
      publicUrl: url,
      dnsServers: [dns.address],
      oauth: { ...app.config.oauth, redirectUris: [CONSOLE, `${url}/console/oauth`] },
      ...parts,
    };
    return { ...app, config, sso: createSso(config), dns: createDnsRecords(config.dnsServers) };
  });
  const close = async (): Promise<void> => {
    await server.close();
    await dns.close();
  };
  return { ...server, dns, close };
};

export const aDomain = (): string => `acme-${randomUUID().slice(0, 8)}.com`;

/** Claims a domain and makes its TXT record. */
export const claimDomain = async (server: SsoServer, { token }: Tenant, domain = aDomain()) => {
  const made = must(await server.post("/api/v1/enterprise/sso/domains", { domain }, { token }), 201);
  server.dns.records.set(made.txtName, [[made.txtValue]]);
  return made as { id: string; domain: string; txtName: string; txtValue: string };
};

/** Has a domain's record looked for, however often that is in a minute. */
export const verifyDomain = async (
  server: SsoServer,
  { tenantId, token }: Tenant,
  { id, domain }: { id: string; domain: string },
) => {
  await server.app.limiter.reset(LIMITS.domainCheck, `sso:${tenantId}:${domain}`);
  return server.post(`/api/v1/enterprise/sso/domains/${id}/verify`, {}, { token });
};

/** A domain that the tenant has proved to be its own. */
export const aVerifiedDomain = async (
  server: SsoServer,
  tenant: Tenant,
  domain = aDomain(),
): Promise<string> => {
  must(await verifyDomain(server, tenant, await claimDomain(server, tenant, domain)), 200);
  return domain;
};

export const putSso = (server: Client, { token }: Pick<Tenant, "token">, body: object) =>
  server.put("/api/v1/enterprise/sso", body, { token });

/** The address that begins a sign-in. */
export const ssoUrl = (
  { url }: Client,
  { tenantId }: Pick<Tenant, "tenantId">,
  parameters: Record<string, string> = {},
): string => {
  const query = new URLSearchParams({ redirect_uri: CONSOLE, ...parameters });
  return `${url}/api/v1/auth/sso/${tenantId}?${query.toString()}`;
};

/** A server on which tenants sign in by their own providers, for the tests of one `describe`. */
export const ssoServer = () => {
  const api = madeOnce(startApp);
  const server = madeOnce(
    () => startSsoServer(api),
    (made) => made.close(),
  );
  return { api, server };
};

/** As `ssoServer`, with an OpenID provider that a test may have misbehave. */
export const ssoStage = () => ({
  ...ssoServer(),
  provider: madeOnce(startHostileProvider, (made) => made.close()),
});

const DAY_MS = 86_400_000;

/** An RSA key of a SAML identity provider with a certificate for so many days. */
export const aSigningKey = (days = 365, rsaBits = 2_048) =>
  selfSigned({
    names: ["idp.test"],
    rsaBits,
    from: new Date(Date.now() - 400 * DAY_MS),
    until: new Date(Date.now() + days * DAY_MS),
  });

/** A configuration of a SAML identity provider. */
export const samlConfig = (cert: string, more: object = {}) => ({
  provider: "SAML",
  displayName: "Acme",
  samlEntityId: "https://idp.test/metadata",
  samlSsoUrl: "https://idp.test/sso",
  samlCertificate: cert,
  ...more,
});

/** A configuration of an OpenID provider. */
export const oidcConfig = (
  { issuer, clientId, clientSecret }: Pick<TestProvider, "issuer" | "clientId" | "clientSecret">,
  more: object = {},
) => ({
  provider: "OIDC",
  displayName: "Acme",
  oidcIssuer: issuer,
  oidcClientId: clientId,
  oidcClientSecret: clientSecret,
  ...more,
});
