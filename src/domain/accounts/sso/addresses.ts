/** The addresses at which a tenant's identity provider knows this server. */
export type SsoAddresses = { spEntityId: string; acsUrl: string; oidcRedirectUri: string };

/**
 * Returns the addresses for sign-ins that take place at a host. The entity id names the tenant, so it is the
 * same everywhere: a provider that was set up before a custom domain was there, or after it has gone, knows
 * the same service provider.
 * @param domain a custom domain of the tenant; undefined for PUBLIC_URL
 */
export const addressesOf = (publicUrl: string, tenantId: string, domain?: string): SsoAddresses => {
  const path = "/api/v1/auth/sso";
  const at = domain === undefined ? publicUrl : `https://${domain}`;
  return {
    spEntityId: `${publicUrl}${path}/saml/${tenantId}/metadata`,
    acsUrl: `${at}${path}/saml/${tenantId}/acs`,
    oidcRedirectUri: `${at}${path}/oidc/${tenantId}/callback`,
  };
};
