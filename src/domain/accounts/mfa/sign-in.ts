import { createHash } from "node:crypto";
import { consumeId } from "../auth/one-time-secrets.ts";
import { type SignedIn, startSession } from "../auth/sessions.ts";
import { findKnownAddress, type MfaClaims, type SignInMethod, type Tokens } from "../auth/tokens.ts";
import type { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { methodsOf, recordChange, useRecoveryCode } from "./factors.ts";
import { type FactorOwner, findOwner, type OwnerRef, readOwner, useTotp } from "./owner.ts";
import {
  type Assertion,
  type PasskeyParts,
  type ProvedPasskey,
  provePasskey,
  usePasskey,
} from "./passkeys.ts";
import { type CountingParts, LIMITS, RateLimited } from "../rate-limits/limiter.ts";
import { limitKeyOf } from "../../kernel/networks.ts";
import { holdIdp, tellOfBreakGlass } from "../sso/enforcement.ts";
import { type Challenge, DomainError, invalid, unauthorized } from "../../kernel/errors.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** Who tries. `known`: the address of an earlier sign-in, or the session; undefined for a stranger. */
type Attempt = { ownerId: string; ip: string; known: string | undefined };

/** Thrown for a factor that is not right: the attempt counts, and nothing else of it stays. */
export class WrongFactor extends Error {}
export const WRONG_FACTOR = "The code is wrong or was used before, or the passkey is not valid";

const keyOf = ({ ownerId, known }: Attempt): string =>
  createHash("sha256")
    .update(`${ownerId}\n${known ?? "strangers"}`)
    .digest("base64url");

/**
 * Runs `check` within the limits of attempts: of the address, over all accounts and with wrong passwords; and
 * for a code, which can be guessed, of the account. There each known address has a limit of its own, so that
 * strangers who have the password do not lock the owner out. An attempt is counted before `check`, and
 * refunded unless it was wrong, so that concurrent attempts are no way around.
 *
 * @throws RateLimited LOGIN_THROTTLED without running `check`
 */
export const withinAttempts = async <T>(
  { limiter, clock }: CountingParts,
  attempt: Attempt & { isGuess: boolean },
  check: () => Promise<T>,
): Promise<T> => {
  const ofAccount = attempt.isGuess ? [LIMITS.mfaFailures, LIMITS.mfaDay] : [];
  const counts = [
    { bucket: LIMITS.loginFailures, key: limitKeyOf(attempt.ip) },
    ...ofAccount.map((bucket) => ({ bucket, key: keyOf(attempt) })),
  ];
  const states = await limiter.consumeInTurn(counts);
  const refused = states.find(({ isAllowed }) => !isAllowed);
  const counted = states
    .filter(({ isAllowed }) => isAllowed)
    .map(({ resetAtMs }, index) => ({ ...counts[index]!, resetAtMs }));
  let isWrong = false;
  try {
    if (refused) throw new RateLimited("LOGIN_THROTTLED", "Too many wrong codes", refused, clock().getTime());
    return await check();
  } catch (error) {
    isWrong = error instanceof WrongFactor;
    throw error;
  } finally {
    if (!isWrong) await limiter.giveBack(counted);
  }
};

/** Runs `check` and replaces WrongFactor by `refusal`. */
export const orRefuse = async <T>(check: () => Promise<T>, refusal: () => DomainError): Promise<T> => {
  try {
    return await check();
  } catch (error) {
    throw error instanceof WrongFactor ? refusal() : error;
  }
};

/** What a caller proves a second factor with: a code of the app or a recovery code, or a passkey. */
export type GivenFactor = { code?: string | undefined; passkey?: Assertion | undefined };

/** `accounts` sees the accounts of all tenants. */
export type ProofParts = CountingParts &
  PasskeyParts & { transact: Transact; secretBox: SecretBox; mail: Mail };

/** @throws VALIDATION_ERROR unless one of them is given */
const requireGiven = ({ code, passkey }: GivenFactor): void => {
  if (code === undefined && passkey === undefined) throw invalid("code", "is needed, or passkey instead");
  if (code !== undefined && passkey !== undefined) throw invalid("passkey", "must not come with code");
};

/** Whose factor it is, and from where it is proved. */
type Prover = { owner: OwnerRef; ip: string; known: string | undefined };

/**
 * Proves the second factor of an account within the limits of attempts, and runs `then` in the transaction
 * that uses the code or passkey up: it fails or succeeds with that.
 *
 * @throws WrongFactor, RateLimited LOGIN_THROTTLED, VALIDATION_ERROR, UNAUTHORIZED SESSION_REVOKED
 */
export const proveFactor = async <T>(
  parts: ProofParts,
  { owner: ref, ip, known }: Prover,
  given: GivenFactor,
  then: (work: Work, owner: FactorOwner) => Promise<T>,
): Promise<T> => {
  requireGiven(given);
  const { code, passkey } = given;
  const attempt = { ownerId: ref.id, ip, known, isGuess: code !== undefined };
  return withinAttempts(parts, attempt, async () => {
    // In the caller's own scope first: passkeys and challenges are looked up where every account is seen.
    if (passkey) await parts.transact((work) => readOwner(work, ref));
    const proved = passkey && (await provePasskey(parts, passkey));
    return parts.transact(async (work) => {
      const owner = await readOwner(work, ref, true);
      const isRight =
        code === undefined
          ? await isPasskeyOf(work, owner, proved)
          : await isCodeOf(work, parts, owner, code);
      if (!isRight) throw new WrongFactor();
      return then(work, owner);
    });
  });
};

/** Uses a proved passkey up, if it is the account's. */
const isPasskeyOf = async (
  work: Work,
  owner: FactorOwner,
  proved: ProvedPasskey | undefined,
): Promise<boolean> =>
  proved !== undefined && proved.owner.kind === owner.kind && (await usePasskey(work, owner, proved));

/** Uses a code up: six digits are of the app, anything else may be a recovery code. */
const isCodeOf = async (
  work: Work,
  { secretBox, mail }: ProofParts,
  owner: FactorOwner,
  code: string,
): Promise<boolean> => {
  const digits = code.replaceAll(/\s/g, "");
  if (/^\d{6}$/.test(digits)) return useTotp(work, secretBox, owner, digits);
  if (!(await useRecoveryCode(work, owner, code))) return false;
  await recordChange(work, mail, owner, { change: "RECOVERY_CODE_USED" });
  return true;
};

/** A sign-in: a session, or what it still needs. */
export type SignInOutcome = SignedIn | { challenge: Challenge };

/**
 * Returns what must not change between a password, or the identity provider that stands for it, and the second
 * factor: else the sign-in begins anew.
 */
const stateNow = async (
  work: Work,
  tokens: Tokens,
  { kind, row }: FactorOwner,
  method: MfaClaims["method"],
): Promise<string> => {
  const version = kind === "admin" ? row.sessionVersion : 0;
  const idp = (kind === "user" && method === "SSO" && (await holdIdp(work, row.tenantId))) || "";
  return tokens.mac(["state", kind, row.id, row.email, row.passwordHash ?? "", version, idp].join("\n"));
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
  method: SignInMethod,
): Promise<SignInOutcome> =>
  user.mfaEnabled
    ? { challenge: await challengeFor(work, tokens, { kind: "user", row: user }, method) }
    : startSession(work, tokens, user, { method });

/** Builds the error for a sign-in that lacks its second factor. */
export const mfaRequired = (challenge: Challenge): DomainError =>
  new DomainError(
    "UNAUTHORIZED",
    "This account has a second factor: send challenge.token with a code or a passkey, within 5 minutes",
    { reason: "MFA_REQUIRED", challenge },
  );

/** Returns the session. @throws UNAUTHORIZED MFA_REQUIRED */
export const orChallenge = (outcome: SignInOutcome): SignedIn => {
  if ("challenge" in outcome) throw mfaRequired(outcome.challenge);
  return outcome;
};

const challengeIsOver = (): DomainError =>
  unauthorized("MFA_CHALLENGE_INVALID", "The challenge is unknown, was used or has ended; log in again");

const wrongFactor = (): DomainError => unauthorized("MFA_CODE_INVALID", WRONG_FACTOR);

/** A proof, and the challenge that it answers. */
export type ChallengeAnswer = GivenFactor & { challengeToken: string; ip: string };

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
  { challengeToken, ip, ...given }: ChallengeAnswer,
  then: (work: Work, owner: FactorOwner, claims: MfaClaims) => Promise<T>,
): Promise<T> => {
  const { tokens, transact } = parts;
  requireGiven(given);
  const claims = await readChallenge(tokens, challengeToken, kind);
  const ref = { kind, id: claims.sub };
  const known = await transact(async (work) => {
    const { email } = (await requireState(work, tokens, await findOwner(work, ref), claims)).row;
    return findKnownAddress(work, tokens, { accounts: ACCOUNTS[kind], email, ip });
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
export const completeLogin = (parts: ProofParts, answer: ChallengeAnswer): Promise<SignedIn> =>
  answerChallenge(parts, "user", answer, async (work, owner, { method }) => {
    if (owner.kind !== "user") throw challengeIsOver();
    return beginProved(work, parts, owner.row, method);
  });

const beginProved = async (
  work: Work,
  { mail, tokens }: ProofParts,
  user: User,
  method: SignInMethod,
): Promise<SignedIn> => {
  await tellOfBreakGlass(work, mail, user, method);
  return startSession(work, tokens, user, { method, mfaAt: work.now });
};

/**
 * Signs a user in by a passkey alone: their device has verified them, so it is both factors.
 * @throws UNAUTHORIZED PASSKEY_INVALID, RateLimited LOGIN_THROTTLED
 */
export const loginWithPasskey = (
  parts: ProofParts,
  { credential, ip }: { credential: Assertion; ip: string },
): Promise<SignedIn> => {
  const attempt = { ownerId: "", ip, known: undefined, isGuess: false };
  const logIn = async (): Promise<SignedIn> => {
    const proved = await provePasskey(parts, credential);
    if (proved?.owner.kind !== "user") throw new WrongFactor();
    return parts.transact(async (work) => {
      const owner = await findOwner(work, proved.owner, true);
      if (owner?.kind !== "user" || !(await usePasskey(work, owner, proved))) throw new WrongFactor();
      return beginProved(work, parts, owner.row, "PASSKEY");
    });
  };
  const message = "The passkey is unknown or not valid, or answers a challenge that was used or has ended";
  return orRefuse(
    () => withinAttempts(parts, attempt, logIn),
    () => unauthorized("PASSKEY_INVALID", message),
  );
};
