export const PROVIDERS = ["google", "github"] as const;
export type ProviderId = (typeof PROVIDERS)[number];

/** As people know them. */
export const PROVIDER_NAMES: Readonly<Record<ProviderId, string>> = { google: "Google", github: "GitHub" };

/** The secrets of one way to a provider and back. Each is 32 random bytes or more, base64url. */
export type Handshake = { state: string; nonce: string; codeVerifier: string };

/** Who somebody is, as the provider vouches for it. */
export type ProviderProfile = {
  /** Never changes and is never given to anybody else. */
  subject: string;
  /** Lower case; undefined unless the provider says that it belongs to this person. */
  email: string | undefined;
  /** Undefined when there is none, or none that a user may have. */
  name: string | undefined;
};

/** A service that people prove themselves to. Both functions wait for the network. */
export type OAuthProvider = {
  /** Where the browser has to go. @throws OAuthError */
  authorizationUrl(handshake: Handshake): Promise<string>;
  /** Checks with what the browser came back, and asks who it is. @throws OAuthError */
  profileOf(answer: URLSearchParams, handshake: Handshake): Promise<ProviderProfile>;
};

/** The providers that this server is a client of. */
export type OAuthProviders = Readonly<Partial<Record<ProviderId, OAuthProvider>>>;
