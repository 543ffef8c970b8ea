import { consumeId } from "../auth/consumed-ids.ts";
import { findKnownOrigin, type Origin } from "../auth/known-origins.ts";
import type { SignInMethod } from "../auth/session.ts";
import { type LoggedIn, startSessionOn } from "../auth/sessions.ts";
import type { MfaClaims, Tokens } from "../auth/tokens.ts";
import type { User } from "../auth/user.ts";
import { type Challenge, DomainError, unauthorized } from "../../kernel/errors.ts";
import { tellOfBreakGlass } from "../sso/break-glass.ts";
import { holdIdp } from "../sso/enforcement.ts";
import type { Work } from "../../kernel/work.ts";
import { orRefuse, withinAttempts, WrongFactor } from "./attempts.ts";
import { methodsOf } from "./factors.ts";
import { findOwner, type FactorOwner, type OwnerRef, stateOf } from "./owner.ts";
import { provePasskey, usePasskey } from "./passkeys.ts";
import type { Assertion } from "./passkey-verifier.ts";
import { type GivenFactor, type ProofParts, proveFactor, requireGiven } from "./proof.ts";

/** A sign-in: a session, or what it still needs. */
export type SignInOutcome = LoggedIn | { challenge: Challenge };

/** Returns what must stay as it is until the second factor: also through whom an account signs in. */
const stateNow = async (
  work: Work,
  tokens: Tokens,
  owner: FactorOwner,
  method: MfaClaims["method"],
): Promise<string> => {
  const idp = owner.kind === "user" && method === "SSO" ? await holdIdp(work, owner.row.tenantId) : undefined;
  return stateOf(tokens, owner, idp);
};

/** Returns with what the sign-in of an account goes on that has a second factor. */
export const challengeFor = async (
  work: Work,
  tokens: Tokens,
  owner: FactorOwner,
  method: SignInMethod,
): Promise<Challenge> => {
  const state = await stateNow(work, tokens, owner, method);
  const claims = { sub: owner.row.id, as: owner.kind, method, state };
  const { token, expiresAt } = await tokens.signMfa(claims);
  return { token, expiresAt: expiresAt.toISOString(), methods: await methodsOf(work, owner) };
};

/** Starts a session of a user, unless they have a second factor, which they must prove first. */
export const signInOrChallenge = async (
  work: Work,
  tokens: Tokens,
  user: User,
  { method, deviceToken }: { method: SignInMethod; deviceToken: string },
): Promise<SignInOutcome> =>
  user.mfaEnabled
    ? { challenge: await challengeFor(work, tokens, { kind: "user", row: user }, method) }
    : startSessionOn(work, tokens, user, { method, deviceToken });

/** Builds the error for a sign-in that lacks its second factor. */
export const mfaRequired = (challenge: Challenge): DomainError =>
  new DomainError(
    "UNAUTHORIZED",
    "This account has a second factor: send challenge.token with a code or a passkey, within 5 minutes",
    { reason: "MFA_REQUIRED", challenge },
  );

/** Returns the session. @throws UNAUTHORIZED MFA_REQUIRED */
export const orChallenge = (outcome: SignInOutcome): LoggedIn => {
  if ("challenge" in outcome) throw mfaRequired(outcome.challenge);
  return outcome;
};

const challengeIsOver = (): DomainError =>
  unauthorized("MFA_CHALLENGE_INVALID", "The challenge is unknown, was used or has ended; log in again");

const wrongFactor = (): DomainError =>
  unauthorized("MFA_CODE_INVALID", "The code is wrong or was used before, or the passkey is not valid");

/** A proof, and the challenge that it answers. */
export type ChallengeAnswer = GivenFactor & { challengeToken: string };

const readChallenge = async (tokens: Tokens, text: string, kind: OwnerRef["kind"]): Promise<MfaClaims> => {
  try {
    const claims = await tokens.verifyMfa(text);
    if (claims.as === kind) return claims;
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
  }
  throw challengeIsOver();
};

