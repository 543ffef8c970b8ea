import { createHash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { sql } from "kysely";
import { DomainError, invalid } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** Bytes from here on would make the first letters of the alphabet more likely. */
const FAIR_BYTES = 256 - (256 % 62);

/** Returns `length` characters of uniform base62 (5.95 bits each) from the system's random source. */
export const randomBase62 = (length: number): string => {
  let text = "";
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < FAIR_BYTES && text.length < length) text += ALPHABET.charAt(byte % 62);
    }
  }
  return text;
};

/** Encodes a whole number in base62, padded with zeros to `length`. */
const toBase62 = (value: number, length: number): string => {
  let text = "";
  for (let rest = value; rest > 0; rest = Math.floor(rest / 62)) text = ALPHABET.charAt(rest % 62) + text;
  return text.padStart(length, "0");
};

/** What is valid once: `kind` separates the ids of different things. */
type OnceId = { kind: "captcha" | "passkey" | "mfa" | "saml"; id: string; expiresAt: Date };

/** Consumes an id; false if it was consumed before. Rows are deleted some time after they expire. */
export const consumeId = async ({ db }: Work, { kind, id, expiresAt }: OnceId): Promise<boolean> => {
  const { rows } = await sql`
    insert into consumed_ids (kind, id, expires_at)
    values (${kind}, ${id}, ${expiresAt.toISOString()}::timestamptz)
    on conflict do nothing returning 1`.execute(db);
  return rows.length === 1;
};

/** How registration distinguishes people from programs; `none` disables it. */
export const CAPTCHA_PROVIDERS = ["none", "altcha", "turnstile", "hcaptcha", "recaptcha"] as const;
export type CaptchaProvider = (typeof CAPTCHA_PROVIDERS)[number];

type CaptchaChallenge = {
  provider: CaptchaProvider;
  /** For the script of the hosted providers. */
  siteKey?: string;
  /** For altcha: the challenge that the client must solve. */
  challenge?: Record<string, unknown>;
};

export type Captcha = {
  provider: CaptchaProvider;
  /** Returns what a form needs to obtain a token. */
  challenge(): Promise<CaptchaChallenge>;
  /**
   * Verifies a token. For altcha it returns an id that can be used once (`requireCaptcha` stores it),
   * otherwise undefined: the hosted providers accept a token only once themselves.
   *
   * @throws DomainError VALIDATION_ERROR CAPTCHA_FAILED for a missing or wrong one, SERVICE_UNAVAILABLE
   * CAPTCHA_UNAVAILABLE when the provider does not respond: then nobody passes
   */
  verify(token: string | undefined, ip: string): Promise<{ id: string; expiresAt: Date } | undefined>;
};

/** Builds the error for a token that fails verification. */
export const captchaFailed = (message: string): DomainError =>
  invalid("captchaToken", message, "CAPTCHA_FAILED");

type CaptchaParts = { captcha: Captcha; transact: Transact };

/**
 * Requires a solved captcha, once for each solution: it is consumed whatever the outcome of the request.
 *
 * @throws VALIDATION_ERROR CAPTCHA_FAILED, SERVICE_UNAVAILABLE CAPTCHA_UNAVAILABLE
 */
export const requireCaptcha = async (
  { captcha, transact }: CaptchaParts,
  token: string | undefined,
  ip: string,
): Promise<void> => {
  if (captcha.provider === "none") return;
  const used = await captcha.verify(token, ip);
  if (!used) return;
  if (!(await transact((work) => consumeId(work, { kind: "captcha", ...used })))) {
    throw captchaFailed("was used before; solve a new challenge");
  }
};

const SHAPE = /^svc_[a-z]+_[0-9A-Za-z]{42}$/;
const RANDOM_CHARACTERS = 36;
const CHECKSUM_CHARACTERS = 6;

const checksum = (body: string): string => toBase62(crc32(body), CHECKSUM_CHARACTERS);

/** `svc_<kind>_`, 36 random base62 characters (214 bits), 6 of CRC-32. */
export const newCheckedSecret = (kind: string): string => {
  const body = `svc_${kind}_${randomBase62(RANDOM_CHARACTERS)}`;
  return body + checksum(body);
};

/**
 * Returns whether this has the format of one of our secrets, without access to the database, so that typing
 * errors and noise cost nothing.
 */
export const isCheckedSecret = (text: string): boolean =>
  SHAPE.test(text) && checksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text.slice(-CHECKSUM_CHARACTERS);

const SECRET_BYTES = 32;

/** Returns 256 random bits in base64url, for a link, a cookie or a URL. */
export const newRandomSecret = (): string => randomBytes(SECRET_BYTES).toString("base64url");

/** Returns the stored hash of a fully random secret, which needs no slow hash and no pepper. */
export const hashRandomSecret = (secret: string): string => createHash("sha256").update(secret).digest("hex");

/** `svc_rt_` and 256 random bits. */
export const newRefreshToken = (): string => `svc_rt_${randomBase62(43)}`;

