/** A passkey that the browser has made, as JSON of WebAuthn's `PublicKeyCredential`. */
export type NewCredential = {
  id: string;
  rawId: string;
  type: "public-key";
  response: { clientDataJSON: string; attestationObject: string; transports?: string[] | undefined };
};

/** The proof that somebody has a passkey, as JSON of WebAuthn's `PublicKeyCredential`. */
export type Assertion = {
  id: string;
  rawId: string;
  type: "public-key";
  response: {
    clientDataJSON: string;
    authenticatorData: string;
    signature: string;
    userHandle?: string | null | undefined;
  };
};

/** What is kept of a passkey to verify it. */
export type KnownCredential = {
  credentialId: string;
  /** COSE key, base64url. */
  publicKey: string;
  /** Signatures so far, if its authenticator counts them; else 0. */
  counter: number;
  transports: string[];
};

/** What is kept of a new passkey. */
export type VerifiedCredential = KnownCredential & { isBackedUp: boolean };

/** Who makes a passkey. */
export type PasskeyUser = { id: string; email: string; name: string };

/** Options for the browser, as JSON of WebAuthn. */
export type PasskeyOptions = { challenge: string; [field: string]: unknown };

/** Verifies passkeys by WebAuthn. Whose challenge it was, the caller verifies. */
export type PasskeyVerifier = {
  /** Options of `navigator.credentials.create()`; the passkeys of `known` cannot be made again. */
  creationOptions(
    challenge: Uint8Array,
    user: PasskeyUser,
    known: readonly KnownCredential[],
  ): Promise<PasskeyOptions>;
  /** Options of `navigator.credentials.get()`: any passkey of this server. */
  requestOptions(challenge: Uint8Array): Promise<PasskeyOptions>;
  /** Returns what to keep of a new passkey; undefined when it is not valid. */
  verifyNew(credential: NewCredential, challenge: string): Promise<VerifiedCredential | undefined>;
  /** Returns the new counter of a passkey; undefined when the proof is not valid. */
  verify(
    assertion: Assertion,
    known: KnownCredential,
    challenge: string,
  ): Promise<{ counter: number; isBackedUp: boolean } | undefined>;
};
