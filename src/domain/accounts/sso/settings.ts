import type { CustomHost } from "../domains/known.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import { addressesOf } from "./addresses.ts";
import { validCertificates } from "./certificates.ts";
import type { OidcSettings, SamlSettings } from "./clients.ts";
import { secretContext, type SsoConfiguration } from "./configuration.ts";

/**
 * What clients of identity providers need of a configuration. `host`: the custom domain at which the sign-in
 * takes place.
 */
export type SettingsParts = { secretBox: SecretBox; publicUrl: string; host?: CustomHost | undefined };

export const samlSettingsOf = (
  sso: SsoConfiguration,
  { publicUrl, host }: Pick<SettingsParts, "publicUrl" | "host">,
  now: Date,
): SamlSettings => {
  const { spEntityId, acsUrl } = addressesOf(publicUrl, sso.tenantId, host?.domain);
  return {
    tenantId: sso.tenantId,
    entityId: sso.samlEntityId ?? "",
    ssoUrl: sso.samlSsoUrl ?? "",
    certificates: validCertificates(sso.samlCertificate ?? "", now),
    spEntityId,
    acsUrl,
  };
};

export const oidcSettingsOf = (
  sso: SsoConfiguration,
  { secretBox, publicUrl, host }: SettingsParts,
): OidcSettings => ({
  tenantId: sso.tenantId,
  provider: sso.provider === "SAML" ? "OIDC" : sso.provider,
  issuer: sso.oidcIssuer ?? "",
  clientId: sso.oidcClientId ?? "",
  clientSecret: sso.oidcClientSecret == null ? "" : secretBox.open(sso.oidcClientSecret, secretContext(sso)),
  scopes: sso.oidcScopes,
  redirectUri: addressesOf(publicUrl, sso.tenantId, host?.domain).oidcRedirectUri,
});
