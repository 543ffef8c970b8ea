import { z } from "zod";
import { OWN_ACCOUNT, ROLES, userOf } from "../../domain/kernel/caller.ts";
import { CAPTCHA_PROVIDERS } from "../../domain/accounts/auth/one-time-secrets.ts";
import { completeProfile, register } from "../../domain/accounts/auth/registration.ts";
import { Name } from "../../domain/accounts/tenants/text.ts";
import { Reply, group } from "../route.ts";
import { Email, NewPassword, SignedInBody, TOKEN_INPUT_MAX } from "./auth-bodies.ts";
import { CaptchaToken } from "./password-reset.ts";

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

const open = group({ tag: "Authentication", project: "none", access: "public" });
const own = group({ tag: "Authentication", project: "none", access: OWN_ACCOUNT });

export const registrationRoutes = [
  open.post("/auth/register", "register", {
    summary: "Register a user",
    description:
      "Without tenantId and invitationToken it creates a tenant with the user as its OWNER. Each address " +
      "of a client has 5 attempts an hour, except the machine's own in development. Addresses of " +
      "throw-away mailboxes are refused.",
    limits: ["registration"],
    takesNoIdempotencyKey: true,
    body: RegisterBody,
    example: {
      email: "ada@example.com",
      password: "Engine-No-1",
      name: "Ada Lovelace",
      tenantName: "Analytical Games",
    },
    status: 201,
    errors: ["PAYMENT_REQUIRED", "GONE"],
    response: SignedInBody.extend({ user: RegisteredUser }),
    outside: (app, { body, actor }) => {
      const { autoApproveTenants, defaultPlan, disposableEmail } = app.config;
      const settings = { autoApproveTenants, defaultPlan, disposableEmail };
      return register({ ...app, ...settings }, body, actor.ip);
    },
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
    outside: ({ transact }, { caller, body }) =>
      transact((work) => completeProfile(work, userOf(caller), body)),
  }),
];
