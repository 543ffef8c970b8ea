import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { type Challenge, solveChallenge } from "altcha-lib";
import { deriveKey } from "altcha-lib/algorithms/pbkdf2";
import { listen } from "../http/listen.ts";
import type { CaptchaSettings } from "../../../src/config/sections.ts";

export type ProviderAnswer = { status?: number; headers?: Record<string, string>; body: unknown };

/** A hosted captcha's verification address, as Turnstile, hCaptcha and reCAPTCHA document it. */
export type CaptchaProviderServer = {
  verifyUrl: string;
  /** The forms that it was sent. */
  forms: Record<string, string>[];
  /** What it answers from now on; undefined: a verdict by the token, of which "good" is. */
  answer(next: ProviderAnswer | undefined): void;
  stop(): Promise<void>;
};

const SECRET = "the-secret-of-the-site";
export const HOSTNAME = "console.example.com";

/** Of a site at the provider of the tests. */
export const siteSettings = (verifyUrl: string, change: Partial<CaptchaSettings> = {}): CaptchaSettings => ({
  provider: "turnstile",
  siteKey: "the-key-of-the-site",
  secret: SECRET,
  hostname: HOSTNAME,
  verifyUrl,
  ...change,
});

const judge = ({ secret, response }: Record<string, string>): ProviderAnswer => {
  if (secret !== SECRET) return { body: { success: false, "error-codes": ["invalid-input-secret"] } };
  if (response !== "good") return { body: { success: false, "error-codes": ["invalid-input-response"] } };
  return { body: { success: true, hostname: HOSTNAME, challenge_ts: new Date().toISOString() } };
};

export const startCaptchaProvider = async (): Promise<CaptchaProviderServer> => {
  const forms: Record<string, string>[] = [];
  let next: ProviderAnswer | undefined;
  const reply = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const form = Object.fromEntries(new URLSearchParams(await text(request)));
    forms.push(form);
    const { status = 200, headers = {}, body } = next ?? judge(form);
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
  const { url, close } = await listen(createServer((request, response) => void reply(request, response)));
  return { verifyUrl: `${url}/siteverify`, forms, answer: (answer) => (next = answer), stop: close };
};

/** What altcha's widget sends for a challenge. */
export const solved = async (challenge: unknown): Promise<string> => {
  const { parameters, signature } = challenge as Challenge & { signature: string };
  const solution = await solveChallenge({ challenge: { parameters, signature }, deriveKey });
  return altchaToken({ challenge: { parameters, signature }, solution });
};

export const altchaToken = (payload: unknown): string =>
  Buffer.from(JSON.stringify(payload)).toString("base64");
