import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { issueUserToken, type UserTokenPurpose } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { LINKS } from "../../src/domain/accounts/auth/email-verification.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, type Client, must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { aMailTo, mailedTo, mailsTo, tokenIn } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";
import { passkeyOptions, withPasskey } from "../support/mfa/second-factor.ts";
import { madeOnce } from "../support/made.ts";

const NEW_PASSWORD = "Difference-Engine-2";
const anEmail = () => `${randomUUID()}@example.com`;
const RESET = /password/i;

describe("a forgotten password", () => {
  const forgot = (email: string, server: Client = api): Promise<Answer> =>
    server.post("/api/v1/auth/forgot-password", { email });
  const reset = (token: string, password = NEW_PASSWORD): Promise<Answer> =>
    api.post("/api/v1/auth/reset-password", { token, password });
  const login = (email: string, password: string): Promise<Answer> =>
    api.post("/api/v1/auth/login", { email, password });
  const mailedToken = async (email: string): Promise<string> => {
    assert.equal((await forgot(email)).status, 200);
    return tokenIn(await aMailTo(email, RESET));
  };
  const issued = (user: { userId: string; email: string }, purpose: UserTokenPurpose, seconds = 60) =>
    api.app.transact((work) =>
      issueUserToken(work, { ...user, tenantId: tenant.tenantId, purpose, seconds }),
    );
  const aUser = () => aMember(api, tenant.tenantId, "VIEWER");

  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  it("is replaced by who gets the mail: the old one and all sessions end, and the user is told", async () => {
    const own = await aTenant(api);
    const token = await mailedToken(own.email);
    const answer = await reset(token);
    assert.deepEqual([answer.status, answer.body], [200, { accepted: true }]);
    assertError(await login(own.email, own.password), 401, "INVALID_CREDENTIALS");
    assert.equal((await login(own.email, NEW_PASSWORD)).status, 200);
    assertError(await api.get("/api/v1/projects", { token: own.token }), 401, "SESSION_REVOKED");
    await eventuallyHolds(() => assert.equal(mailsTo(own.email).length, 3));
    assert.deepEqual(await mailedTo(api.app, own.email), [
      "verify-email",
      "reset-password",
      "password-changed",
    ]);
  });

  it("of an account that nobody had verified takes factors of who had registered it", async () => {
    const strangers = await aTenant(api);
    const { authenticator } = await withPasskey(api, strangers);
    assert.equal((await reset(await mailedToken(strangers.email))).status, 200);
    const credential = authenticator.get(await passkeyOptions(api));
    assert.equal((await api.post("/api/v1/auth/passkeys/login", { credential })).status, 401);
    assert.equal((await login(strangers.email, NEW_PASSWORD)).status, 200);
  });

  it("proves the address, and gives a password to who had none", async () => {
    const user = await aUser();
    const change = { emailVerified: false };
    await api.app.transact(async ({ em }) => {
      Object.assign(await em.findOneOrFail(User, { id: user.userId }), change);
    });
    assert.equal((await reset(await mailedToken(user.email))).status, 200);
    const stored = await api.app.transact(({ em }) => em.findOneOrFail(User, { id: user.userId }));
    assert.equal(stored.emailVerified, true);
    assert.equal((await login(user.email, NEW_PASSWORD)).status, 200);
  });

  describe("link", () => {
    it("is good once, also for two at once", async () => {
      const token = await issued(await aUser(), "RESET_PASSWORD");
      const answers = await Promise.all([reset(token), reset(token, "Another-Engine-3")]);
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 410]);
      assertError(await reset(token), 410, "VERIFICATION_TOKEN_EXPIRED");
    });

    it("is over after its hour", async () => {
      const token = await issued(await aUser(), "RESET_PASSWORD", -1);
      assertError(await reset(token), 410, "VERIFICATION_TOKEN_EXPIRED");
    });

    it("is over when an older or newer one was used, or the password was changed otherwise", async () => {
      const user = await aUser();
      const [older, newer] = [await issued(user, "RESET_PASSWORD"), await issued(user, "RESET_PASSWORD")];
      assert.equal((await reset(older)).status, 200);
      assertError(await reset(newer), 410, "VERIFICATION_TOKEN_EXPIRED");

      const own = await aTenant(api);
      const token = await mailedToken(own.email);
      const change = { currentPassword: own.password, newPassword: "Changed-Engine-4" };
      const changed = await api.post("/api/v1/auth/change-password", change, { token: own.token });
      assert.equal(changed.status, 200);
      assertError(await reset(token), 410, "VERIFICATION_TOKEN_EXPIRED");
      assert.equal((await login(own.email, "Changed-Engine-4")).status, 200);
    });

    it("of another user changes that user's password and nobody else's", async () => {
      const [ada, eve] = [await aTenant(api), await aTenant(api)];
      const token = await mailedToken(eve.email);
      const body = { token, password: NEW_PASSWORD };
      const named = { ...body, userId: ada.userId, email: ada.email };
      assertError(await api.post("/api/v1/auth/reset-password", named, { token: ada.token }), 400);
      assert.equal((await api.post("/api/v1/auth/reset-password", body, { token: ada.token })).status, 200);
      assert.equal((await login(ada.email, ada.password)).status, 200);
      assert.equal((await api.get("/api/v1/projects", { token: ada.token })).status, 200);
    });

    it("to an address that is no longer the user's is over", async () => {
      const user = await aUser();
      const token = await issued({ userId: user.userId, email: anEmail() }, "RESET_PASSWORD");
      assertError(await reset(token), 410, "VERIFICATION_TOKEN_EXPIRED");
    });

    it("for something else, made up, or of a user who was shut out sets no password", async () => {
      const user = await aUser();
      for (const purpose of ["VERIFY_EMAIL", "CHANGE_EMAIL"] as const) {
        assertError(await reset(await issued(user, purpose)), 400, "VERIFICATION_TOKEN_INVALID");
      }
      for (const token of ["x", "x".repeat(43), `${randomUUID()}' or 1=1`]) {
        assertError(await reset(token), 400, "VERIFICATION_TOKEN_INVALID");
      }
      const token = await issued(user, "RESET_PASSWORD");
      await api.app.transact(async ({ em, now }) => {
        (await em.findOneOrFail(User, { id: user.userId })).disabledAt = now;
      });
      assertError(await reset(token), 410, "VERIFICATION_TOKEN_EXPIRED");
    });

    it("is not used up by a password that is too weak", async () => {
      const user = await aUser();
      const token = await issued(user, "RESET_PASSWORD");
      for (const password of ["short", user.email, "x".repeat(500)]) {
        assertError(await reset(token, password), 400, "PASSWORD_TOO_WEAK");
      }
      assertError(await reset(token, `Aa1${"x".repeat(1_000_000)}`), 413);
      assert.equal((await reset(token)).status, 200);
    });
  });

  describe("of an address", () => {
    it("that nobody has is answered as any other, and nothing is mailed", async () => {
      const unknown = anEmail();
      const { email: known } = await aUser();
      const [first, second] = [await forgot(unknown), await forgot(known)];
      assert.deepEqual([first.status, first.body], [second.status, second.body]);
      assert.deepEqual(first.body, { accepted: true });
      const names = ({ headers }: Answer) => [...headers.keys()].toSorted();
      assert.deepEqual(names(first), names(second));
      await aMailTo(known, RESET);
      assert.deepEqual(await mailedTo(api.app, unknown), []);
    });

    it("that asks again within a minute gets no second mail, and is not told", async () => {
      const { email } = await aUser();
      for (const address of [email, email.toUpperCase(), ` ${email} `]) {
        const { status, body } = await forgot(address);
        assert.deepEqual([status, body], [200, { accepted: true }]);
      }
      assert.deepEqual(await mailedTo(api.app, email), ["reset-password"]);
    });

    /** Asks as strangers, by default until the mails of the day are used up, and once more. */
    const useUp = async (email: string, mails: number = LIMITS.mailDay.points): Promise<void> => {
      for (let count = 0; count <= mails; count++) {
        await api.app.limiter.reset(LIMITS.mailMinute, `reset-password:${email}`);
        const { status, body } = await forgot(email);
        assert.deepEqual([status, body], [200, { accepted: true }]);
      }
    };

    it("gets five mails a day, then one in half an hour; all requests are answered the same", async () => {
      const { email } = await aUser();
      await useUp(email);
      const mails = LIMITS.mailDay.points;
      assert.deepEqual(await mailedTo(api.app, email), Array(mails).fill("reset-password"));
      for (let more = 1; more <= 3; more++) {
        await api.app.limiter.reset(LIMITS.mailHalfHour, `reset-password:${email}`);
        await useUp(email, 1);
        assert.equal((await mailedTo(api.app, email)).length, mails + more);
      }
    });

    it("has a good link at any time, however often strangers ask for one", () => {
      assert.ok(2 * LIMITS.mailHalfHour.seconds <= LINKS.RESET_PASSWORD.seconds);
      assert.ok(LIMITS.mailMinute.seconds < LIMITS.mailHalfHour.seconds);
    });

    it("gets a mail at its own address when strangers have used up theirs", async () => {
      const own = await aTenant(api);
      const home = anAddress();
      const from = (ip: string) => ({ headers: { "X-Forwarded-For": ip } });
      const { email, password } = own;
      must(await api.post("/api/v1/auth/login", { email, password }, from(home)), 200);
      await useUp(own.email);
      const sent = async () =>
        (await mailedTo(api.app, own.email)).filter((one) => one === "reset-password").length;
      assert.equal(await sent(), LIMITS.mailDay.points);
      const ask = async (at: ReturnType<typeof from>) => {
        const { status, body } = await api.post("/api/v1/auth/forgot-password", { email: own.email }, at);
        assert.deepEqual([status, body], [200, { accepted: true }]);
        return (await sent()) - LIMITS.mailDay.points;
      };
      assert.equal(await ask(from(anAddress())), 0);
      assert.equal(await ask(from(home)), 1);
      assert.equal(await ask(from(home)), 1);
    });

    it("cannot be written to where the server sends no mail: 503 for every address", async () => {
      const { mail } = api.app.config;
      const server = await anotherServer(api, { mail: { ...mail, mode: "off" } });
      for (const email of [anEmail(), tenant.email]) {
        assertError(await forgot(email, server), 503, "EMAIL_NOT_CONFIGURED");
      }
    });
  });
});
