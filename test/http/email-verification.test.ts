import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { issueUserToken, type UserTokenPurpose } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, type Client } from "../support/http/client.ts";
import { aMailTo, mailedTo, tokenIn } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";
import { madeOnce } from "../support/made.ts";

const anEmail = () => `${randomUUID()}@example.com`;

describe("email verification", () => {
  const verify = (token: string): Promise<Answer> => api.post("/api/v1/auth/verify-email", { token });
  const resend = (email: string, server: Client = api): Promise<Answer> =>
    server.post("/api/v1/auth/resend-verification", { email });
  const stored = (id: string) => api.app.transact(({ em }) => em.findOneOrFail(User, { id }));
  const issued = (user: { userId: string; email: string }, purpose: UserTokenPurpose, seconds = 60) =>
    api.app.transact((work) =>
      issueUserToken(work, { ...user, tenantId: tenant.tenantId, purpose, seconds }),
    );
  const anUnverified = async () => {
    const user = await aMember(api, tenant.tenantId, "VIEWER");
    await api.app.transact(async ({ em }) => {
      (await em.findOneOrFail(User, { id: user.userId })).emailVerified = false;
    });
    return user;
  };

  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  describe("POST /auth/verify-email", () => {
    it("proves the address, once", async () => {
      const user = await anUnverified();
      const token = await issued(user, "VERIFY_EMAIL");
      const answers = await Promise.all([verify(token), verify(token)]);
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 410]);
      assert.equal((await stored(user.userId)).emailVerified, true);
      assertError(await verify(token), 410, "VERIFICATION_TOKEN_EXPIRED");
    });

    it("opens what needs a proved address, at once", async () => {
      const strict = await anotherServer(api, { isVerifiedEmailRequired: true });
      const own = await aTenant(api);
      const newKey = (name: string) =>
        strict.post(`/api/v1/projects/${own.projectId}/api-keys`, { name }, { token: own.token });
      const mustVerify = async () =>
        (await strict.get("/api/v1/auth/me", { token: own.token })).body.user.mustVerifyEmail;
      assertError(await newKey("first"), 403, "EMAIL_NOT_VERIFIED");
      assert.equal(await mustVerify(), true);
      assert.equal((await verify(tokenIn(await aMailTo(own.email, /./)))).status, 200);
      assert.equal((await newKey("second")).status, 201);
      assert.equal(await mustVerify(), false);
    });

    it("is over after 24 hours", async () => {
      const user = await anUnverified();
      assertError(await verify(await issued(user, "VERIFY_EMAIL", -1)), 410, "VERIFICATION_TOKEN_EXPIRED");
      assert.equal((await stored(user.userId)).emailVerified, false);
    });

    it("takes no token for a password, none that is made up, and none of an address of before", async () => {
      const user = await anUnverified();
      for (const token of [await issued(user, "RESET_PASSWORD"), "x", "x".repeat(43)]) {
        assertError(await verify(token), 400, "VERIFICATION_TOKEN_INVALID");
      }
      const old = await issued({ userId: user.userId, email: anEmail() }, "VERIFY_EMAIL");
      assertError(await verify(old), 410, "VERIFICATION_TOKEN_EXPIRED");
      assertError(await api.post("/api/v1/auth/verify-email", {}), 400);
      assert.equal((await stored(user.userId)).emailVerified, false);
    });

    it("is limited to ten tries a minute for an address", async () => {
      const headers = { "X-Forwarded-For": anAddress() };
      const guess = () => api.post("/api/v1/auth/verify-email", { token: randomUUID() }, { headers });
      for (let count = 0; count < 10; count++) assertError(await guess(), 400, "VERIFICATION_TOKEN_INVALID");
      assertError(await guess(), 429, "VERIFY_EMAIL_RATE");
    });
  });

  describe("POST /auth/resend-verification", () => {
    it("mails a link that works", async () => {
      const user = await anUnverified();
      assert.deepEqual((await resend(user.email)).body, { accepted: true });
      assert.equal((await verify(tokenIn(await aMailTo(user.email, /./)))).status, 200);
      assert.equal((await stored(user.userId)).emailVerified, true);
    });

    it("answers the same for an address that is unknown or proved already, and mails nothing", async () => {
      const { email: proved } = await aMember(api, tenant.tenantId, "VIEWER");
      for (const email of [anEmail(), proved]) {
        const { status, body } = await resend(email);
        assert.deepEqual([status, body], [200, { accepted: true }]);
        assert.deepEqual(await mailedTo(api.app, email), []);
      }
    });

    it("mails five times a day and once a minute; the others are answered the same", async () => {
      const { email } = await anUnverified();
      await resend(email);
      await resend(email);
      assert.deepEqual(await mailedTo(api.app, email), ["verify-email"]);
      for (let count = 0; count < 5; count++) {
        await api.app.limiter.reset(LIMITS.mailMinute, `verify-email:${email}`);
        const { status, body } = await resend(email);
        assert.deepEqual([status, body], [200, { accepted: true }]);
      }
      assert.deepEqual(await mailedTo(api.app, email), Array(5).fill("verify-email"));
    });
  });
});
