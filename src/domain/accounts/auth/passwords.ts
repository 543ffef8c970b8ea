import { type Options, hash as argonHash, verify as argonVerify } from "@node-rs/argon2";
import { DomainError, type FieldProblem } from "../../kernel/errors.ts";
import { BUSY } from "../../kernel/outages.ts";
import { Semaphore } from "../../kernel/semaphore.ts";
import { isGuessable } from "./common-passwords.ts";

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

export const PASSWORD_MIN_CHARACTERS = 8;
export const PASSWORD_MAX_CHARACTERS = 128;
export const PASSWORD_MAX_BYTES = 512;

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
  const slots = new Semaphore({
    slots: HASHES_AT_ONCE_MAX,
    waitingMax: HASHES_WAITING_MAX,
    refusal: tooMany,
  });
  return {
    hash: (password) => slots.run(() => argonHash(password.normalize("NFKC"), cost)),
    verify: (hash, password) =>
      slots.run(() => argonVerify(hash, password.normalize("NFKC")).catch(() => false)),
  };
};

const RULES: readonly (readonly [RegExp, string])[] = [
  [/\p{Lu}/u, "must contain an uppercase letter"],
  [/\p{Ll}/u, "must contain a lowercase letter"],
  [/\p{Nd}/u, "must contain a number"],
];

/** The user of a new password. */
export type PasswordOwner = { email: string; name: string };

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
