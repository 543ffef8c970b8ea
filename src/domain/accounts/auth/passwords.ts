import { createHash } from "node:crypto";
import { hash as argonHash, type Options, verify as argonVerify } from "@node-rs/argon2";
import type { User } from "./user.ts";
import {
  type Bucket,
  type CountingParts,
  type Given,
  LIMITS,
  type LimitState,
  RateLimited,
} from "../rate-limits/limiter.ts";
import { limitKeyOf } from "../../kernel/networks.ts";
import { DomainError, type FieldProblem, forbidden } from "../../kernel/errors.ts";
import { BUSY } from "../../kernel/outages.ts";
import { Bulkhead } from "../../kernel/bulkhead.ts";
import type { Transact } from "../../kernel/work.ts";

/**
 * The words that remain of common passwords of leaked lists that satisfy the rules, without digits and signs:
 * "Passw0rd!", "Welcome1" and "Qwerty123" all reduce to words of this list. It is not one of the lists
 * themselves.
 */
const WORDS = new Set(
  (
    "a aa aaa aaaa abc abcd abcde abcdef abcdefg abcdefgh access admin administrator adminadmin asd asdasd " +
    "asdf asdfg asdfgh asdfghjkl azerty baseball batman changeit changeme charlie chocolate computer " +
    "daniel default demo dragon facebook flower football freedom google guest hallo hello hockey hunter " +
    "iloveyou internet jennifer jessica jordan killer laurel letmein liverpool login love lovely loveme " +
    "master michael michelle monkey mypassword nicole ninja parola pass passe passwd passwort password " +
    "passwordpassword pokemon princess q qaz qazwsx qazwsxedc qq qwe qweasd qweasdzxc qweqwe qwer qwert " +
    "qwerty qwertyuiop qwertz root secret shadow soccer starwars summer autumn winter spring sunshine " +
    "superman temp temporary test tester testing testtest trustno user welcome whatever zaq zaqxsw zxc " +
    "zxcvbn zxcvbnm"
  ).split(" "),
);

const LEET: Readonly<Record<string, string>> = {
  "0": "o",
  "1": "i",
  "3": "e",
  "4": "a",
  "5": "s",
  "7": "t",
  "@": "a",
  $: "s",
  "!": "i",
};

/** Digits and signs; emoji are not among them, since attackers do not try those first. */
const SIGNS = String.raw`[\p{Nd}\p{P}\p{Sc}\p{Sk}\p{Sm}\s]`;
const ALL_SIGNS = new RegExp(SIGNS, "gu");
const OUTER_SIGNS = new RegExp(`^${SIGNS}+|${SIGNS}+$`, "gu");

const lettersOf = (text: string): string => text.toLowerCase().replace(ALL_SIGNS, "");

/** Digits and signs at both ends are removed; those inside stand for letters. */
const unleeted = (text: string): string =>
  lettersOf(text.replace(OUTER_SIGNS, "").replace(/[013457@$!]/g, (sign) => LEET[sign] ?? sign));

/**
 * Returns whether a password is one of the `known` words (a name, an address) or a common one, with digits
 * and signs around it.
 */
export const isGuessable = (password: string, known: readonly string[]): boolean => {
  const words = new Set(known.map(lettersOf).filter((word) => word !== ""));
  return [lettersOf(password), unleeted(password)].some((core) => WORDS.has(core) || words.has(core));
};

/** Wrong passwords for one account before each further attempt must wait. */
const FREE_FAILURES = 5;
/** The longest wait in seconds: of an address that the account knows, and of all others together. */
const LONGEST_WAIT = { known: 60, stranger: 360 };

/** A counter that is never exhausted: the waits limit the attempts. */
const FAILURES: Bucket = { name: "login-failures", points: 1_000_000, seconds: 86_400 };
/** Of concurrent attempts one gets through; the next one may begin when this window has ended. */
const waitOf = (seconds: number): Bucket => ({ name: "login-wait", points: 1, seconds });