/** What the challenge says of the account must still be so. @throws UNAUTHORIZED MFA_CHALLENGE_INVALID */
const requireState = async (
  work: Work,
  tokens: Tokens,
  owner: FactorOwner | undefined,
  { state, method }: MfaClaims,
): Promise<FactorOwner> => {
  if (owner?.row.mfaEnabled === true && (await stateNow(work, tokens, owner, method)) === state) return owner;
  throw challengeIsOver();
};

const ACCOUNTS = { user: "users", admin: "platform_admins" } as const;

/**
 * Proves the second factor of a sign-in, and runs `then` in the transaction that uses it and the challenge
 * up. @throws UNAUTHORIZED MFA_CHALLENGE_INVALID, MFA_CODE_INVALID, RateLimited LOGIN_THROTTLED
 */
export const answerChallenge = async <T>(
  parts: ProofParts,
  kind: OwnerRef["kind"],
  { challengeToken, deviceToken, ip, ...given }: ChallengeAnswer & Origin,
  then: (work: Work, owner: FactorOwner, claims: MfaClaims) => Promise<T>,
): Promise<T> => {
  const { tokens, transact } = parts;
  requireGiven(given);
  const claims = await readChallenge(tokens, challengeToken, kind);
  const ref = { kind, id: claims.sub };
  const known = await transact(async (work) => {
    const { email } = (await requireState(work, tokens, await findOwner(work, ref), claims)).row;
    return findKnownOrigin(work, tokens, { accounts: ACCOUNTS[kind], email, ip, deviceToken });
  });
  const answer = () =>
    proveFactor(parts, { owner: ref, ip, known }, given, async (work, owner) => {
      await requireState(work, tokens, owner, claims);
      const once = { kind: "mfa", id: claims.jti, expiresAt: new Date(claims.exp * 1_000) } as const;
      if (!(await consumeId(work, once))) throw challengeIsOver();
      return then(work, owner, claims);
    });
  return orRefuse(answer, wrongFactor);
};

/** Completes a user's sign-in. @throws as `answerChallenge` */
export const completeLogin = (parts: ProofParts, answer: ChallengeAnswer & Origin): Promise<LoggedIn> =>
  answerChallenge(parts, "user", answer, async (work, owner, { method }) => {
    if (owner.kind !== "user") throw challengeIsOver();
    const { deviceToken } = answer;
    await tellOfBreakGlass(work, parts.mail, owner.row, method);
    return startSessionOn(work, parts.tokens, owner.row, { method, deviceToken, mfaAt: work.now });
  });

/**
 * Signs a user in by a passkey alone: their device has verified them, so it is both factors.
 * @throws UNAUTHORIZED PASSKEY_INVALID, RateLimited LOGIN_THROTTLED
 */
export const loginWithPasskey = (
  parts: ProofParts,
  { credential, ip, deviceToken }: Origin & { credential: Assertion },
): Promise<LoggedIn> => {
  const attempt = { ownerId: "", ip, known: undefined, isGuess: false };
  const logIn = async (): Promise<LoggedIn> => {
    const proved = await provePasskey(parts, credential);
    if (proved?.owner.kind !== "user") throw new WrongFactor();
    return parts.transact(async (work) => {
      const owner = await findOwner(work, proved.owner, true);
      if (owner?.kind !== "user" || !(await usePasskey(work, owner, proved))) throw new WrongFactor();
      const start = { method: "PASSKEY", deviceToken, mfaAt: work.now } as const;
      await tellOfBreakGlass(work, parts.mail, owner.row, start.method);
      return startSessionOn(work, parts.tokens, owner.row, start);
    });
  };
  const message = "The passkey is unknown or not valid, or answers a challenge that was used or has ended";
  return orRefuse(
    () => withinAttempts(parts, attempt, logIn),
    () => unauthorized("PASSKEY_INVALID", message),
  );
};
