import { type SignedIn, startSession } from "../auth/sessions.ts";
import type { Session, SignInMethod } from "../auth/session.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { User } from "../auth/user.ts";
import { challengeFor } from "../mfa/sign-in.ts";
import type { Work } from "../../kernel/work.ts";
import { type CodeIssuer, issueCode } from "./codes.ts";
import { goOn } from "./going-on.ts";
import type { ResponseMode } from "./flows.ts";
import { methodOf } from "./sign-in.ts";

/** A refresh token sent in a URL must be exchanged for another within this time. */
export const REFRESH_IN_ADDRESS_SECONDS = 300;

/** How somebody signed in. `session`: the one that goes on, of somebody who only linked a provider. */
type Grant = { by: CodeIssuer; responseMode: ResponseMode; session?: Session | undefined };

/**
 * Returns the parameters with which the browser of somebody who signed in goes back: tokens, or a code.
 * @throws FORBIDDEN SSO_REQUIRED
 */
export const granted = async (
  work: Work,
  tokens: Tokens,
  user: User,
  { by, responseMode, session }: Grant,
): Promise<Record<string, string>> => {
  if (responseMode === "code") return { code: await issueCode(work, user, by, session) };
  const method = methodOf(by);
  const refreshUntil = new Date(work.now.getTime() + REFRESH_IN_ADDRESS_SECONDS * 1_000);
  if (session) return inAddress(await goOn(work, tokens, { user, session, refreshUntil }));
  if (user.mfaEnabled) return challenged(work, tokens, user, method);
  return inAddress(await startSession(work, tokens, user, { method, refreshUntil }));
};

const inAddress = (signedIn: SignedIn): Record<string, string> => ({
  access_token: signedIn.accessToken,
  refresh_token: signedIn.refreshToken,
  token_type: signedIn.tokenType,
  expires_in: String(signedIn.expiresIn),
});

/** An error of which the page makes a question for the code, with what it sends along. */
const challenged = async (
  work: Work,
  tokens: Tokens,
  row: User,
  method: SignInMethod,
): Promise<Record<string, string>> => {
  const { token, methods } = await challengeFor(work, tokens, { kind: "user", row }, method);
  return {
    error: "mfa_required",
    error_description: "This account has a second factor: send challenge_token to POST /auth/login/mfa",
    challenge_token: token,
    challenge_methods: methods.join(","),
  };
};