export type Guess = {
  ip: string;
  /** The account being guessed, whether it exists or not; lower case. */
  account: string;
  /** Returns the address of an earlier sign-in, if it is that, or the session; undefined for a stranger. */
  known(): Promise<string | undefined>;
};

/** Returns the seconds that the next attempt must wait after this many failures: 1, 2, 4 .. */
const waitAfter = (failures: number, longest: number): number =>
  failures < FREE_FAILURES ? 0 : Math.min(longest, 2 ** (failures - FREE_FAILURES));

const digest = (...parts: string[]): string =>
  createHash("sha256").update(parts.join("\n")).digest("base64url");

/**
 * Runs `check`, which verifies a password, within the limits of attempts. Failures count for the address over
 * all accounts; and for the account, where each known address has a counter of its own and all strangers one:
 * so guessing from ever new addresses is as slow as from one, and the owner is not locked out. An attempt is
 * counted before `check` and refunded if it was right or was not made, so that concurrent attempts are no way
 * around.
 *
 * @throws RateLimited LOGIN_THROTTLED without running `check`
 */
export const throttled = async (
  parts: CountingParts,
  guess: Guess,
  check: () => Promise<boolean>,
): Promise<boolean> => {
  const { limiter } = parts;
  const counted: Given[] = [];
  const count = async (bucket: Bucket, key: string): Promise<number> => {
    const state = await limiter.consume(bucket, key);
    // Not refunded: concurrent attempts at the end of the window would add points to the next one.
    if (!state.isAllowed) throw refusal(parts, state);
    counted.push({ bucket, key, resetAtMs: state.resetAtMs });
    return state.used;
  };
  let isRight = false;
  let own: string | undefined;
  try {
    await count(LIMITS.loginFailures, limitKeyOf(guess.ip));
    const known = await guess.known();
    const key = digest(known ?? "strangers", guess.account);
    const failures = await count(FAILURES, key);
    const seconds = waitAfter(failures, known === undefined ? LONGEST_WAIT.stranger : LONGEST_WAIT.known);
    if (seconds > 0) {
      const turn = await limiter.consume(waitOf(seconds), key);
      if (!turn.isAllowed) throw refusal(parts, turn);
    }
    if (known !== undefined) own = key;
    isRight = await check();
    if (!isRight) counted.length = 0;
  } finally {
    await limiter.giveBack(counted);
  }
  if (isRight && own !== undefined) for (const one of [FAILURES, waitOf(1)]) await limiter.reset(one, own);
  return isRight;
};

const refusal = ({ clock }: CountingParts, state: LimitState): RateLimited =>
  new RateLimited("LOGIN_THROTTLED", "Too many wrong passwords", state, clock().getTime());

export type Passwords = {
  /** Returns a PHC string. @throws SERVICE_UNAVAILABLE while too many hashes wait */
  hash(password: string): Promise<string>;
  /** Returns false also for a malformed hash. @throws SERVICE_UNAVAILABLE while too many hashes wait */
  verify(hash: string, password: string): Promise<boolean>;
};

/** OWASP's minimum for argon2id, which is this library's default algorithm: 19 MiB, two passes, one lane. */
export type PasswordCost = Required<Pick<Options, "memoryCost" | "timeCost" | "parallelism">>;
const COST: PasswordCost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
/** Maximum concurrent hashes, each of which takes 19 MiB and one thread of the pool. */
export const HASHES_AT_ONCE_MAX = 8;
/** Maximum waiting hashes; they wait for less than a second. */
export const HASHES_WAITING_MAX = 64;

const PASSWORD_MIN_CHARACTERS = 8;
const PASSWORD_MAX_CHARACTERS = 128;
const PASSWORD_MAX_BYTES = 512;

/**
 * A hash of the same cost that no password has: verified for unknown users, so that both cases take equally
 * long.
 */
export const DUMMY_HASH =
  "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5cyBzYWx0ISEhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

const tooMany = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "Too many logins at the same time; try again in a second", {
    reason: BUSY,
    retryAfterSeconds: 1,
  });

