import { DomainError } from "../../kernel/errors.ts";
import type { Transact } from "../../kernel/work.ts";
import { type Limiter, RateLimited } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";
import { showCertificates } from "./certificates.ts";
import type { OidcSettings, SsoCheck, SsoClients } from "./clients.ts";
import type { SsoConfiguration } from "./configuration.ts";
import { getSso } from "./configure.ts";
import { oidcSettingsOf, samlSettingsOf, type SettingsParts } from "./settings.ts";

export type TestParts = SettingsParts & {
  transact: Transact;
  sso: SsoClients;
  limiter: Limiter;
  clock: () => Date;
};

const certificateChecks = ({ samlCertificate }: SsoConfiguration, now: Date): SsoCheck[] =>
  showCertificates(samlCertificate ?? "").map(({ fingerprint, notBefore, notAfter }) => ({
    name: "certificate",
    ok: notBefore <= now.toISOString() && now.toISOString() < notAfter,
    message: `${fingerprint.slice(0, 16)} is valid from ${notBefore} to ${notAfter}`,
  }));

/**
 * Looks at what can be seen of a tenant's identity provider without signing in. Not to be called in a
 * transaction. @throws NOT_FOUND, RateLimited SSO_TEST_RATE
 */
export const testSso = async (parts: TestParts, tenantId: string): Promise<SsoCheck[]> => {
  const sso = await parts.transact((work) => getSso(work, tenantId));
  const state = await parts.limiter.consume(LIMITS.ssoTest, tenantId);
  const now = parts.clock();
  if (!state.isAllowed) {
    const message = "An identity provider may be tested 10 times an hour";
    throw new RateLimited("SSO_TEST_RATE", message, state, now.getTime());
  }
  if (sso.provider !== "SAML") return (await parts.sso.oidc.probe(oidcSettingsOf(sso, parts))).checks;
  const { checks } = await parts.sso.saml.probe(samlSettingsOf(sso, parts, now));
  return [...certificateChecks(sso, now), ...checks];
};

/**
 * Requires that a provider's metadata can be read, before it is stored. Not to be called in a transaction.
 * @throws UNPROCESSABLE_ENTITY SSO_DISCOVERY_FAILED
 */
export const requireDiscovery = async (sso: SsoClients, settings: OidcSettings): Promise<void> => {
  const { checks } = await sso.oidc.probe(settings);
  const failed = checks.find(({ ok }) => !ok);
  if (!failed) return;
  throw new DomainError("UNPROCESSABLE_ENTITY", `oidcIssuer: ${failed.name}: ${failed.message}`, {
    reason: "SSO_DISCOVERY_FAILED",
    details: [{ field: "oidcIssuer", message: failed.message }],
  });
};
