import { createHash } from "node:crypto";
import type { DomainError } from "../../kernel/errors.ts";
import { limitKeyOf } from "../rate-limits/ip-address.ts";
import { type Bucket, type Given, type Limiter, RateLimited } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";

export type AttemptParts = { limiter: Limiter; clock: () => Date };

/** Who tries. `known`: the origin of an earlier sign-in, or the session; undefined for a stranger. */
export type Attempt = { ownerId: string; ip: string; known: string | undefined };

/** Thrown for a factor that is not right: the attempt counts, and nothing else of it stays. */
export class WrongFactor extends Error {}

const keyOf = ({ ownerId, known }: Attempt): string =>
  createHash("sha256")
    .update(`${ownerId}\n${known ?? "strangers"}`)
    .digest("base64url");

/**
 * Runs `check` within the limits of attempts: of the address, over all accounts and with wrong passwords; and
 * for a code, which can be guessed, of the account. There each known origin has a limit of its own, so that
 * strangers who have the password do not lock the owner out. An attempt is counted before `check`, and
 * refunded unless it was wrong, so that concurrent attempts are no way around.
 *
 * @throws RateLimited LOGIN_THROTTLED without running `check`
 */
export const withinAttempts = async <T>(
  { limiter, clock }: AttemptParts,
  attempt: Attempt & { isGuess: boolean },
  check: () => Promise<T>,
): Promise<T> => {
  const key = keyOf(attempt);
  const ofAccount: [Bucket, string][] = attempt.isGuess
    ? [
        [LIMITS.mfaFailures, key],
        [LIMITS.mfaDay, key],
      ]
    : [];
  const counted: Given[] = [];
  let isWrong = false;
  try {
    for (const [bucket, of] of [[LIMITS.loginFailures, limitKeyOf(attempt.ip)] as const, ...ofAccount]) {
      const state = await limiter.consume(bucket, of);
      if (!state.isAllowed) {
        const message = "Too many wrong codes; wait as long as Retry-After says";
        throw new RateLimited("LOGIN_THROTTLED", message, state, clock().getTime());
      }
      counted.push({ bucket, key: of, resetAtMs: state.resetAtMs });
    }
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
