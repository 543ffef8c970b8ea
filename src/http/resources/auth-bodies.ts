import { z } from "zod";
import { ROLES } from "../../domain/kernel/caller.ts";
import { EmailAddress } from "../../domain/accounts/email/address.ts";

/** Longer input is not even hashed; the rules for new passwords are the domain's. */
export const PASSWORD_INPUT_MAX = 512;
/** Maximum length of tokens in a body. */
export const TOKEN_INPUT_MAX = 4_096;

export const Email = EmailAddress.meta({ example: "ada@example.com" });

export const NewPassword = z.string().max(PASSWORD_INPUT_MAX).meta({
  description: "8 to 128 characters with an uppercase letter, a lowercase letter and a number",
  example: "Engine-No-1",
});

/** The body of every sign-in's response, without the user. */
export const SignedInBody = z.object({
  accessToken: z.string().meta({ description: "JWT for the header Authorization: Bearer" }),
  refreshToken: z.string().meta({ description: "For POST /auth/refresh; good once" }),
  tokenType: z.literal("Bearer"),
  expiresIn: z.int().meta({ description: "Seconds the access token lives" }),
});

/** The response to signing in to an existing account. */
export const LoginBody = SignedInBody.extend({
  user: z.object({ id: z.uuid(), email: z.string(), role: z.enum(ROLES) }),
});

/** Accepts any text; attempts are rate-limited. */
export const CurrentPassword = z.string().max(PASSWORD_INPUT_MAX);
