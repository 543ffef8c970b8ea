import { z } from "zod";
import { EVERY_ROLE } from "../../domain/access.ts";
import { register } from "../../domain/auth/registration.ts";
import { login } from "../../domain/auth/login.ts";
import { issueWsToken } from "../../domain/auth/ws-tokens.ts";
import { ROLES } from "../../domain/caller.ts";
import { Name } from "../../domain/tenants/text.ts";
import { route } from "../route.ts";

const EMAIL_MAX = 254;
/** Longer input is not even hashed; the rules for new passwords are the domain's. */
const PASSWORD_INPUT_MAX = 512;
const TOKEN_INPUT_MAX = 4_096;

const Email = z.string().trim().max(EMAIL_MAX).pipe(z.email()).meta({ example: "ada@example.com" });

const RegisterBody = z.object({
  tenantId: z.uuid().optional().meta({ description: "Tenant to join; needs an invitation" }),
  tenantName: Name.optional().meta({ description: "Name of the new tenant; default: the user's name" }),
  email: Email,
  name: Name.meta({ example: "Ada Lovelace" }),
  password: z.string().max(PASSWORD_INPUT_MAX).meta({
    description: "8 to 128 characters with an uppercase letter, a lowercase letter and a number",
    example: "Engine-No-1",
  }),
  captchaToken: z
    .string()
    .max(TOKEN_INPUT_MAX)
    .optional()
    .meta({ description: "Ignored while no captcha is configured" }),
  invitationToken: z.string().max(TOKEN_INPUT_MAX).optional(),
  website: z.string().max(TOKEN_INPUT_MAX).optional().meta({ description: "Leave empty" }),
});

const Session = z.object({
  accessToken: z.string().meta({ description: "JWT for the header Authorization: Bearer" }),
  refreshToken: z.string(),
  tokenType: z.literal("Bearer"),
  expiresIn: z.int().meta({ description: "Seconds the access token lives" }),
});

const WsTokenBody = z.object({
  playerId: z
    .string()
    .min(1)
    .max(260)
    .optional()
    .meta({ description: "UUID, or ext: and the externalUserId" }),
  externalUserId: z.string().min(1).max(255).optional(),
  projectId: z
    .uuid()
    .optional()
    .meta({ description: "Project of a console token; default: the tenant's only one" }),
});

export const authRoutes = [
  route({
    method: "post",
    path: "/auth/register",
    id: "register",
    tag: "Authentication",
    summary: "Register a user",
    description: "Creates a tenant with the user as its OWNER.",
    access: "public",
    project: "none",
    body: RegisterBody,
    status: 201,
    response: Session.extend({
      user: z.object({
        id: z.uuid(),
        email: z.string(),
        name: z.string(),
        tenantId: z.uuid(),
        role: z.enum(ROLES),
        emailVerified: z.boolean(),
      }),
    }),
    run: ({ transact, tokens, passwords, config }, { body }) => {
      const { autoApproveTenants, defaultPlan } = config;
      return register({ transact, tokens, passwords, autoApproveTenants, defaultPlan }, body);
    },
  }),
  route({
    method: "post",
    path: "/auth/login",
    id: "login",
    tag: "Authentication",
    summary: "Log in",
    access: "public",
    project: "none",
    body: z.object({ email: z.string().max(EMAIL_MAX), password: z.string().max(PASSWORD_INPUT_MAX) }),
    response: Session.extend({ user: z.object({ id: z.uuid(), email: z.string(), role: z.enum(ROLES) }) }),
    run: (app, { body }) => login(app, body),
  }),
  route({
    method: "post",
    path: "/auth/ws-token",
    id: "createWsToken",
    tag: "Authentication",
    summary: "Get a WebSocket token",
    description:
      "An API key gets a player's token for playerId or externalUserId; an unknown externalUserId creates " +
      "the player when the project allows it. A console user gets a token for a project. " +
      "Pass it as auth.token of the connection.",
    access: { scope: "realtime:connect", roles: EVERY_ROLE },
    project: "optional",
    body: WsTokenBody,
    response: z.object({
      token: z.string(),
      expiresIn: z.int().meta({ description: "Seconds", example: 900 }),
      expiresAt: z.iso.datetime(),
      playerId: z.uuid().optional().meta({ description: "Absent for a console token" }),
    }),
    run: async (app, { caller, projectId, body }) => {
      const signed = await issueWsToken(app, caller, {
        ...body,
        projectId: body.projectId ?? (projectId || undefined),
      });
      return { ...signed, expiresAt: signed.expiresAt.toISOString() };
    },
  }),
];
