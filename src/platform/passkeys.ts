import type { PasskeySettings } from "../config/sections.ts";
import {
  type Assertion,
  type KnownCredential,
  type NewCredential,
  PASSKEY_CHALLENGE_SECONDS,
  type PasskeyVerifier,
  type VerifiedCredential,
} from "../domain/accounts/mfa/passkeys.ts";

/** Loaded when somebody has a passkey: it is large, and every start would wait for it. */
const library = () => import("@simplewebauthn/server");

const NAME = "Laurel";
/** COSE algorithms: Ed25519, ECDSA with P-256, and RSA of older Windows devices. */
const ALGORITHMS = [-8, -7, -257];
/** Maximum bytes of a public key: RSA of 4096 bits has 540. */
const PUBLIC_KEY_MAX = 1_024;

/**
 * Whether the attestation names no maker. Browsers send no other when none is asked for, and the certificates
 * of one could name addresses that the library would fetch.
 */
const isAnonymous = async (attestationObject: string): Promise<boolean> => {
  const { decodeAttestationObject } = await import("@simplewebauthn/server/helpers");
  const object = decodeAttestationObject(new Uint8Array(Buffer.from(attestationObject, "base64url")));
  const format = object.get("fmt");
  return format === "none" || (format === "packed" && object.get("attStmt").get("x5c") === undefined);
};

/** Returns undefined for what the library refuses: each refusal is an exception of its own. */
const attempt = async <T>(verify: () => Promise<T | undefined>): Promise<T | undefined> => {
  try {
    return await verify();
  } catch {
    return undefined;
  }
};

const credentialOf = ({ credentialId, publicKey, counter }: KnownCredential) => ({
  id: credentialId,
  publicKey: new Uint8Array(Buffer.from(publicKey, "base64url")),
  counter,
});

const TIMEOUT_MS = PASSKEY_CHALLENGE_SECONDS * 1_000;

/** What every answer of a browser must say. */
const expectedBy = ({ rpId, origins }: PasskeySettings, challenge: string) => ({
  expectedChallenge: challenge,
  expectedOrigin: [...origins],
  expectedRPID: rpId,
  requireUserVerification: true,
});

const verifyNew = async (
  settings: PasskeySettings,
  credential: NewCredential,
  challenge: string,
): Promise<VerifiedCredential | undefined> => {
  const { id, rawId, type } = credential;
  const { clientDataJSON, attestationObject, transports = [] } = credential.response;
  if (!(await isAnonymous(attestationObject))) return undefined;
  const { verifyRegistrationResponse } = await library();
  const response = { clientDataJSON, attestationObject };
  const { registrationInfo: made } = await verifyRegistrationResponse({
    response: { id, rawId, type, response, clientExtensionResults: {} },
    supportedAlgorithmIDs: ALGORITHMS,
    ...expectedBy(settings, challenge),
  });
  if (!made || made.credential.publicKey.length > PUBLIC_KEY_MAX) return undefined;
  return {
    credentialId: made.credential.id,
    publicKey: Buffer.from(made.credential.publicKey).toString("base64url"),
    counter: made.credential.counter,
    transports,
    isBackedUp: made.credentialBackedUp,
  };
};

const verify = async (
  settings: PasskeySettings,
  { assertion, known, challenge }: { assertion: Assertion; known: KnownCredential; challenge: string },
): Promise<{ counter: number; isBackedUp: boolean } | undefined> => {
  const { id, rawId, type } = assertion;
  const { clientDataJSON, authenticatorData, signature } = assertion.response;
  const response = { clientDataJSON, authenticatorData, signature };
  const { verifyAuthenticationResponse } = await library();
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response: { id, rawId, type, response, clientExtensionResults: {} },
    credential: credentialOf(known),
    ...expectedBy(settings, challenge),
  });
  if (!verified) return undefined;
  return { counter: authenticationInfo.newCounter, isBackedUp: authenticationInfo.credentialBackedUp };
};

/** Creates the verifier of passkeys, which belong to the host of PASSKEY_RP_ID. */
export const createPasskeys = (settings: PasskeySettings): PasskeyVerifier => ({
  creationOptions: async (challenge, user, known) => {
    const { generateRegistrationOptions } = await library();
    const options = await generateRegistrationOptions({
      rpName: NAME,
      rpID: settings.rpId,
      userID: new TextEncoder().encode(user.id),
      userName: user.email,
      userDisplayName: user.name,
      challenge: new Uint8Array(challenge),
      timeout: TIMEOUT_MS,
      attestationType: "none",
      excludeCredentials: known.map(({ credentialId: id, transports }) => ({ id, transports })),
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
      supportedAlgorithmIDs: ALGORITHMS,
    });
    return { ...options };
  },
  requestOptions: async (challenge) => {
    const { generateAuthenticationOptions } = await library();
    const options = await generateAuthenticationOptions({
      rpID: settings.rpId,
      challenge: new Uint8Array(challenge),
      timeout: TIMEOUT_MS,
      userVerification: "required",
    });
    return { ...options };
  },
  verifyNew: (credential, challenge) => attempt(() => verifyNew(settings, credential, challenge)),
  verify: (assertion, known, challenge) => attempt(() => verify(settings, { assertion, known, challenge })),
});
