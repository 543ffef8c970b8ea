import { z } from "zod";
import type { App } from "../../app.ts";
import { completeLogin, loginWithPasskey, type ProofParts } from "../../domain/accounts/mfa/sign-in.ts";
import { requireRecentProof, type SignedInOwner, verifyAgain } from "../../domain/accounts/mfa/step-up.ts";
import { EMAIL_MAX } from "../../domain/accounts/email/address.ts";
import { type Actor, adminOf, OWN_ACCOUNT, userOf } from "../../domain/kernel/caller.ts";
import { AssertionInput, passkeyRequest, requirePasskeyOrigin } from "../../domain/accounts/mfa/passkeys.ts";
import { group } from "../route.ts";
import { CurrentPassword, LoginBody, TOKEN_INPUT_MAX } from "./registration.ts";

/** Longest code as people may type it, with blanks and dashes. */
const CODE_MAX = 64;

export const FactorCode = z.string().max(CODE_MAX).meta({
  description: "Of the authenticator app, or a recovery code; each works once",
  example: "492039",
});

/** The body of a login by a password. */
export const LoginInput = z.object({
  email: z.string().max(EMAIL_MAX),
  password: CurrentPassword,
  mfaCode: FactorCode.optional(),
});

/** What a second factor is proved with: one of the two. */
const givenFactor = { code: FactorCode.optional(), passkey: AssertionInput.optional() };

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

/** What a change asks for by `ChangeProofBody`, for descriptions. */
export const ASKED =
  "Needs `currentPassword`, if the account has one, and, if it has a second factor, `code` or `passkey`, " +
  "unless its session proved one in the last 10 minutes.";

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

/** Of operations that destroy, or decide who gets in: who has a second factor proved it within 10 minutes. */
export const provenAgain = {
  requires: (app: App, { actor }: { actor: Actor }) => requireRecentProof(app, selfOf(actor)),
} as const;

const common = group({ tag: "Second factor", project: "none" });
const open = common.with({ access: "public", errors: ["UNAUTHORIZED"] });

/** Signing in with a second factor, or a passkey alone, and proving it again. */
export const mfaLoginRoutes = [
  open.post("/auth/login/mfa", "completeLogin", {
    summary: "Complete a login by the second factor",
    description:
      "`challengeToken` is `error.challenge.token` of a login, or challenge_token of an OAuth sign-in: " +
      "good for 5 minutes, for one session. Send a `code` of the app or a recovery code, or a " +
      "`passkey` that answers POST /auth/passkeys/options. 10 wrong codes in 15 minutes, and 50 in a day, " +
      "are refused with 429, for strangers and for each known address apart.",
    body: ChallengeAnswerBody,
    example: { challengeToken: "header.payload.signature", code: "492039" },
    session: "begins",
    response: LoginBody,
    outside: (app, { body, actor }) => completeLogin(proofParts(app, actor), { ...body, ip: actor.ip }),
  }),
  open.post("/auth/passkeys/options", "startPasskeyLogin", {
    summary: "Begin to prove a passkey",
    description:
      "Options for `navigator.credentials.get()`, good for 5 minutes and one answer: to log in with a " +
      `passkey alone, as a second factor, or to prove it again. ${PASSKEY_PAGES}`,
    response: PasskeyOptionsBody,
    outside: async (app, { origin }) => {
      requirePasskeyOrigin(app.config.passkeys, origin);
      return passkeyRequest(app, app.clock());
    },
  }),
  open.post("/auth/passkeys/login", "loginWithPasskey", {
    summary: "Log in with a passkey alone",
    description:
      "Needs no password, and asks for no further factor: the device has verified who holds it. For users; " +
      "a super-admin's passkey is a second factor only.",
    body: z.object({ credential: AssertionInput }),
    example: {
      credential: {
        id: "EXAMPLEEXAMPLEEXAMPLE",
        rawId: "EXAMPLEEXAMPLEEXAMPLE",
        type: "public-key",
        response: {
          clientDataJSON: "EXAMPLE",
          authenticatorData: "EXAMPLE",
          signature: "EXAMPLE",
          userHandle: "EXAMPLE",
        },
      },
    },
    session: "begins",
    response: LoginBody,
    outside: (app, { body, actor }) => loginWithPasskey(proofParts(app, actor), { ...body, ip: actor.ip }),
  }),
  common.post("/auth/mfa/verify", "verifySecondFactor", {
    access: OWN_ACCOUNT,
    takesNoIdempotencyKey: true,
    summary: "Prove your second factor again",
    description: "Counts for 10 minutes, in this session, for what asks for it again.",
    body: z.object(givenFactor),
    example: { code: "492039" },
    response: z.object({ verified: z.literal(true), verifiedUntil: z.iso.datetime() }),
    outside: async (app, { body, actor }) => {
      const until = await verifyAgain(proofParts(app, actor), selfOf(actor), body);
      return { verified: true as const, verifiedUntil: until.toISOString() };
    },
  }),
];
