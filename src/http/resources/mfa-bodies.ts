import { z } from "zod";
import type { App } from "../../app.ts";
import type { ProofParts } from "../../domain/accounts/mfa/sign-in.ts";
import type { SignedInOwner } from "../../domain/accounts/mfa/step-up.ts";
import { type Actor, adminOf, userOf } from "../../domain/kernel/caller.ts";
import { CurrentPassword, TOKEN_INPUT_MAX } from "./auth-bodies.ts";

/** Longest code as people may type it, with blanks and dashes. */
const CODE_MAX = 64;
const CREDENTIAL_ID_MAX = 2_048;
const CLIENT_DATA_MAX = 8_192;
const AUTHENTICATOR_DATA_MAX = 4_096;
const SIGNATURE_MAX = 2_048;
const ATTESTATION_MAX = 16_384;
const HANDLE_MAX = 128;
const TRANSPORTS_MAX = 10;
const TRANSPORT_MAX = 32;

export const FactorCode = z.string().max(CODE_MAX).meta({
  description: "Of the authenticator app, or a recovery code; each works once",
  example: "492039",
});

const Base64Url = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[\w-]*$/, "must be base64url");

const ofCredential = {
  id: Base64Url(CREDENTIAL_ID_MAX).min(1),
  rawId: Base64Url(CREDENTIAL_ID_MAX).min(1),
  type: z.literal("public-key"),
};

/** The proof of a passkey; browsers send more fields, which are ignored. */
export const AssertionInput = z
  .looseObject({
    ...ofCredential,
    response: z.looseObject({
      clientDataJSON: Base64Url(CLIENT_DATA_MAX),
      authenticatorData: Base64Url(AUTHENTICATOR_DATA_MAX),
      signature: Base64Url(SIGNATURE_MAX),
      userHandle: Base64Url(HANDLE_MAX).nullish(),
    }),
  })
  .meta({ description: "What `navigator.credentials.get()` returned, as its toJSON() gives it" });

/** A new passkey; browsers send more fields, which are ignored. */
export const NewCredentialInput = z
  .looseObject({
    ...ofCredential,
    response: z.looseObject({
      clientDataJSON: Base64Url(CLIENT_DATA_MAX),
      attestationObject: Base64Url(ATTESTATION_MAX),
      transports: z.array(z.string().max(TRANSPORT_MAX)).max(TRANSPORTS_MAX).optional(),
    }),
  })
  .meta({ description: "What `navigator.credentials.create()` returned, as its toJSON() gives it" });

/** What a second factor is proved with: one of the two. */
export const givenFactor = { code: FactorCode.optional(), passkey: AssertionInput.optional() };

export const OwnPassword = CurrentPassword.optional().meta({
  description: "Needed by accounts that have one and sign in with it",
});

/** What is asked before a change of how an account is signed in to. */
export const ChangeProofBody = z.object({ currentPassword: OwnPassword, ...givenFactor });

export const ChallengeAnswerBody = z.object({
  challengeToken: z
    .string()
    .max(TOKEN_INPUT_MAX)
    .meta({ description: "`error.challenge.token` of the login" }),
  ...givenFactor,
});

/** Where browsers use passkeys of this server, for descriptions. */
export const PASSKEY_PAGES =
  "Pages of other origins than those of the console, such as a custom domain, are refused with 403 " +
  "`ORIGIN_NOT_ALLOWED`: browsers use a passkey only at the host that it was made for.";

export const PasskeyOptionsBody = z
  .looseObject({ challenge: z.string() })
  .meta({ description: "As parseCreationOptionsFromJSON() and parseRequestOptionsFromJSON() take it" });

/** The parts that prove a second factor: challenges are used up where every account is seen. */
export const proofParts = (app: App, actor: Actor): App & ProofParts => ({
  ...app,
  accounts: app.transactAs({ role: "accounts", by: actor }),
});

/** Returns who is signed in. */
export const selfOf = ({ caller, ip }: Actor): SignedInOwner => {
  if (caller.kind === "admin") {
    const { adminId: id, loginVersion } = adminOf(caller);
    return { kind: "admin", id, sessionId: undefined, loginVersion, ip };
  }
  const { userId: id, sessionId } = userOf(caller);
  return { kind: "user", id, sessionId, ip };
};
