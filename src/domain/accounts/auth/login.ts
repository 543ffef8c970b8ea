import { LockMode } from "@mikro-orm/core";
import { sql } from "kysely";
import { normaliseEmail } from "../email/address.ts";
import { type DomainError, unauthorized } from "../../kernel/errors.ts";
import { type AbuseParts, blockAbuser } from "../rate-limits/abuse.ts";
import { limitKeyOf } from "../rate-limits/ip-address.ts";
import { LIMITS } from "../rate-limits/limits.ts";
import type { Work } from "../../kernel/work.ts";
import { findKnownOrigin, type Origin } from "./known-origins.ts";
import { throttled, type ThrottleParts } from "./login-throttle.ts";
import { DUMMY_HASH, type Passwords } from "./passwords.ts";
import type { ProofParts } from "../mfa/proof.ts";
import { completeLogin, orChallenge, signInOrChallenge } from "../mfa/sign-in.ts";
import type { LoggedIn } from "./sessions.ts";
import { User } from "./user.ts";

/** Satisfied by an App. `transact` must see the accounts of all tenants. */
export type LoginParts = ThrottleParts & AbuseParts & ProofParts & { passwords: Passwords };

/** The origin is used to count failures. `mfaCode`: of the second factor, for accounts that have one. */
export type Login = Origin & { email: string; password: string; mfaCode?: string | undefined };

/**
 * Checks a password, and the second factor if the account has one, and starts a session. An unknown address,
 * a disabled user, a deleted tenant and a wrong password cannot be distinguished, neither by the response nor
 * by its duration, nor by what is counted.
 *
 * @throws UNAUTHORIZED INVALID_CREDENTIALS, MFA_REQUIRED, MFA_CODE_INVALID, RateLimited LOGIN_THROTTLED
 */
export const login = async (
  parts: LoginParts,
  { email, password, mfaCode, ...origin }: Login,
): Promise<LoggedIn> => {
  const { transact, tokens, passwords } = parts;
  const account = normaliseEmail(email);
  const asked = { ...origin, accounts: "users", email: account } as const;
  const known = () => transact((work) => findKnownOrigin(work, tokens, asked));
  let found: Found | undefined;
  const isRight = await throttled(parts, { ip: origin.ip, account, known }, async () => {
    found = await transact((work) => findByEmail(work, account));
    const fits = await passwords.verify(found?.hash ?? DUMMY_HASH, password);
    return fits && found !== undefined;
  });
  if (!isRight || !found) {
    await blockGuesser(parts, origin.ip);
    throw wrong();
  }
  const { id, hash } = found;
  const outcome = await transact(async (work) => {
    // Locked, so that a new password ends this session or prevents it.
    const user = await work.em.findOne(User, { id }, { lockMode: LockMode.PESSIMISTIC_WRITE });
    if (!user || user.disabledAt || user.passwordHash !== hash) throw wrong();
    return signInOrChallenge(work, tokens, user, {
      method: "PASSWORD",
      deviceToken: origin.deviceToken,
    });
  });
  if (mfaCode === undefined || !("challenge" in outcome)) return orChallenge(outcome);
  return completeLogin(parts, { challengeToken: outcome.challenge.token, code: mfaCode, ...origin });
};

/** Blocks an address that has exhausted its failures for a while. */
const blockGuesser = async (parts: LoginParts, ip: string): Promise<void> => {
  const { remaining } = await parts.limiter.read(LIMITS.loginFailures, limitKeyOf(ip));
  if (remaining === 0) await blockAbuser(parts, "loginFailures", ip);
};

const wrong = (): DomainError => unauthorized("INVALID_CREDENTIALS", "Email or password is wrong");

type Found = { id: string; hash: string };

/** One statement, for known and unknown addresses alike. */
const findByEmail = async ({ db }: Work, email: string): Promise<Found | undefined> => {
  const { rows } = await sql<Found>`
    select u.id, u.password_hash as hash from users u join tenants t on t.id = u.tenant_id
    where u.email = ${email} and u.disabled_at is null and t.deleted_at is null
      and u.password_hash is not null`.execute(db);
  return rows[0];
};
