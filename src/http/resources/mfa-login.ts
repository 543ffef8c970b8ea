import { z } from "zod";
import { passkeyRequest, requirePasskeyOrigin } from "../../domain/accounts/mfa/passkeys.ts";
import { completeLogin, loginWithPasskey } from "../../domain/accounts/mfa/sign-in.ts";
import { verifyAgain } from "../../domain/accounts/mfa/step-up.ts";
import { OWN_ACCOUNT } from "../../domain/kernel/caller.ts";
import { group } from "../route.ts";
import { LoginBody } from "./auth-bodies.ts";
import {
  AssertionInput,
  ChallengeAnswerBody,
  givenFactor,
  PASSKEY_PAGES,
  PasskeyOptionsBody,
  proofParts,
  selfOf,
} from "./mfa-bodies.ts";

const common = group({ tag: "Second factor", project: "none", takesNoIdempotencyKey: true });
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
    response: LoginBody,
    outside: (app, { body, actor }) => loginWithPasskey(proofParts(app, actor), { ...body, ip: actor.ip }),
  }),
  common.post("/auth/mfa/verify", "verifySecondFactor", {
    access: OWN_ACCOUNT,
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
