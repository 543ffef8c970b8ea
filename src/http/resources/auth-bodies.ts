import { z } from "zod";
import type { LoggedIn } from "../../domain/accounts/auth/sessions.ts";
import { ROLES } from "../../domain/kernel/caller.ts";
import { EmailAddress } from "../../domain/accounts/email/address.ts";
import { Reply } from "../route.ts";

/** Longer input is not even hashed; the rules for new passwords are the domain's. */
export const PASSWORD_INPUT_MAX = 512;
/** Maximum length of tokens in a body. */
export const TOKEN_INPUT_MAX = 4_096;

/** The header by which an account recognises a device that has signed in before. */
export const DEVICE_TOKEN = "X-Device-Token";

/** Builds the response to a sign-in, with the token of its device, if there is one. */
export const signedInReply = <U>(
  { signedIn, deviceToken }: Partial<LoggedIn<U>> & Pick<LoggedIn<U>, "signedIn">,
  status = 200,
): Reply<LoggedIn<U>["signedIn"]> =>
  new Reply(status, signedIn, deviceToken === undefined ? {} : { [DEVICE_TOKEN]: deviceToken });

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
