import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { anAdmin } from "../support/app/admin.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aMailTo, tokenIn } from "../support/mail/mailbox.ts";
import { madeOnce } from "../support/made.ts";

const WRONG = "Wrong-horse-7";
const NEW_PASSWORD = "Difference-Engine-2";
const FREE_TRIES = 5;
const LOGIN = { users: "/api/v1/auth/login", superadmins: "/api/v1/superadmin/auth/login" };

type Account = { email: string; password: string };

describe("an account whose password is guessed at from ever new addresses", () => {
  const api = madeOnce(startApp);

  const login = (path: string, { email, password }: Account, ip = anAddress()) =>
    api.post(path, { email, password }, { headers: { "X-Forwarded-For": ip } });
  /** Wrong passwords, each from an address of its own and all at once. */
  const hammer = (path: string, email: string): Promise<Answer[]> =>
    Promise.all(Array.from({ length: FREE_TRIES + 20 }, () => login(path, { email, password: WRONG })));
  const shown = ({ status, body }: Answer) => {
    const { code, message, reason, details } = body.error;
    return { status, code, message, reason, details };
  };
  const refusals = (answers: readonly Answer[]): Answer[] => answers.filter(({ status }) => status === 429);

  for (const kind of ["users", "superadmins"] as const) {
    const path = LOGIN[kind];
    const anAccount = (): Promise<Account> => (kind === "users" ? aTenant(api) : anAdmin(api));

    it(`of ${kind} is asked for few of them, and alike where there is none`, async () => {
      const { email } = await anAccount();
      const known = await hammer(path, email);
      const nobody = await hammer(path, `${randomUUID()}@example.com`);
      for (const answers of [known, nobody]) {
        assert.ok(refusals(answers).length > 0);
        for (const answer of refusals(answers)) assertError(answer, 429, "LOGIN_THROTTLED");
      }
      assert.deepEqual(shown(refusals(known)[0]!), shown(refusals(nobody)[0]!));
    });

    it(`of ${kind} lets in from where somebody has signed in before`, async () => {
      const account = await anAccount();
      const home = anAddress();
      must(await login(path, account, home), 200);
      await hammer(path, account.email);
      must(await login(path, account, home), 200);
    });
  }

  it("lets in whoever sets a new password by mail, from there", async () => {
    const account = await aTenant(api);
    const cafe = anAddress();
    must(await api.post("/api/v1/auth/forgot-password", { email: account.email }), 200);
    const token = tokenIn(await aMailTo(account.email, /password/i));
    const headers = { "X-Forwarded-For": cafe };
    must(await api.post("/api/v1/auth/reset-password", { token, password: NEW_PASSWORD }, { headers }), 200);
    await hammer(LOGIN.users, account.email);
    must(await login(LOGIN.users, { ...account, password: NEW_PASSWORD }, cafe), 200);
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
    const answers = await Promise.all(Array.from({ length: 12 }, () => change(WRONG)));
    assert.ok(answers.some(({ status }) => status === 403));
    assert.ok(answers.some(({ status }) => status === 429));
    const fresh = await aTenant(api);
    await hammer(LOGIN.users, fresh.email);
    const body = { currentPassword: fresh.password, newPassword: NEW_PASSWORD };
    must(await api.post("/api/v1/auth/change-password", body, { token: fresh.token }), 200);
  });
});