/** Hashes with argon2id over the NFKC form, so that a password is the same from every keyboard. */
export const createPasswords = (cost: PasswordCost = COST): Passwords => {
  const slots = new Bulkhead({
    ofAll: { slots: HASHES_AT_ONCE_MAX, waiting: HASHES_WAITING_MAX },
    refusal: tooMany,
  });
  return {
    hash: (password) => slots.run("", () => argonHash(password.normalize("NFKC"), cost)),
    verify: (hash, password) =>
      slots.run("", () => argonVerify(hash, password.normalize("NFKC")).catch(() => false)),
  };
};

const RULES: readonly (readonly [RegExp, string])[] = [
  [/\p{Lu}/u, "must contain an uppercase letter"],
  [/\p{Ll}/u, "must contain a lowercase letter"],
  [/\p{Nd}/u, "must contain a number"],
];

/** The user of a new password. */
type PasswordOwner = { email: string; name: string };

/** Returns the problems of a new password, one for each broken rule; empty when it is valid. */
export const passwordProblems = (
  password: string,
  { email, name }: PasswordOwner,
  field = "password",
): FieldProblem[] => {
  const text = password.normalize("NFKC");
  const length = [...text].length;
  const messages: string[] = [];
  if (length < PASSWORD_MIN_CHARACTERS)
    messages.push(`must have at least ${PASSWORD_MIN_CHARACTERS} characters`);
  if (length > PASSWORD_MAX_CHARACTERS || Buffer.byteLength(text) > PASSWORD_MAX_BYTES) {
    messages.push(`must have at most ${PASSWORD_MAX_CHARACTERS} characters`);
  }
  for (const [pattern, message] of RULES) if (!pattern.test(text)) messages.push(message);
  const guess = guessProblem(text, { email, name });
  // If another rule is broken, this one adds nothing.
  if (guess !== undefined && messages.length === 0) messages.push(guess);
  return messages.map((message) => ({ field, message }));
};

const guessProblem = (text: string, { email, name }: PasswordOwner): string | undefined => {
  if ([email, name].some((known) => known.toLowerCase() === text.toLowerCase())) {
    return "must not be the email address or the name";
  }
  const known = [email.split("@")[0] ?? "", name, ...name.split(" ")];
  if (!isGuessable(text, known)) return undefined;
  return "must not be a common word or a part of your name or address with numbers added";
};

/** @throws DomainError VALIDATION_ERROR PASSWORD_TOO_WEAK, with every broken rule in its details */
export const refuseWeakPassword = (password: string, owner: PasswordOwner, field = "password"): void => {
  const details = passwordProblems(password, owner, field);
  if (details.length === 0) return;
  const message = `${field}: ${details.map((problem) => problem.message).join(", ")}`;
  throw new DomainError("VALIDATION_ERROR", message, { details, reason: "PASSWORD_TOO_WEAK" });
};

export type ProofParts = CountingParts & { transact: Transact; passwords: Passwords };

/** The current password, and the origin of the request. */
type Proof = { currentPassword: string; ip: string; sessionId: string };

/**
 * Verifies that the holder of a user's session knows the password too, with the same throttling as for logins
 * from a known address, from whatever addresses. Not to be called in a transaction.
 *
 * @throws FORBIDDEN INVALID_CREDENTIALS, RateLimited LOGIN_THROTTLED, or the error of `withoutPassword` for a
 * user without a password
 */
export const provePassword = async (
  parts: ProofParts,
  { email, passwordHash }: Pick<User, "email" | "passwordHash">,
  { currentPassword, ip, sessionId }: Proof,
  withoutPassword: () => DomainError,
): Promise<void> => {
  if (passwordHash == null) throw withoutPassword();
  const check = () => parts.passwords.verify(passwordHash, currentPassword);
  const known = async () => `session:${sessionId}`;
  if (!(await throttled(parts, { ip, account: email, known }, check))) throw wrongPassword();
};

/** Builds the error for a wrong `currentPassword`. */
export const wrongPassword = (): DomainError => forbidden("INVALID_CREDENTIALS", "currentPassword is wrong");
