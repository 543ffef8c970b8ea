import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { type AppFactor, withTotp } from "../support/mfa/second-factor.ts";
import { aBrowser, CONSOLE, startUrl, told } from "../support/providers/oauth.ts";
import { githubServer } from "../support/providers/github-server.ts";

describe("a second factor and sign-in by a provider", () => {
  const { api, server, addPerson } = githubServer();
  let sub: string;
  let token: string;
  let factor: AppFactor;

  const come = async (parameters: Record<string, string>) =>
    told((await aBrowser(sub).go(startUrl(server, "github", parameters))).at);
  const complete = (challengeToken: string | undefined, code: string) =>
    api.post("/api/v1/auth/login/mfa", { challengeToken, code });

  beforeEach(async () => {
    sub = randomUUID();
    const email = `${sub}@example.com`;
    addPerson(sub, email);
    const { access_token } = await come({ flow: "signup" });
    token = access_token!;
    const { user } = must(await api.get("/api/v1/auth/me", { token }), 200);
    // Without a password, a sign-in of a moment ago is enough to set one up.
    factor = await withTotp(api, { userId: user.id, token, password: "" });
  });

  it("the way back brings no tokens, but a challenge that a code turns into a session", async () => {
    const answer = await come({ flow: "login" });
    assert.equal(answer["error"], "mfa_required");
    assert.equal(answer["challenge_methods"], "TOTP,RECOVERY_CODE");
    for (const name of ["access_token", "refresh_token", "code"]) assert.equal(answer[name], undefined);
    assertError(await complete(answer["challenge_token"], "000 000"), 401, "MFA_CODE_INVALID");
    const { accessToken } = must(await complete(answer["challenge_token"], await factor.code()), 200);
    const sessions = must(await api.get("/api/v1/auth/sessions", { token: accessToken }), 200);
    assert.equal(sessions.data.find((one: { current: boolean }) => one.current).method, "GITHUB");
  });

  it("so does the exchange of a code, which is used up by it", async () => {
    const { code } = await come({ flow: "login", response_mode: "code" });
    const answer = await api.post("/api/v1/auth/oauth/exchange", { code });
    assertError(answer, 401, "MFA_REQUIRED");
    assertError(await api.post("/api/v1/auth/oauth/exchange", { code }), 400, "OAUTH_CODE_INVALID");
    must(await complete(answer.body.error.challenge.token, await factor.code()), 200);
  });

  it("linking a provider needs none more: who links has just proved it", async () => {
    await api.app.transact(({ db }) =>
      sql`delete from identities where email = ${`${sub}@example.com`}`.execute(db),
    );
    const body = { redirect_uri: CONSOLE };
    const { authUrl } = must(await server.post("/api/v1/auth/oauth/github/link", body, { token }), 200);
    const answer = told((await aBrowser(sub).go(authUrl)).at);
    must(await api.get("/api/v1/auth/me", { token: answer["access_token"]! }), 200);
  });
});
