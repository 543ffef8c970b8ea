import { z } from "zod";
import { MAIL_ADDRESS } from "../../domain/email/address.ts";

export const EMAIL_MAX = 254;
/** Longer input is not even hashed; the rules for new passwords are the domain's. */
export const PASSWORD_INPUT_MAX = 512;
/** Of tokens that travel in a body. */
export const TOKEN_INPUT_MAX = 4_096;

export const Email = z
  .string()
  .trim()
  .max(EMAIL_MAX)
  .pipe(z.email({ pattern: MAIL_ADDRESS }))
  .meta({ example: "ada@example.com" });

export const NewPassword = z.string().max(PASSWORD_INPUT_MAX).meta({
  description: "8 to 128 characters with an uppercase letter, a lowercase letter and a number",
  example: "Engine-No-1",
});

/** What every sign-in answers with, without the user. */
export const SignedInBody = z.object({
  accessToken: z.string().meta({ description: "JWT for the header Authorization: Bearer" }),
  refreshToken: z.string().meta({ description: "For POST /auth/refresh; good once" }),
  tokenType: z.literal("Bearer"),
  expiresIn: z.int().meta({ description: "Seconds the access token lives" }),
});

/** Any text may be tried; how often is limited. */
export const CurrentPassword = z.string().max(PASSWORD_INPUT_MAX);

/** The answer of what has no record to show. */
export const Accepted = z.object({ accepted: z.literal(true) });
