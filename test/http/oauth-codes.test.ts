import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { hashRandomSecret } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aBrowser, startUrl, told } from "../support/providers/oauth.ts";
import { githubServer } from "../support/providers/fake-github.ts";

describe("the way back of a sign-in", () => {
  const { api, server, addPerson } = githubServer();

  const aPerson = (): { sub: string; email: string } => {
    const [sub, email] = [randomUUID(), `${randomUUID()}@example.com`];
    addPerson(sub, email);
    return { sub, email };
  };
  const come = (sub: string, parameters: Record<string, string>, browser = aBrowser(sub)) =>
    browser.go(startUrl(server, "github", parameters));
  const tell = async (sub: string, parameters: Record<string, string> = {}) =>
    told((await come(sub, parameters)).at);

  describe("tokens in an address", () => {
    const expiryOf = async (token: string) => {
      const rows = await api.sql<{ token: Date; session: Date; now: Date }>`
        select t.expires_at as token, s.expires_at as session, t.created_at as now
        from refresh_tokens t join sessions s on s.id = t.session_id
        where t.hash = ${hashRandomSecret(token)}`;
      const { token: end, session, now } = rows[0]!;
      return { token: +end - +now, session: +session - +now };
    };

    it("have a refresh token of 5 minutes; the next one lives as long as the session", async () => {
      const { sub } = aPerson();
      const answer = await tell(sub, { flow: "signup" });
      const inAddress = await expiryOf(answer["refresh_token"]!);
      assert.equal(inAddress.token, 300_000);
      assert.equal(inAddress.session, 30 * 86_400_000);
      const refreshed = await api.post("/api/v1/auth/refresh", { refreshToken: answer["refresh_token"] });
      const next = await expiryOf(must(refreshed, 200).refreshToken);
      assert.equal(next.token, next.session);
    });

    it("are not cached and not passed on in a Referer; the browser keeps one secret for all its tabs", async () => {
      const browser = aBrowser(aPerson().sub);
      const { visits } = await come("", { flow: "signup" }, browser);
      const own = visits.filter(({ url }) => url.startsWith(server.url));
      assert.equal(own.length, 2);
      for (const { headers, status } of own) {
        assert.equal(status, 302);
        assert.equal(headers.get("referrer-policy"), "no-referrer");
        assert.equal(headers.get("cache-control"), "no-store");
      }
      assert.equal(browser.cookies.get(server.url)?.size, 1);
    });
  });

  describe("response_mode=code", () => {
    const exchange = (code: unknown) => api.post("/api/v1/auth/oauth/exchange", { code });

    it("comes back with a code that gives a login once", async () => {
      const { sub, email } = aPerson();
      const { code, ...rest } = await tell(sub, { flow: "signup", response_mode: "code" });
      assert.deepEqual(rest, {});
      const answer = must(await exchange(code), 200);
      assert.deepEqual(Object.keys(answer).toSorted(), [
        "accessToken",
        "expiresIn",
        "refreshToken",
        "tokenType",
        "user",
      ]);
      assert.equal(answer.user.email, email);
      assertError(await exchange(code), 400, "OAUTH_CODE_INVALID");
      assertError(await exchange("x"), 400, "OAUTH_CODE_INVALID");
      assertError(await exchange(5), 400);
    });

    it("gives nothing after 60 seconds, nor to a user who was disabled meanwhile", async () => {
      const { sub, email } = aPerson();
      const { code } = await tell(sub, { flow: "signup", response_mode: "code" });
      const hash = hashRandomSecret(code!);
      const at = await api.app.transact(async ({ db }) => {
        const { rows } = await sql<{ at: Date }>`
          update oauth_codes set expires_at = expires_at - interval '60 seconds' where hash = ${hash}
          returning expires_at as at`.execute(db);
        return rows[0]!.at;
      });
      assert(at <= new Date(), "60 seconds from when it was made");
      assertError(await exchange(code), 400, "OAUTH_CODE_INVALID");
      const { code: second } = await tell(sub, { response_mode: "code" });
      await api.app.transact(({ em }) => em.nativeUpdate(User, { email }, { disabledAt: new Date() }));
      assertError(await exchange(second), 400, "OAUTH_CODE_INVALID");
    });
  });
});
