import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import {
  forgotPassword,
  resendVerification,
  resetPassword,
  verifyEmail,
} from "../../domain/accounts/auth/email-verification.ts";
import { group } from "../route.ts";
import { Email, NewPassword, TOKEN_INPUT_MAX } from "./auth-bodies.ts";
import { Accepted } from "./plain-bodies.ts";

export const CaptchaToken = z
  .string()
  .max(TOKEN_INPUT_MAX)
  .optional()
  .meta({ description: "Required where GET /auth/captcha names a provider" });
const MailedToken = z
  .string()
  .min(1)
  .max(TOKEN_INPUT_MAX)
  .meta({ description: "The token of the mail's link" });
const accepted = { accepted: true } as const;

/** Responses are sent at multiples of this time after the request. */
const ANSWER_STEP_MS = 100;

/** Hides the duration of the work, which would reveal whether an address is known. */
const hidingTime = async (run: () => Promise<void>): Promise<typeof accepted> => {
  const startMs = performance.now();
  await run();
  await delay(ANSWER_STEP_MS - ((performance.now() - startMs) % ANSWER_STEP_MS));
  return accepted;
};

const open = group({ tag: "Authentication", project: "none", access: "public" });

export const passwordResetRoutes = [
  open.post("/auth/forgot-password", "forgotPassword", {
    summary: "Ask for a link that sets a new password",
    description:
      "The answer is the same for every address. A known one gets a mail, at most one a minute and five a " +
      "day, then one in half an hour, with a link that is good once, for an hour. IP addresses that have " +
      "signed in to the account before are counted apart.",
    takesNoIdempotencyKey: true,
    body: z.object({ email: Email, captchaToken: CaptchaToken }),
    example: { email: "ada@example.com" },
    response: Accepted,
    outside: (app, { body, actor }) => hidingTime(() => forgotPassword(app, { ...body, ip: actor.ip })),
  }),
  open.post("/auth/reset-password", "resetPassword", {
    summary: "Set a new password",
    description: "With the token of the mail. Every session of the user ends.",
    limits: ["verifyEmail"],
    takesNoIdempotencyKey: true,
    body: z.object({ token: MailedToken, password: NewPassword }),
    example: { token: "the token of the mail", password: "Copper-Kettle-91" },
    errors: ["GONE"],
    response: Accepted,
    outside: async (app, { body, actor }) => {
      await resetPassword(app, { ...body, ip: actor.ip });
      return accepted;
    },
  }),
  open.post("/auth/verify-email", "verifyEmail", {
    summary: "Prove an email address",
    description:
      "With the token of the mail to a new user, or to the new address of one who changes theirs: from now " +
      "on that is the address to log in with.",
    limits: ["verifyEmail"],
    takesNoIdempotencyKey: true,
    body: z.object({ token: MailedToken }),
    example: { token: "the token of the mail" },
    errors: ["GONE"],
    response: z.object({ emailVerified: z.literal(true) }),
    outside: async (app, { body }) => {
      await verifyEmail(app, body.token);
      return { emailVerified: true as const };
    },
  }),
  open.post("/auth/resend-verification", "resendVerification", {
    summary: "Ask for the mail that proves an address again",
    description:
      "The answer is the same for every address. One that waits for its proof gets a mail, at most one a " +
      "minute and five a day, then one in half an hour.",
    takesNoIdempotencyKey: true,
    body: z.object({ email: Email }),
    example: { email: "ada@example.com" },
    response: Accepted,
    outside: (app, { body }) => hidingTime(() => resendVerification(app, body.email)),
  }),
];
