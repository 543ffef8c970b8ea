import { z } from "zod";
import { login } from "../../domain/auth/login.ts";
import { ROLES } from "../../domain/caller.ts";
import { route } from "../route.ts";
import { EMAIL_MAX, PASSWORD_INPUT_MAX, SignedInBody } from "./auth-bodies.ts";

export const authRoutes = [
  route({
    method: "post",
    path: "/auth/login",
    id: "login",
    tag: "Authentication",
    summary: "Log in",
    access: "public",
    project: "none",
    body: z.object({ email: z.string().max(EMAIL_MAX), password: z.string().max(PASSWORD_INPUT_MAX) }),
    response: SignedInBody.extend({
      user: z.object({ id: z.uuid(), email: z.string(), role: z.enum(ROLES) }),
    }),
    run: (app, { body }) => login(app, body),
  }),
];
