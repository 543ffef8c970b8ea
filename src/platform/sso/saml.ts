import { OAuthError } from "../../domain/accounts/oauth/errors.ts";
import type { SamlArrival, SamlClaims, SamlSettings, SsoClients } from "../../domain/accounts/sso/clients.ts";
import { AGE_MAX_MS, checkResponse, claimsFromAssertion, SKEW_MS } from "./saml-assertion.ts";
import { checkShape, decodeResponse, parseXml, SamlRefused } from "./saml-document.ts";
import { type RequestCache, SAML, type SamlConfig } from "./saml-libraries.ts";
import { samlMetadata } from "./saml-metadata.ts";

/** Knows one request: the one that this browser was sent with. The library asks about it. */
const knowing = ({ requestId, now }: SamlArrival): RequestCache => ({
  saveAsync: async (_key, value) => ({ value, createdAt: now.getTime() }),
  getAsync: async (key) => (key === requestId ? now.toISOString() : null),
  removeAsync: async (key) => key,
});

const configOf = (settings: SamlSettings): SamlConfig => ({
  callbackUrl: settings.acsUrl,
  entryPoint: settings.ssoUrl,
  issuer: settings.spEntityId,
  audience: settings.spEntityId,
  idpCert: [...settings.certificates],
  wantAssertionsSigned: true,
  // A response may be signed besides its assertion.
  wantAuthnResponseSigned: false,
  acceptedClockSkewMs: SKEW_MS,
  maxAssertionAgeMs: AGE_MAX_MS,
  // How somebody proves who they are is the provider's business.
  disableRequestedAuthnContext: true,
  signatureAlgorithm: "sha256",
});

/** Verifies the signature, and what the library checks besides. @returns the XML that was signed */
const verifiedAssertion = async (
  settings: SamlSettings,
  arrival: SamlArrival,
  xml: string,
): Promise<string> => {
  const isAsked = arrival.requestId !== undefined;
  const library = new SAML({
    ...configOf(settings),
    validateInResponseTo: isAsked ? "always" : "never",
    cacheProvider: knowing(arrival),
  });
  const { profile } = await library.validatePostResponseAsync({
    SAMLResponse: Buffer.from(xml).toString("base64"),
  });
  const assertion = profile?.getAssertionXml?.();
  if (assertion === undefined) throw new SamlRefused("it has no assertion");
  return assertion;
};

const verify = async (settings: SamlSettings, arrival: SamlArrival): Promise<SamlClaims> => {
  if (settings.certificates.length === 0)
    throw new SamlRefused("no certificate of the identity provider is valid now");
  const signed = await signedIn(settings, arrival);
  try {
    return claimsFromAssertion(parseXml(signed).documentElement, settings, arrival);
  } catch (error) {
    throw refusal(error, false);
  }
};

/** Returns the assertion that the provider has signed. */
const signedIn = async (settings: SamlSettings, arrival: SamlArrival): Promise<string> => {
  const xml = decodeResponse(arrival.response);
  checkResponse(checkShape(parseXml(xml)), settings, arrival);
  return verifiedAssertion(settings, arrival, xml);
};

/** Maximum length of what the library says: it may quote what it has found. */
const REASON_MAX = 300;

/**
 * One message for all that is wrong: who signs in cannot mend it. `isAnybodys`: no signature says yet that it
 * comes from the provider.
 */
const refusal = (error: unknown, isAnybodys = true): OAuthError => {
  if (error instanceof OAuthError) return error;
  const text = error instanceof Error ? error.message.slice(0, REASON_MAX) : "it cannot be read";
  const reason = { text, isAnybodys };
  return new OAuthError("provider_error", "The provider's answer could not be trusted", error, reason);
};

/** A SAML 2.0 service provider, one for all tenants. */
export const createSaml = (probe: SsoClients["saml"]["probe"]): SsoClients["saml"] => ({
  probe,
  authorizationUrl: (settings, { requestId, relayState }) => {
    const library = new SAML({ ...configOf(settings), generateUniqueId: () => requestId });
    return library.getAuthorizeUrlAsync(relayState, undefined, {});
  },
  claimsOf: async (settings, arrival) => {
    try {
      return await verify(settings, arrival);
    } catch (error) {
      throw refusal(error);
    }
  },
  metadata: samlMetadata,
});
