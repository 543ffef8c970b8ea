import assert from "node:assert/strict";
import { type Challenge, createChallenge } from "altcha-lib";
import { deriveKey } from "altcha-lib/algorithms/pbkdf2";
import type { Captcha } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import type { CaptchaSettings } from "../../src/config/sections.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { createCaptcha } from "../../src/platform/captcha.ts";
import {
  altchaToken,
  HOSTNAME,
  siteSettings,
  solved,
  startCaptchaProvider,
} from "../support/providers/captcha-provider.ts";
import { madeOnce } from "../support/made.ts";

const IP = "192.0.2.7";
const silent = { error: () => undefined };

const refused = async (
  captcha: Captcha,
  token: string | undefined,
  reason = "CAPTCHA_FAILED",
): Promise<void> => {
  await assert.rejects(captcha.verify(token, IP), (error: unknown) => {
    assert.ok(error instanceof DomainError);
    assert.equal(error.reason, reason, error.message);
    assert.equal(error.status, reason === "CAPTCHA_FAILED" ? 400 : 503);
    return true;
  });
};

describe("a captcha of altcha", () => {
  const settings = (secret: string): CaptchaSettings => ({
    provider: "altcha",
    secret,
    siteKey: undefined,
    hostname: undefined,
    verifyUrl: undefined,
  });
  const captcha = createCaptcha(settings("secret-of-the-tests"), silent);
  type Solved = { challenge: Challenge; solution: { counter: number; derivedKey: string } };
  let token: string;
  let payload: Solved;

  before(async () => {
    const { provider, challenge, siteKey } = await captcha.challenge();
    assert.deepEqual([provider, siteKey], ["altcha", undefined]);
    token = await solved(challenge);
    payload = JSON.parse(Buffer.from(token, "base64").toString()) as Solved;
  });

  it("takes a solution, and names it the same however it is written", async () => {
    const found = await captcha.verify(token, IP);
    assert.ok(found && found.expiresAt > new Date());
    const { challenge, solution } = payload;
    const parameters = Object.fromEntries(Object.entries(challenge.parameters).toReversed());
    const respelt = { solution: { ...solution, took: 5 }, more: 1, challenge: { ...challenge, parameters } };
    const again = await captcha.verify(altchaToken(respelt), IP);
    assert.equal(again?.id, found.id);
  });

  it("takes nothing that is no solution", async () => {
    for (const none of [undefined, "", "x", altchaToken({}), altchaToken(null), altchaToken([payload])]) {
      await refused(captcha, none);
    }
    const { challenge, solution } = payload;
    const forged: unknown[] = [
      { challenge, solution: { ...solution, derivedKey: "00".repeat(32) } },
      { challenge, solution: { ...solution, derivedKey: solution.derivedKey.slice(0, 32) } },
      { challenge, solution: { ...solution, counter: -1 } },
      { challenge: { ...challenge, signature: "00".repeat(32) }, solution },
      { challenge: { ...challenge, signature: "" }, solution },
      { challenge: { parameters: challenge.parameters }, solution },
      { challenge },
    ];
    for (const change of [
      { expiresAt: 4_102_444_800 },
      { keyPrefix: "0" },
      { cost: 1 },
      { salt: "00".repeat(16) },
      { keySignature: "00" },
    ]) {
      forged.push({
        challenge: { ...challenge, parameters: { ...challenge.parameters, ...change } },
        solution,
      });
    }
    for (const one of forged) await refused(captcha, altchaToken(one));
  });

  it("takes no solution of a challenge that another secret signed, or that has expired", async () => {
    const other = createCaptcha(settings("secret-of-another-server"), silent);
    await refused(other, token);
    const expired = await createChallenge({
      algorithm: "PBKDF2/SHA-256",
      cost: 1,
      counter: 3,
      expiresAt: new Date(Date.now() - 2_000),
      hmacSignatureSecret: "secret-of-the-tests",
      deriveKey,
    });
    await assert.rejects(captcha.verify(await solved(expired), IP), /expired/);
  });
});

describe("a captcha of a hosted provider", () => {
  const captchaOf = (change: Partial<CaptchaSettings> = {}) =>
    createCaptcha(siteSettings(provider.verifyUrl, change), silent);

  const provider = madeOnce(
    () => startCaptchaProvider(),
    (made) => made.stop(),
  );
  afterEach(() => provider.answer(undefined));

  it("takes a token that the provider takes, and tells it the secret and the address", async () => {
    for (const name of ["turnstile", "hcaptcha", "recaptcha"] as const) {
      const captcha = captchaOf({ provider: name });
      assert.deepEqual(await captcha.challenge(), { provider: name, siteKey: "the-key-of-the-site" });
      assert.equal(await captcha.verify("good", IP), undefined);
      const form = { secret: "the-secret-of-the-site", response: "good", remoteip: IP };
      assert.deepEqual(provider.forms.at(-1), form);
    }
  });

  it("takes none that is missing, wrong, made on another site or by a program", async () => {
    const asked = provider.forms.length;
    await refused(captchaOf(), undefined);
    await refused(captchaOf(), "");
    assert.equal(provider.forms.length, asked, "a missing token is not even asked about");
    await refused(captchaOf(), "wrong");
    await refused(captchaOf({ hostname: "other.example.com" }), "good");
    provider.answer({ body: { success: true } });
    await refused(captchaOf(), "good");
    assert.equal(await captchaOf({ hostname: undefined }).verify("good", IP), undefined);
    provider.answer({ body: { success: true, hostname: HOSTNAME, score: 0.1 } });
    await refused(captchaOf({ provider: "recaptcha" }), "good");
    provider.answer({ body: { success: true, hostname: HOSTNAME, score: 0.9 } });
    assert.equal(await captchaOf({ provider: "recaptcha" }).verify("good", IP), undefined);
  });

  it("lets nobody in while the provider is down, answers nonsense or refuses the secret", async () => {
    const unavailable = "CAPTCHA_UNAVAILABLE";
    await refused(captchaOf({ verifyUrl: "http://127.0.0.1:1/siteverify" }), "good", unavailable);
    await refused(captchaOf({ secret: "wrong" }), "good", unavailable);
    const yes = { success: true, hostname: HOSTNAME };
    for (const answer of [
      { status: 500, body: yes },
      { status: 302, headers: { Location: "http://127.0.0.1:1/" }, body: yes },
      { body: "<html>" },
      { body: "" },
      { body: [] },
      { body: { success: "true" } },
    ]) {
      provider.answer(answer);
      await refused(captchaOf(), "good", unavailable);
    }
  });
});
