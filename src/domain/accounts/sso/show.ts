import { addressesOf } from "./addresses.ts";
import { showCertificates } from "./certificates.ts";
import type { CustomHostAddresses } from "./custom-hosts.ts";
import type { SsoConfiguration } from "./configuration.ts";

/** The fields of a kind of provider, which others have as null. */
const providerFields = (sso: SsoConfiguration) => ({
  samlEntityId: sso.samlEntityId ?? null,
  samlSsoUrl: sso.samlSsoUrl ?? null,
  samlCertificate: sso.samlCertificate ?? null,
  oidcIssuer: sso.oidcIssuer ?? null,
  oidcClientId: sso.oidcClientId ?? null,
  oidcClientSecretSet: sso.oidcClientSecret != null,
});

/**
 * Converts a configuration to the API representation, which never has the client secret.
 * @param hosts the addresses at the tenant's custom domains
 */
export const showSso = (sso: SsoConfiguration, publicUrl: string, hosts: readonly CustomHostAddresses[]) => {
  const certificates = showCertificates(sso.samlCertificate ?? "");
  const expiries = certificates.map(({ notAfter }) => notAfter).toSorted();
  return {
    id: sso.id,
    provider: sso.provider,
    displayName: sso.displayName,
    ...providerFields(sso),
    samlCertificates: certificates,
    samlCertificateExpiresAt: expiries[0] ?? null,
    samlIdpInitiated: sso.samlIdpInitiated,
    oidcScopes: sso.oidcScopes,
    autoProvision: sso.autoProvision,
    defaultRole: sso.defaultRole,
    allowedDomains: sso.allowedDomains,
    enforceSso: sso.enforceSso,
    breakGlassUserId: sso.breakGlassUserId ?? null,
    status: sso.status,
    ...addressesOf(publicUrl, sso.tenantId),
    customDomains: [...hosts],
    lastTestedAt: sso.lastTestedAt?.toISOString() ?? null,
    createdAt: sso.createdAt.toISOString(),
    updatedAt: sso.updatedAt.toISOString(),
  };
};
