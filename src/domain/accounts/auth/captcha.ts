import { type DomainError, invalid } from "../../kernel/errors.ts";
import type { Transact } from "../../kernel/work.ts";
import { consumeId } from "./consumed-ids.ts";

/** How registration distinguishes people from programs; `none` disables it. */
export const CAPTCHA_PROVIDERS = ["none", "altcha", "turnstile", "hcaptcha", "recaptcha"] as const;
export type CaptchaProvider = (typeof CAPTCHA_PROVIDERS)[number];

export type CaptchaChallenge = {
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
