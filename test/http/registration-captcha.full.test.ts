import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { CaptchaSettings } from "../../src/config/sections.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { createCaptcha } from "../../src/platform/captcha.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { siteSettings, solved, startCaptchaProvider } from "../support/providers/captcha-provider.ts";
import type { Client } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

const anEmail = () => `${randomUUID()}@example.com`;

describe("registration behind a captcha", () => {
  const serverWith = (settings: CaptchaSettings): Promise<Client> =>
    anotherServer(api, { captcha: settings }, { captcha: createCaptcha(settings, api.app.log) });
  const register = (server: Client, body: object): Promise<Answer> =>
    server.post("/api/v1/auth/register", {
      email: anEmail(),
      name: "Ada Lovelace",
      password: "Difference-Engine-2",
      ...body,
    });
  const isStored = (email: string) => api.app.transact(({ em }) => em.count(User, { email }));

  const api = madeOnce(startApp);

  it("asks for nothing unless a provider is set", async () => {
    const answer = await api.get("/api/v1/auth/captcha");
    assert.deepEqual(answer.body, { provider: "none" });
    assert.equal(answer.headers.get("Cache-Control"), "no-store");
    assert.equal((await register(api, { captchaToken: "anything" })).status, 201);
  });

  describe("of altcha", () => {
    let server: Client;
    const token = async () => solved((await server.get("/api/v1/auth/captcha")).body.challenge);

    before(async () => {
      const secret = "secret-of-the-tests";
      server = await serverWith(siteSettings("", { provider: "altcha", secret, verifyUrl: undefined }));
    });

    it("takes each solution once, also of two at once, and whatever came of the first", async () => {
      const [first, second] = [await token(), await token()];
      assert.equal((await register(server, { captchaToken: first })).status, 201);
      assertError(await register(server, { captchaToken: first }), 400, "CAPTCHA_FAILED");
      assertError(
        await register(server, { captchaToken: second, password: "weak" }),
        400,
        "PASSWORD_TOO_WEAK",
      );
      assertError(await register(server, { captchaToken: second }), 400, "CAPTCHA_FAILED");
      const third = await token();
      const answers = await Promise.all([1, 2, 3].map(() => register(server, { captchaToken: third })));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 400, 400]);
    });

    it("stores nobody who brings none or a wrong one, and tells nothing of the rest", async () => {
      for (const captchaToken of [undefined, "", "x", Buffer.from("{}").toString("base64")]) {
        const email = anEmail();
        const answer = await register(server, { email, captchaToken, password: "weak" });
        assertError(answer, 400, "CAPTCHA_FAILED");
        assert.equal(answer.body.error.details[0].field, "captchaToken");
        assert.equal(await isStored(email), 0);
      }
      assertError(await register(server, { captchaToken: "x".repeat(5_000) }), 400);
    });
  });

  describe("of a hosted provider", () => {
    let server: Client;
    const provider = madeOnce(
      () => startCaptchaProvider(),
      (made) => made.stop(),
    );
    before(async () => {
      server = await serverWith(siteSettings(provider.verifyUrl));
    });

    it("lets in who the provider lets in", async () => {
      const { body } = await server.get("/api/v1/auth/captcha");
      assert.deepEqual(body, { provider: "turnstile", siteKey: "the-key-of-the-site" });
      assert.equal((await register(server, { captchaToken: "good" })).status, 201);
      assertError(await register(server, { captchaToken: "wrong" }), 400, "CAPTCHA_FAILED");
      assertError(await register(server, {}), 400, "CAPTCHA_FAILED");
      const elsewhere = await serverWith(siteSettings(provider.verifyUrl, { hostname: "other.example" }));
      assertError(await register(elsewhere, { captchaToken: "good" }), 400, "CAPTCHA_FAILED");
    });

    it("lets nobody in while the provider is down", async () => {
      const email = anEmail();
      const lost = await serverWith(siteSettings("http://127.0.0.1:1/"));
      const answer = await register(lost, { email, captchaToken: "good" });
      assertError(answer, 503, "CAPTCHA_UNAVAILABLE");
      assert.ok(Number(answer.headers.get("Retry-After")) >= 1);
      assert.equal(await isStored(email), 0);
    });
  });
});
