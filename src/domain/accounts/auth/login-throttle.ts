import { createHash } from "node:crypto";
import { limitKeyOf } from "../rate-limits/ip-address.ts";
import {
  type Bucket,
  type Given,
  type Limiter,
  type LimitState,
  RateLimited,
} from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";

/** Wrong passwords for one account from one address before each further attempt must wait. */
export const FREE_FAILURES = 5;
export const LONGEST_WAIT_SECONDS = 60;

const DAY = 86_400;
/** A counter that is never exhausted: the waits below limit the attempts. */
const PAIR: Bucket = { name: "login-pair", points: 1_000_000, seconds: DAY };

export type ThrottleParts = { limiter: Limiter; clock: () => Date };

export type Guess = {
  ip: string;
  /** The account being guessed, whether it exists or not; lower case. */
  account: string;
  /** Returns the known origin of the attempt by an earlier sign-in; undefined for a stranger. */
  known(): Promise<string | undefined>;
};

/** Returns the seconds that the next attempt must wait after this many failures: 1, 2, 4 .. 60. */
const waitAfter = (failures: number): number =>
  failures < FREE_FAILURES ? 0 : Math.min(LONGEST_WAIT_SECONDS, 2 ** (failures - FREE_FAILURES));

const gate = (seconds: number): Bucket => ({ name: `login-wait-${seconds}`, points: 1, seconds });

const digest = (...parts: string[]): string =>
  createHash("sha256").update(parts.join("\n")).digest("base64url");

/**
 * Runs `check`, which verifies a password, within the limits of attempts. Failures count for the address over
 * all accounts; for the account and its origin, which then waits; and those of strangers for the account over
 * all addresses. Once strangers have exhausted that, only known origins pass: so guessing from ever new
 * addresses is as slow as from one, and the owner is not locked out. An attempt is counted before `check` and
 * refunded if it was right or was not made, so that concurrent attempts are no way around.
 *
 * @throws RateLimited LOGIN_THROTTLED without running `check`
 */
export const throttled = async (
  parts: ThrottleParts,
  guess: Guess,
  check: () => Promise<boolean>,
): Promise<boolean> => {
  const { limiter } = parts;
  const address = limitKeyOf(guess.ip);
  const counted: Given[] = [];
  const count = async (bucket: Bucket, key: string): Promise<void> => {
    const state = await limiter.consume(bucket, key);
    // Not refunded: concurrent attempts at the end of the window would add points to the next one.
    if (!state.isAllowed) throw refusal(parts, state);
    counted.push({ bucket, key, resetAtMs: state.resetAtMs });
  };
  let isRight = false;
  let pair: string | undefined;
  try {
    await count(LIMITS.loginFailures, address);
    const known = await guess.known();
    pair = digest(known ?? address, guess.account);
    counted.push(await enter(parts, pair));
    if (known === undefined) await count(LIMITS.loginAccount, digest(guess.account));
    isRight = await check();
    if (!isRight) counted.length = 0;
  } finally {
    await limiter.giveBack(counted);
  }
  if (isRight && pair !== undefined) await limiter.reset(PAIR, pair);
  return isRight;
};

/** Counts an attempt and starts the wait of the next one. @throws RateLimited while it must wait itself */
const enter = async (parts: ThrottleParts, pair: string): Promise<Given> => {
  const { limiter } = parts;
  const { used: known } = await limiter.read(PAIR, pair);
  if (waitAfter(known) > 0) {
    const now = await limiter.consume(gate(waitAfter(known)), pair);
    if (!now.isAllowed) throw refusal(parts, now);
  }
  // Closed before the attempt is counted, so that it is closed for whoever reads the new count.
  if (waitAfter(known + 1) > waitAfter(known)) await limiter.consume(gate(waitAfter(known + 1)), pair);
  const { used: failures, resetAtMs } = await limiter.consume(PAIR, pair);
  const given = { bucket: PAIR, key: pair, resetAtMs };
  if (failures <= known + 1 || waitAfter(failures - 1) === 0) return given;
  // Others went ahead since the count was read.
  await limiter.giveBack([given]);
  throw refusal(parts, await limiter.consume(gate(waitAfter(failures - 1)), pair));
};

const refusal = ({ clock }: ThrottleParts, state: LimitState): RateLimited =>
  new RateLimited(
    "LOGIN_THROTTLED",
    "Too many wrong passwords; wait as long as Retry-After says",
    state,
    clock().getTime(),
  );
