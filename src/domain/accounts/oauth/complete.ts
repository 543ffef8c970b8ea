import { UniqueConstraintViolationException } from "@mikro-orm/core";
import type { Tokens } from "../auth/tokens.ts";
import { DomainError, invalid } from "../../kernel/errors.ts";
import { limitKeyOf } from "../rate-limits/ip-address.ts";
import type { Limiter } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { OAuthError } from "./errors.ts";
import { type Flow, consumeFlow } from "./flows.ts";
import { granted } from "./granted.ts";
import type { OAuthProvider, ProviderId, ProviderProfile } from "./provider.ts";
import { withParameters } from "./redirects.ts";
import { accountExists, resolveUser, type SignInParts } from "./sign-in.ts";
import { refusal } from "./start.ts";

export type CompleteParts = SignInParts & {
  transact: Transact;
  secretBox: SecretBox;
  tokens: Tokens;
  limiter: Limiter;
  /** Called with errors that the user cannot fix. */
  report: (failure: OAuthError) => void;
};

/** Parameters, cookie and origin with which the browser came back. */
export type FlowReturn = {
  id: ProviderId;
  answer: URLSearchParams;
  browser: string | undefined;
  ip: string;
};

/**
 * Completes a flow and returns the URL to redirect the browser to, with tokens, a code or an error.
 * @throws VALIDATION_ERROR OAUTH_STATE_INVALID while that URL is not known
 */
export const completeFlow = async (
  parts: CompleteParts,
  provider: OAuthProvider,
  { id, answer, browser, ip }: FlowReturn,
): Promise<string> => {
  const state = answer.get("state");
  if (state === null || browser === undefined) {
    const message = "the sign-in was started in another browser or at another URL of this server";
    throw invalid("state", message, "OAUTH_STATE_INVALID");
  }
  const { transact, secretBox } = parts;
  const { flow, handshake } = await transact((work) =>
    consumeFlow(work, secretBox, { provider: id, state, browser }),
  );
  try {
    if (flow.flow === "signup") await countSignUp(parts, ip);
    const profile = await provider.profileOf(answer, handshake);
    const parameters = await transact((work) => grant(work, parts, { flow, profile }));
    return withParameters(flow.redirectUri, parameters);
  } catch (error) {
    const failure = asOAuthError(error);
    if (failure.cause !== undefined) parts.report(failure);
    return refusal(flow.redirectUri, failure);
  }
};

/** Signing up through a provider counts as a registration, and so does a failed attempt. */
const countSignUp = async ({ limiter }: CompleteParts, ip: string): Promise<void> => {
  const { isAllowed } = await limiter.consume(LIMITS.registration, limitKeyOf(ip));
  if (isAllowed) return;
  throw new OAuthError(
    "rate_limited",
    "Too many accounts were registered from your address; try again later",
  );
};

const asOAuthError = (error: unknown): OAuthError => {
  if (error instanceof OAuthError) return error;
  // Two concurrent sign-ups of the same person: the other one created the account.
  if (error instanceof UniqueConstraintViolationException) return accountExists();
  if (error instanceof DomainError && error.reason === "SSO_REQUIRED")
    return new OAuthError("sso_required", error.message);
  return new OAuthError("server_error", "Something went wrong here; try again", error);
};

const grant = async (
  work: Work,
  parts: CompleteParts,
  arrival: { flow: Flow; profile: ProviderProfile },
): Promise<Record<string, string>> => {
  const { provider, responseMode } = arrival.flow;
  const { user, session } = await resolveUser(work, parts, arrival);
  return granted(work, parts.tokens, user, { by: provider, responseMode, session });
};