export const isRefreshToken = (text: string): boolean => /^svc_rt_[0-9A-Za-z]{43}$/.test(text);

/** Maximum tokens of a session, used ones included; older ones are forgotten. */
const TOKENS_PER_SESSION_MAX = 1_000;

/** Issues the next token of a session, of which only the hash is stored. */
export const issueRefreshToken = async (
  { db, now }: Work,
  session: { id: string; tenantId: string },
  expiresAt: Date,
): Promise<string> => {
  const token = newRefreshToken();
  await sql`
    insert into refresh_tokens (hash, tenant_id, session_id, expires_at, created_at)
    values (${hashRandomSecret(token)}, ${session.tenantId}::uuid, ${session.id}::uuid,
      ${expiresAt.toISOString()}::timestamptz, ${now.toISOString()}::timestamptz)`.execute(db);
  return token;
};

/** Forgets tokens that a session used long ago, so that no client can fill the table. */
export const forgetOldTokens = async ({ db }: Work, sessionId: string): Promise<void> => {
  await sql`
    delete from refresh_tokens where hash in (
      select hash from refresh_tokens where session_id = ${sessionId}::uuid
      order by created_at desc, hash offset ${TOKENS_PER_SESSION_MAX})`.execute(db);
};

/** Purpose of a token; each is mailed to the address that it concerns. */
export type UserTokenPurpose = "VERIFY_EMAIL" | "CHANGE_EMAIL" | "RESET_PASSWORD";

export type UserToken = {
  userId: string;
  tenantId: string;
  purpose: UserTokenPurpose;
  /** Lower case; the recipient's address, which holding the token proves. */
  email: string;
};

/**
 * Issues a token of 256 random bits in base64url, valid once within the given seconds. Only its hash is
 * stored. Other tokens of the user stay valid: mails may arrive in any order.
 */
export const issueUserToken = async (
  { db, now }: Work,
  { userId, tenantId, purpose, email, seconds }: UserToken & { seconds: number },
): Promise<string> => {
  const token = newRandomSecret();
  const expiresAt = new Date(now.getTime() + seconds * 1_000);
  await sql`
    insert into user_tokens (hash, tenant_id, user_id, purpose, email, expires_at, created_at)
    values (${hashRandomSecret(token)}, ${tenantId}::uuid, ${userId}::uuid, ${purpose}, ${email},
      ${expiresAt.toISOString()}::timestamptz, ${now.toISOString()}::timestamptz)`.execute(db);
  return token;
};

/**
 * Reads a token without consuming it.
 *
 * @throws VALIDATION_ERROR VERIFICATION_TOKEN_INVALID for one that is unknown or for another purpose, GONE
 * VERIFICATION_TOKEN_EXPIRED for one that was used or has expired
 */
export const findUserToken = async (
  { db, now }: Work,
  token: string,
  purposes: readonly UserTokenPurpose[],
): Promise<UserToken> => {
  const { rows } = await sql<UserToken & { isGood: boolean }>`
    select user_id as "userId", tenant_id as "tenantId", purpose, email,
      used_at is null and expires_at > ${now.toISOString()}::timestamptz as "isGood"
    from user_tokens
    where hash = ${hashRandomSecret(token)} and purpose = any(${`{${purposes.join(",")}}`}::text[])`.execute(
    db,
  );
  const [found] = rows;
  if (!found) throw unknownToken();
  const { isGood, ...known } = found;
  if (!isGood) throw tokenIsGone();
  return known;
};

/** Consumes a token: of several concurrent uses, one succeeds. @throws as `findUserToken` */
export const consumeUserToken = async (
  work: Work,
  token: string,
  purposes: readonly UserTokenPurpose[],
): Promise<UserToken> => {
  const { db, now } = work;
  const found = await findUserToken(work, token, purposes);
  // The user is locked before the token, as where a user's tokens are ended, to avoid deadlocks.
  await sql`select 1 from users where id = ${found.userId}::uuid for update`.execute(db);
  const { rows } = await sql`
    update user_tokens set used_at = ${now.toISOString()}::timestamptz
    where hash = ${hashRandomSecret(token)} and used_at is null returning 1`.execute(db);
  if (rows.length === 0) throw tokenIsGone();
  return found;
};

const unknownToken = (): DomainError =>
  invalid("token", "is unknown; request a new mail", "VERIFICATION_TOKEN_INVALID");

/** Builds the error for a token that is no longer valid. */
export const tokenIsGone = (): DomainError =>
  new DomainError("GONE", "This link was used or has expired; ask for a new mail", {
    reason: "VERIFICATION_TOKEN_EXPIRED",
  });

/** Ends a user's tokens for these purposes: after a new password, no older mail can set another. */
export const endUserTokens = async (
  { db, now }: Work,
  userId: string,
  purposes: readonly UserTokenPurpose[],
): Promise<void> => {
  await sql`
    update user_tokens set used_at = ${now.toISOString()}::timestamptz
    where user_id = ${userId}::uuid and used_at is null
      and purpose = any(${`{${purposes.join(",")}}`}::text[])`.execute(db);
};
