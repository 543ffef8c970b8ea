export const PROVIDERS = ["google", "github"] as const;
export type ProviderId = (typeof PROVIDERS)[number];

/** Display names. */
export const PROVIDER_NAMES: Readonly<Record<ProviderId, string>> = { google: "Google", github: "GitHub" };

/** The secrets of one flow. Each is at least 32 random bytes, base64url. */
export type Handshake = { state: string; nonce: string; codeVerifier: string };

/** The identity of a person, as confirmed by the provider. */
export type ProviderProfile = {
  /** Never changes and is never reassigned. */
  subject: string;
  /** Lower case; undefined unless verified by the provider. */
  email: string | undefined;
  /** Undefined when there is none, or none that is valid for a user. */
  name: string | undefined;
};

/** An OAuth provider. Both functions access the network. */
export type OAuthProvider = {
  /** Returns the URL to redirect the browser to. @throws OAuthError */
  authorizationUrl(handshake: Handshake): Promise<string>;
  /** Verifies the parameters that the browser came back with, and fetches the profile. @throws OAuthError */
  profileOf(answer: URLSearchParams, handshake: Handshake): Promise<ProviderProfile>;
};

/** The providers that this server is a client of. */
export type OAuthProviders = Readonly<Partial<Record<ProviderId, OAuthProvider>>>;
