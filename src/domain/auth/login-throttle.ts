import { createHash } from "node:crypto";
import { limitKeyOf } from "../rate-limits/ip-address.ts";
import { type Bucket, type Limiter, type LimitState, RateLimited } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";

/** Wrong passwords for one account from one address before each further try has to wait. */
export const FREE_FAILURES = 5;
export const LONGEST_WAIT_SECONDS = 60;

const DAY = 86_400;
/** Counted and never used up: the waits below do the limiting. */
const PAIR: Bucket = { name: "login-pair", points: 1_000_000, seconds: DAY };
/** Failures for one account from all addresses; beyond these an address waits from its first one on. */
const ACCOUNT: Bucket = { name: "login-account", points: 100, seconds: 900 };

export type ThrottleParts = { limiter: Limiter; clock: () => Date };

/** `account`: what is guessed at, whether it exists or not; lower case. */
export type Guess = { ip: string; account: string };

/** Seconds that the next try has to wait after so many failures: 1, 2, 4 .. 60. */
const waitAfter = (failures: number): number =>
  failures < FREE_FAILURES ? 0 : Math.min(LONGEST_WAIT_SECONDS, 2 ** (failures - FREE_FAILURES));

const gate = (seconds: number): Bucket => ({ name: `login-wait-${seconds}`, points: 1, seconds });

const digest = (...parts: string[]): string =>
  createHash("sha256").update(parts.join("\n")).digest("base64url");

/**
 * Runs `check`, which tells whether a password is right, as often as its guesser may. Failures count for the
 * pair of address and account, so nobody is locked out from elsewhere, and for the address over all accounts.
 * A try is counted before `check` and taken back if it was right or was not made, so that many at once are no
 * way around.
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
  const [pair, account] = [digest(address, guess.account), digest(guess.account)];
  const byAddress = await limiter.consume(LIMITS.loginFailures, address);
  if (!byAddress.isAllowed) throw refusal(parts, byAddress);
  const takeBack = () => limiter.consume(LIMITS.loginFailures, address, -1);
  await enter(parts, pair, account).catch(async (error: unknown) => {
    await takeBack();
    throw error;
  });
  let isRight: boolean;
  try {
    isRight = await check();
  } catch (error) {
    await Promise.all([takeBack(), limiter.consume(PAIR, pair, -1)]);
    throw error;
  }
  if (isRight) await Promise.all([takeBack(), limiter.reset(PAIR, pair)]);
  else await limiter.consume(ACCOUNT, account);
  return isRight;
};

/** Counts a try and starts the wait of the one after it. @throws RateLimited while it has to wait itself */
const enter = async (parts: ThrottleParts, pair: string, account: string): Promise<void> => {
  const { limiter } = parts;
  const [before, onAccount] = await Promise.all([limiter.read(PAIR, pair), limiter.read(ACCOUNT, account)]);
  const wait = (failures: number) =>
    onAccount.remaining === 0 && failures > 0 ? LONGEST_WAIT_SECONDS : waitAfter(failures);
  const known = before.used;
  if (wait(known) > 0) {
    const now = await limiter.consume(gate(wait(known)), pair);
    if (!now.isAllowed) throw refusal(parts, now);
  }
  // Closed before the try is counted: whoever reads the new count finds it closed.
  if (wait(known + 1) > wait(known)) await limiter.consume(gate(wait(known + 1)), pair);
  const { used: failures } = await limiter.consume(PAIR, pair);
  if (failures <= known + 1 || wait(failures - 1) === 0) return;
  // Others went ahead since the count was read.
  await limiter.consume(PAIR, pair, -1);
  throw refusal(parts, await limiter.consume(gate(wait(failures - 1)), pair));
};

const refusal = ({ clock }: ThrottleParts, state: LimitState): RateLimited =>
  new RateLimited(
    "LOGIN_THROTTLED",
    "Too many wrong passwords; wait as long as Retry-After says",
    state,
    clock().getTime(),
  );
