import { createHash, randomInt } from "node:crypto";
import type { Logger } from "pino";
import { createChallenge, verifySolution } from "altcha-lib";
import { deriveKey } from "altcha-lib/algorithms/pbkdf2";
import { z } from "zod";
import type { CaptchaSettings } from "../config/sections.ts";
import {
  type Captcha,
  captchaFailed,
  type CaptchaProvider,
} from "../domain/accounts/auth/one-time-secrets.ts";
import { DomainError } from "../domain/kernel/errors.ts";

/** Time limit for solving a challenge, in seconds. */
const CHALLENGE_SECONDS = 600;
/** A solution is remembered this much longer than it is valid, because clocks differ. */
const CLOCKS_APART_SECONDS = 60;
/** PBKDF2 rounds per attempt, and number of attempts: one or two seconds on a phone. */
const ROUNDS = 3_000;
const TRIES = { min: 500, max: 1_500 } as const;
const VERIFY_TIMEOUT_MS = 5_000;
const RETRY_AFTER_SECONDS = 5;
/** Below this score reCAPTCHA v3 takes the visitor for a bot. */
const SCORE_MIN = 0.5;

type Hosted = Exclude<CaptchaProvider, "none" | "altcha">;
const VERIFY_URLS: Readonly<Record<Hosted, string>> = {
  turnstile: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
  hcaptcha: "https://api.hcaptcha.com/siteverify",
  recaptcha: "https://www.google.com/recaptcha/api/siteverify",
};

/** Creates the captcha of CAPTCHA_PROVIDER. */
export const createCaptcha = (settings: CaptchaSettings, log: Pick<Logger, "error">): Captcha => {
  const { provider } = settings;
  if (provider === "none")
    return { provider, challenge: async () => ({ provider }), verify: async () => undefined };
  return provider === "altcha" ? altcha(settings) : hosted(provider, settings, log);
};

const Parameters = z.looseObject({
  algorithm: z.string(),
  nonce: z.string(),
  salt: z.string(),
  cost: z.int(),
  keyLength: z.int(),
  keyPrefix: z.string(),
  expiresAt: z.int(),
});
/** The widget's response: base64 of JSON. */
const AltchaToken = z.object({
  challenge: z.object({ parameters: Parameters, signature: z.string() }),
  solution: z.object({ counter: z.int(), derivedKey: z.string() }),
});

const readToken = (token: string) => {
  try {
    return AltchaToken.parse(JSON.parse(Buffer.from(token, "base64").toString()));
  } catch {
    throw captchaFailed("is not a solution of a challenge of GET /auth/captcha");
  }
};

const required = (token: string | undefined): string => {
  if (token) return token;
  throw captchaFailed("is required: solve the challenge of GET /auth/captcha");
};

/** Proof of work, without a third party. The challenge is signed, so nothing is stored until it is solved. */
const altcha = ({ secret = "" }: CaptchaSettings): Captcha => {
  const secrets = {
    hmacSignatureSecret: secret,
    hmacKeySignatureSecret: createHash("sha256").update(`altcha key ${secret}`).digest("hex"),
  };
  return {
    provider: "altcha",
    challenge: async () => {
      const challenge = await createChallenge({
        algorithm: "PBKDF2/SHA-256",
        cost: ROUNDS,
        counter: randomInt(TRIES.min, TRIES.max),
        expiresAt: new Date(Date.now() + CHALLENGE_SECONDS * 1_000),
        deriveKey,
        ...secrets,
      });
      return { provider: "altcha", challenge: { ...challenge } };
    },
    verify: async (token) => {
      const { challenge, solution } = readToken(required(token));
      const found = await verifySolution({ challenge, solution, deriveKey, ...secrets }).catch(
        () => undefined,
      );
      if (found?.expired) throw captchaFailed("is for a challenge that has expired; solve a new one");
      if (!found?.verified) throw captchaFailed("does not solve a challenge of this server");
      const { nonce, expiresAt } = challenge.parameters;
      return { id: nonce, expiresAt: new Date((expiresAt + CLOCKS_APART_SECONDS) * 1_000) };
    },
  };
};

const Verdict = z.object({
  success: z.boolean(),
  hostname: z.string().optional(),
  score: z.number().optional(),
  "error-codes": z.array(z.string()).optional(),
});
type Verdict = z.output<typeof Verdict>;

/** Turnstile, hCaptcha and reCAPTCHA share one protocol. */
const hosted = (provider: Hosted, settings: CaptchaSettings, log: Pick<Logger, "error">): Captcha => {
  const { siteKey, hostname } = settings;
  return {
    provider,
    challenge: async () => ({ provider, ...(siteKey === undefined ? {} : { siteKey }) }),
    verify: async (token, ip) => {
      const response = required(token);
      const verdict = await ask(provider, settings, { response, remoteip: ip }).catch((err: unknown) => {
        log.error({ err, provider }, "the captcha provider does not answer; nobody passes");
        throw unavailable();
      });
      refuseOwnFault(provider, verdict, log);
      if (!verdict.success) throw captchaFailed("was not accepted; solve a new challenge");
      if (hostname !== undefined && verdict.hostname !== hostname)
        throw captchaFailed("was made on another site");
      if (verdict.score !== undefined && verdict.score < SCORE_MIN)
        throw captchaFailed("looks like that of a program");
      return undefined;
    },
  };
};

const ask = async (
  provider: Hosted,
  { secret = "", verifyUrl }: CaptchaSettings,
  form: { response: string; remoteip: string },
): Promise<Verdict> => {
  const answer = await fetch(verifyUrl ?? VERIFY_URLS[provider], {
    method: "POST",
    body: new URLSearchParams({ secret, ...form }),
    redirect: "error",
    signal: AbortSignal.timeout(VERIFY_TIMEOUT_MS),
  });
  if (!answer.ok) throw new Error(`it answered ${answer.status}`);
  return Verdict.parse(await answer.json());
};

/** Reports a wrong CAPTCHA_SECRET as a server error, because it is not the visitor's fault. */
const refuseOwnFault = (provider: Hosted, verdict: Verdict, log: Pick<Logger, "error">): void => {
  const codes = verdict["error-codes"] ?? [];
  if (verdict.success || !codes.some((code) => code.endsWith("-input-secret") || code === "internal-error"))
    return;
  log.error({ provider, codes }, "the captcha provider does not take CAPTCHA_SECRET; nobody passes");
  throw unavailable();
};

const unavailable = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "The captcha cannot be checked now; try again in a moment", {
    reason: "CAPTCHA_UNAVAILABLE",
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
