import type { Handshake } from "../oauth/provider.ts";
import type { SsoProvider } from "./configuration.ts";

/** An OpenID provider as a tenant has configured it. `redirectUri`: where it sends browsers back to. */
export type OidcSettings = {
  tenantId: string;
  provider: Exclude<SsoProvider, "SAML">;
  issuer: string;
  clientId: string;
  clientSecret: string;
  scopes: readonly string[];
  redirectUri: string;
};

/** A SAML identity provider, and this server as the tenant's service provider. */
export type SamlSettings = {
  tenantId: string;
  entityId: string;
  ssoUrl: string;
  /** PEM; valid now. */
  certificates: readonly string[];
  spEntityId: string;
  acsUrl: string;
};

/** What an identity provider says of a person, verified to come from it and to be meant for us, now. */
export type SsoClaims = {
  issuer: string;
  /** Names the person at this issuer. */
  subject: string;
  email: string | undefined;
  /** Whether the provider says that it has verified the address; false where its word does not count. */
  isEmailVerified: boolean;
  /** Whether it says that it has not: then nothing vouches for what the person may have chosen. */
  isEmailUnproved: boolean;
  name: string | undefined;
  /** GOOGLE_WORKSPACE: the organisation of the account. */
  hostedDomain?: string | undefined;
};

/** The claims of a SAML assertion, which may be used once until `validUntil`. */
export type SamlClaims = SsoClaims & { assertionId: string; validUntil: Date };

/** One thing that a test of a configuration has looked at. */
export type SsoCheck = { name: string; ok: boolean; message: string };

/** The result of a test: with `problem`, the configuration cannot work. */
export type SsoProbe = { checks: SsoCheck[] };

/** A SAML response as the browser brings it. `requestId`: of our request; undefined for none. */
export type SamlArrival = { response: string; requestId: string | undefined; now: Date };

/** What speaks to identity providers and DNS servers; all network access of single sign-on. */
export type SsoClients = {
  oidc: {
    /** Reads the provider's metadata and keys. Never throws. */
    probe(settings: OidcSettings): Promise<SsoProbe>;
    /** Returns where the browser signs in. @throws OAuthError */
    authorizationUrl(settings: OidcSettings, handshake: Handshake): Promise<string>;
    /** Verifies what the browser came back with. @throws OAuthError */
    claimsOf(settings: OidcSettings, answer: URLSearchParams, handshake: Handshake): Promise<SsoClaims>;
  };
  saml: {
    /** Asks the sign-on address for a page. Never throws. */
    probe(settings: Pick<SamlSettings, "tenantId" | "ssoUrl">): Promise<SsoProbe>;
    /** Returns where the browser signs in. */
    authorizationUrl(
      settings: SamlSettings,
      request: { requestId: string; relayState: string },
    ): Promise<string>;
    /** Verifies a response. @throws OAuthError */
    claimsOf(settings: SamlSettings, arrival: SamlArrival): Promise<SamlClaims>;
    /** Returns the metadata of this server as a tenant's service provider; the first ACS is the default. */
    metadata(settings: { spEntityId: string; acsUrls: readonly string[] }): string;
  };
  /**
   * Returns the TXT records of a name, chunks joined; none where the name has none.
   * @throws DomainError UNPROCESSABLE_ENTITY DNS_NOT_READY while its servers do not answer
   */
  txt(name: string): Promise<readonly string[]>;
  /** Whether identity providers may be on this machine, without TLS: in development. */
  isLocal: boolean;
};
