import { selfSigned } from "../webhooks/certificate.ts";

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
