import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { anAdmin } from "../support/app/admin.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, type Client, must } from "../support/http/client.ts";
import { startOAuthServer } from "../support/providers/oauth.ts";
import { aMailTo, tokenIn } from "../support/mail/mailbox.ts";
import { madeOnce } from "../support/made.ts";

const WRONG = "Wrong-horse-7";
const NEW_PASSWORD = "Difference-Engine-2";
const TRIES = LIMITS.loginAccount.points;
const LOGIN = { users: "/api/v1/auth/login", superadmins: "/api/v1/superadmin/auth/login" };

type Account = { email: string; password: string };

describe("an account whose password is guessed at from ever new addresses", () => {
  const api = madeOnce(startApp);

  const closing: (() => Promise<void>)[] = [];
  after(() => Promise.all(closing.map((close) => close())));

  const loginAt = (client: Client, path: string, { email, password }: Account, headers: object) =>
    client.post(path, { email, password }, { headers: { "X-Forwarded-For": anAddress(), ...headers } });
  const headersOf = (ip?: string, device?: string) => ({
    ...(ip === undefined ? {} : { "X-Forwarded-For": ip }),
    ...(device === undefined ? {} : { "X-Device-Token": device }),
  });
  const login = (path: string, account: Account, ip?: string, device?: string) =>
    loginAt(api, path, account, headersOf(ip, device));
  /** Wrong passwords, each from an address of its own, until they are refused. */
  const hammer = async (path: string, email: string, times = TRIES + 4): Promise<Answer[]> => {
    const answers: Answer[] = [];
    for (let i = 0; i < times; i++) answers.push(await login(path, { email, password: WRONG }));
    return answers;
  };
  const deviceOf = (answer: Answer): string => answer.headers.get("x-device-token")!;
  const shown = ({ status, body, headers }: Answer) => {
    const names = [...headers.keys()].filter((name) => name !== "date" && name !== "x-request-id");
    const { code, message, reason, details } = body.error;
    return { status, code, message, reason, details, names, limit: headers.get("x-ratelimit-limit") };
  };

  for (const kind of ["users", "superadmins"] as const) {
    const path = LOGIN[kind];
    const anAccount = (): Promise<Account> => (kind === "users" ? aTenant(api) : anAdmin(api));

    it(`of ${kind} is asked for few of them, the right one too, and alike where there is none`, async () => {
      const account = await anAccount();
      const nobody = { email: `${randomUUID()}@example.com`, password: account.password };
      const answers = [await hammer(path, account.email), await hammer(path, nobody.email)];
      for (const all of answers) {
        for (const answer of all.slice(0, TRIES)) assertError(answer, 401, "INVALID_CREDENTIALS");
        for (const answer of all.slice(TRIES)) assertError(answer, 429, "LOGIN_THROTTLED");
      }
      assert.deepEqual(answers[0]!.map(shown), answers[1]!.map(shown));
      const right = await login(path, account);
      assertError(right, 429, "LOGIN_THROTTLED");
      assert.deepEqual(shown(right), shown(await login(path, nobody)));
      const waits = Number(right.headers.get("retry-after"));
      assert.ok(waits > 3_500 && waits <= 3_600, String(waits));
    });

    it(`of ${kind} lets in from where somebody has signed in before, and what they did it with`, async () => {
      const account = await anAccount();
      const home = anAddress();
      const device = deviceOf(passed(await login(path, account, home)));
      await hammer(path, account.email);
      const again = passed(await login(path, account, home));
      assert.notEqual(deviceOf(again), device, "a device without a token is another one");
      assert.equal(deviceOf(passed(await login(path, account, anAddress(), device))), device);
      const madeUp = "A".repeat(43);
      assertError(await login(path, account, anAddress(), madeUp), 429, "LOGIN_THROTTLED");
      const other = await anAccount();
      await hammer(path, other.email);
      assertError(await login(path, other, anAddress(), device), 429, "LOGIN_THROTTLED");
    });
  }

  const passed = (answer: Answer): Answer => {
    must(answer, 200);
    return answer;
  };

  it("lets in whoever sets a new password by mail, from there; what was known before is not", async () => {
    const account = await aTenant(api);
    const [home, cafe] = [anAddress(), anAddress()];
    const device = deviceOf(passed(await login(LOGIN.users, account, home)));
    await hammer(LOGIN.users, account.email);
    assertError(await login(LOGIN.users, account, cafe), 429, "LOGIN_THROTTLED");
    must(await api.post("/api/v1/auth/forgot-password", { email: account.email }), 200);
    const token = tokenIn(await aMailTo(account.email, /password/i));
    const headers = { "X-Forwarded-For": cafe };
    must(await api.post("/api/v1/auth/reset-password", { token, password: NEW_PASSWORD }, { headers }), 200);
    const renewed = { ...account, password: NEW_PASSWORD };
    assertError(await login(LOGIN.users, renewed, home), 429, "LOGIN_THROTTLED");
    assertError(await login(LOGIN.users, renewed, anAddress(), device), 429, "LOGIN_THROTTLED");
    passed(await login(LOGIN.users, renewed, cafe));
  });

  for (const kind of ["users", "superadmins"] as const)
    it(`of ${kind} lets in the device that changed the password, from wherever it is`, async () => {
      const path = LOGIN[kind];
      const account = await (kind === "users" ? aTenant(api) : anAdmin(api));
      // Who has no second factor may change nothing, where one is required.
      const lax = await startOAuthServer(api, async () => ({ google: undefined, github: undefined }), {
        isSuperadminMfaRequired: false,
      });
      closing.push(lax.close);
      const enter = (who: Account, ip?: string, from?: string) =>
        loginAt(lax, path, who, headersOf(ip, from));
      const change = (token: string, body: object, device?: string) =>
        lax.post(path.replace("login", "change-password"), body, {
          token,
          headers: device === undefined ? {} : { "X-Device-Token": device },
        });
      const [home, other] = [await enter(account), await enter(account)].map(passed);
      const device = deviceOf(home!);
      const body = { currentPassword: account.password, newPassword: NEW_PASSWORD };
      const changed = passed(await change(home!.body.accessToken, body, device));
      assert.equal(deviceOf(changed), device);
      await hammer(path, account.email);
      const renewed = { ...account, password: NEW_PASSWORD };
      passed(await enter(renewed, anAddress(), device));
      assertError(await enter(renewed, anAddress(), deviceOf(other!)), 429, "LOGIN_THROTTLED");

      const again = { currentPassword: NEW_PASSWORD, newPassword: account.password };
      const token = kind === "users" ? home!.body.accessToken : changed.body.accessToken;
      const fresh = deviceOf(passed(await change(token, again, "A".repeat(43))));
      assert.ok(fresh !== device && fresh !== "A".repeat(43), "a token that was not known is a new one");
      passed(await enter(account, anAddress(), fresh));
      assertError(await enter(account, anAddress(), device), 429, "LOGIN_THROTTLED");
    });

  it("lets in the device that set a new password by mail, from wherever it is", async () => {
    const account = await aTenant(api);
    must(await api.post("/api/v1/auth/forgot-password", { email: account.email }), 200);
    const token = tokenIn(await aMailTo(account.email, /password/i));
    const reset = await api.post("/api/v1/auth/reset-password", { token, password: NEW_PASSWORD });
    const device = deviceOf(passed(reset));
    await hammer(LOGIN.users, account.email);
    passed(await login(LOGIN.users, { ...account, password: NEW_PASSWORD }, anAddress(), device));
  });

  it("lets a session prove its password, as seldom from everywhere as from one address", async () => {
    const account = await aTenant(api);
    await hammer(LOGIN.users, account.email);
    const change = (currentPassword: string) =>
      api.post(
        "/api/v1/auth/change-password",
        { currentPassword, newPassword: NEW_PASSWORD },
        { token: account.token, headers: { "X-Forwarded-For": anAddress() } },
      );
    const answers: number[] = [];
    for (let i = 0; i < 12; i++) answers.push((await change(WRONG)).status);
    assert.deepEqual(answers.slice(0, 5), [403, 403, 403, 403, 403]);
    assert.ok(answers.slice(5).includes(429), answers.join());
    const fresh = await aTenant(api);
    await hammer(LOGIN.users, fresh.email);
    const body = { currentPassword: fresh.password, newPassword: NEW_PASSWORD };
    must(await api.post("/api/v1/auth/change-password", body, { token: fresh.token }), 200);
  });
});
