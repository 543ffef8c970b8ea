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
   * Checks a token; a name for it that is good once (the caller stores it) for altcha, else undefined.
   *
   * @throws DomainError VALIDATION_ERROR CAPTCHA_FAILED for a missing or wrong one, and when the provider does
   *   not answer
   */
  verify(token: string | undefined, ip: string): Promise<{ id: string; expiresAt: Date } | undefined>;
};
