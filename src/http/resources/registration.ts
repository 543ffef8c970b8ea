import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { OWN_ACCOUNT, ROLES, userOf } from "../../domain/kernel/caller.ts";
import { EmailAddress } from "../../domain/accounts/email/address.ts";
import {
  forgotPassword,
  resendVerification,
  resetPassword,
  verifyEmail,
} from "../../domain/accounts/auth/email-verification.ts";
import { group, Reply } from "../route.ts";
import { CAPTCHA_PROVIDERS } from "../../domain/accounts/auth/one-time-secrets.ts";
import { completeProfile, register } from "../../domain/accounts/auth/registration.ts";
import { Name } from "../../domain/accounts/tenants/tenant.ts";
import { Accepted, accepted } from "./bodies.ts";

/** Longer input is not even hashed; the rules for new passwords are the domain's. */
const PASSWORD_INPUT_MAX = 512;
/** Maximum length of tokens in a body. */
export const TOKEN_INPUT_MAX = 4_096;

export const Email = EmailAddress.meta({ example: "ada@example.com" });

export const NewPassword = z.string().max(PASSWORD_INPUT_MAX).meta({
  description: "8 to 128 characters with an uppercase letter, a lowercase letter and a number",
  example: "Engine-No-1",
});

/** The body of every sign-in's response, without the user. */
const SignedInBody = z.object({
  accessToken: z.string().meta({ description: "JWT for the header Authorization: Bearer" }),
  refreshToken: z
    .string()
    .optional()
    .meta({ description: "For POST /auth/refresh; good once. With X-Session: cookie it is in the cookie" }),
  tokenType: z.literal("Bearer"),
  expiresIn: z.int().meta({ description: "Seconds the access token lives" }),
});

/** The response to signing in to an existing account. */
export const LoginBody = SignedInBody.extend({
  user: z.object({ id: z.uuid(), email: z.string(), role: z.enum(ROLES) }),
});

/** Accepts any text; attempts are rate-limited. */
export const CurrentPassword = z.string().max(PASSWORD_INPUT_MAX);

const CaptchaToken = z
  .string()
  .max(TOKEN_INPUT_MAX)
  .optional()
  .meta({ description: "Required where GET /auth/captcha names a provider" });
const MailedToken = z
  .string()
  .min(1)
  .max(TOKEN_INPUT_MAX)
  .meta({ description: "The token of the mail's link" });
/** Responses are sent at multiples of this time after the request. */
const ANSWER_STEP_MS = 100;

/** Hides the duration of the work, which would reveal whether an address is known. */
const hidingTime = async (run: () => Promise<void>): Promise<void> => {
  const startMs = performance.now();
  await run();
  await delay(ANSWER_STEP_MS - ((performance.now() - startMs) % ANSWER_STEP_MS));
};

const open = group({ tag: "Authentication", project: "none", access: "public" });

const RegisterBody = z.object({
  tenantId: z.uuid().optional().meta({
    description: "Tenant to join: as a VIEWER who waits until an OWNER or ADMIN of it accepts them",
  }),
  tenantName: Name.optional().meta({ description: "Name of the new tenant; default: the user's name" }),
  email: Email,
  name: Name.meta({ example: "Ada Lovelace" }),
  password: NewPassword,
  captchaToken: CaptchaToken,
  invitationToken: z.string().max(TOKEN_INPUT_MAX).optional().meta({
    description: "From the mail of an invitation; it decides the tenant and the role",
  }),
  website: z.string().max(TOKEN_INPUT_MAX).optional().meta({ description: "Leave empty" }),
});

const RegisteredUser = z.object({
  id: z.uuid(),
  email: z.string(),
  name: z.string(),
  tenantId: z.uuid(),
  role: z.enum(ROLES),
  emailVerified: z.boolean(),
});
const own = group({ tag: "Authentication", project: "none", access: OWN_ACCOUNT });

export const registrationRoutes = [
  open.post("/auth/register", "register", {
    summary: "Register a user",
    description:
      "Without tenantId and invitationToken it creates a tenant with the user as its OWNER. Each address " +
      "of a client has 5 attempts an hour, except the machine's own in development. Addresses of " +
      "throw-away mailboxes are refused.",
    limits: ["registration"],
    body: RegisterBody,
    example: {
      email: "ada@example.com",
      password: "Engine-No-1",
      name: "Ada Lovelace",
      tenantName: "Analytical Games",
    },
    status: 201,
    errors: ["PAYMENT_REQUIRED", "GONE"],
    session: "begins",
    response: SignedInBody.extend({ user: RegisteredUser }),
    outside: (app, { body, actor }) => register(app, body, actor.ip),
  }),
  open.get("/auth/captcha", "getCaptcha", {
    summary: "Get the captcha's settings",
    description:
      "Returns which captcha POST /auth/register and POST /auth/forgot-password ask for. With altcha, " +
      "`challenge` is for the widget's attribute `challenge`; what it solves is good once, for 10 minutes.",
    response: z.object({
      provider: z.enum(CAPTCHA_PROVIDERS),
      siteKey: z.string().optional().meta({ description: "Of turnstile, hcaptcha and recaptcha" }),
      challenge: z.record(z.string(), z.unknown()).optional().meta({ description: "Of altcha" }),
    }),
    outside: async ({ captcha }) =>
      new Reply(200, await captcha.challenge(), { "Cache-Control": "no-store" }),
  }),
  own.post("/auth/complete-profile", "completeProfile", {
    summary: "Complete the profile",
    description: "For users whose provider gave no name when they signed up; tenantName is for an OWNER.",
    takesNoIdempotencyKey: true,
    body: z.object({ name: Name, tenantName: Name.optional() }),
    example: { name: "Ada Lovelace", tenantName: "Analytical Games" },
    response: RegisteredUser.extend({ profileCompleted: z.boolean() }),
    run: (work, { caller, body }) => completeProfile(work, userOf(caller), body),
  }),
  open.post("/auth/forgot-password", "forgotPassword", {
    summary: "Ask for a link that sets a new password",
    description:
      "The answer is the same for every address. A known one gets a mail, at most one a minute and five a " +
      "day, then one in half an hour, with a link that is good once, for an hour. IP addresses that have " +
      "signed in to the account before are counted apart.",
    body: z.object({ email: Email, captchaToken: CaptchaToken }),
    example: { email: "ada@example.com" },
    response: Accepted,
    outside: (app, { body, actor }) =>
      accepted(hidingTime(() => forgotPassword(app, { ...body, ip: actor.ip }))),
  }),
  open.post("/auth/reset-password", "resetPassword", {
    summary: "Set a new password",
    description: "With the token of the mail. Every session of the user ends.",
    limits: ["verifyEmail"],
    body: z.object({ token: MailedToken, password: NewPassword }),
    example: { token: "the token of the mail", password: "Copper-Kettle-91" },
    errors: ["GONE"],
    response: Accepted,
    outside: (app, { body, actor }) => accepted(resetPassword(app, { ...body, ip: actor.ip })),
  }),
  open.post("/auth/verify-email", "verifyEmail", {
    summary: "Prove an email address",
    description:
      "With the token of the mail to a new user, or to the new address of one who changes theirs: from now " +
      "on that is the address to log in with.",
    limits: ["verifyEmail"],
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
    body: z.object({ email: Email }),
    example: { email: "ada@example.com" },
    response: Accepted,
    outside: (app, { body }) => accepted(hidingTime(() => resendVerification(app, body.email))),
  }),
];
