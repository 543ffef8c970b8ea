import { z } from "zod";
import { register } from "../../domain/auth/registration.ts";
import { ROLES } from "../../domain/caller.ts";
import { Name } from "../../domain/tenants/text.ts";
import { route } from "../route.ts";
import { Email, NewPassword, SignedInBody, TOKEN_INPUT_MAX } from "./auth-bodies.ts";

const RegisterBody = z.object({
  tenantId: z.uuid().optional().meta({ description: "Tenant to join; needs an invitation" }),
  tenantName: Name.optional().meta({ description: "Name of the new tenant; default: the user's name" }),
  email: Email,
  name: Name.meta({ example: "Ada Lovelace" }),
  password: NewPassword,
  captchaToken: z
    .string()
    .max(TOKEN_INPUT_MAX)
    .optional()
    .meta({ description: "Ignored while no captcha is configured" }),
  invitationToken: z.string().max(TOKEN_INPUT_MAX).optional(),
  website: z.string().max(TOKEN_INPUT_MAX).optional().meta({ description: "Leave empty" }),
});

export const registrationRoutes = [
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
    response: SignedInBody.extend({
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
];
