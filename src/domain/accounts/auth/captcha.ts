import { sql } from "kysely";
import { type DomainError, invalid } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** How registration tells people from programs; `none` asks nothing. */
export const CAPTCHA_PROVIDERS = ["none", "altcha", "turnstile", "hcaptcha", "recaptcha"] as const;
export type CaptchaProvider = (typeof CAPTCHA_PROVIDERS)[number];

export type CaptchaChallenge = {
  provider: CaptchaProvider;
  /** Of the hosted providers, for their script. */
  siteKey?: string;
  /** Of altcha: what the client has to solve. */
  challenge?: Record<string, unknown>;
};

export type Captcha = {
  provider: CaptchaProvider;
  /** What a form needs before it can make a token. */
  challenge(): Promise<CaptchaChallenge>;
  /**
   * Checks a token; a name for it that is good once (`requireCaptcha` stores it) for altcha, else undefined:
   * the hosted providers take a token once by themselves.
   *
   * @throws DomainError VALIDATION_ERROR CAPTCHA_FAILED for a missing or wrong one, SERVICE_UNAVAILABLE
   *   CAPTCHA_UNAVAILABLE when the provider does not judge: then nobody passes
   */
  verify(token: string | undefined, ip: string): Promise<{ id: string; expiresAt: Date } | undefined>;
};

/** The error for a token that does not show a person. */
export const captchaFailed = (message: string): DomainError =>
  invalid("captchaToken", message, "CAPTCHA_FAILED");

type CaptchaParts = { captcha: Captcha; transact: Transact };

/**
 * Lets through who has solved the captcha, once for each solution: it is used up whatever comes of the
 * request.
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
  if (!(await transact((work) => useUp(work, used)))) {
    throw captchaFailed("was used before; solve a new challenge");
  }
};

/** False for an id that was used up before; rows go some time after they expire. */
const useUp = async ({ db }: Work, { id, expiresAt }: { id: string; expiresAt: Date }): Promise<boolean> => {
  const { rows } = await sql`
    insert into consumed_ids (kind, id, expires_at)
    values ('captcha', ${id}, ${expiresAt.toISOString()}::timestamptz)
    on conflict do nothing returning 1`.execute(db);
  return rows.length === 1;
};
