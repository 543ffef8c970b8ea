import assert from "node:assert/strict";
import { parseSetCookie } from "cookie";
import { decodeJwt } from "jose";
import { z } from "zod";
import { newId } from "../../src/domain/kernel/ids.ts";
import { routes } from "../../src/http/routes.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Client, must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { join } from "../support/rooms/sdk.ts";
import { pluck } from "../support/pluck.ts";

const LOGIN = "/api/v1/auth/login";
const REFRESH = "/api/v1/auth/refresh";
const LOGOUT = "/api/v1/auth/logout";

const cookieOf = ({ headers }: Answer) => {
  const [text, ...more] = headers.getSetCookie();
  assert.equal(more.length, 0);
  return text === undefined ? undefined : parseSetCookie(text);
};

describe("a session in a cookie", () => {
  const api = madeOnce(startApp);
  const ada = madeOnce(async () => {
    const account = { email: `${newId()}@example.com`, password: "Engine-No-1" };
    must(await api.post("/api/v1/auth/register", { ...account, name: "Ada Lovelace" }), 201);
    return account;
  });

  const own = (headers: Record<string, string> = {}) => ({
    "X-Session": "cookie",
    Origin: api.url,
    "Sec-Fetch-Site": "same-origin",
    ...headers,
  });
  const login = (headers = own(), client: Client = api) =>
    client.post(LOGIN, { email: ada.email, password: ada.password }, { headers });
  const refresh = (cookie: string, headers = own()) =>
    api.post(REFRESH, {}, { headers: { ...headers, Cookie: cookie } });
  const kept = (answer: Answer): string => {
    must(answer, 200);
    const { name, value } = cookieOf(answer)!;
    return `${name}=${value}`;
  };

  it("begins with a login, whose answer has no refresh token", async () => {
    const answer = await login();
    const { accessToken, ...rest } = must(answer, 200);
    assert.deepEqual(Object.keys(rest).toSorted(), ["expiresIn", "tokenType", "user"]);
    const { value, ...cookie } = cookieOf(answer)!;
    assert.deepEqual(cookie, {
      name: `__Host-laurel-session-${api.port}`,
      httpOnly: true,
      sameSite: "strict",
      path: "/",
      secure: true,
      maxAge: 30 * 86_400,
    });
    assert.ok(value !== undefined && !JSON.stringify(answer.body).includes(value));
    must(await api.get("/api/v1/auth/me", { token: accessToken }), 200);
  });

  it("goes on by the cookie alone, which every refresh replaces", async () => {
    const first = kept(await login());
    const answer = await refresh(first);
    const second = kept(answer);
    assert.notEqual(first, second);
    assert.equal("refreshToken" in answer.body, false);
    kept(await refresh(second));
  });

  it("goes on in both of two tabs that refresh at once", async () => {
    const cookie = kept(await login());
    for (const answer of await Promise.all([refresh(cookie), refresh(cookie)]))
      kept(await refresh(kept(answer)));
  });

  it("has access tokens of 15 minutes, after each of its beginnings and renewals", async () => {
    const body = { email: `${newId()}@example.com`, password: "Engine-No-1", name: "Ada Lovelace" };
    const register = (more = {}) =>
      api.post("/api/v1/auth/register", { ...body, ...more }, { headers: own() });
    const begun = await login();
    const answers = [begun, await refresh(kept(begun)), await register(), await register({ website: "x" })];
    for (const { body: answered } of answers) {
      assert.equal(answered.expiresIn, 900);
      const { iat, exp } = decodeJwt(answered.accessToken);
      assert.equal(exp! - iat!, 900);
    }
  });

  it("keeps rooms that a page has joined, whose token it renews by that of a refresh", async () => {
    const begun = await login();
    const { accessToken } = begun.body;
    const { id } = must(await api.post("/api/v1/projects", { name: "One" }, { token: accessToken }), 201);
    const wsToken = async (token: string): Promise<string> =>
      must(await api.post("/api/v1/auth/ws-token", { projectId: id }, { token }), 200).token;
    const { tid, sid, sub } = decodeJwt<{ tid: string; sid: string }>(accessToken);
    const ending = await api.app.tokens.signAccess({ sub: sub!, tid, sid, role: "OWNER" }, 1);
    const page = await join(api, await wsToken(ending.token), "events");
    const renewed = await refresh(kept(begun));
    const { expiresAt } = await page.room.request("session.renew", {
      token: await wsToken(renewed.body.accessToken),
    });
    assert.ok(Date.parse(expiresAt) > Date.now() + 800_000);
    assert.equal(page.left, undefined);
    await page.room.leave();
  });

  it("ends with a logout, and so does the cookie", async () => {
    const signedIn = await login();
    const cookie = kept(signedIn);
    const options = { token: signedIn.body.accessToken, headers: own({ Cookie: cookie }) };
    const answer = await api.post(LOGOUT, {}, options);
    must(answer, 200);
    assert.deepEqual([cookieOf(answer)!.value, cookieOf(answer)!.maxAge], ["", 0]);
    const late = await refresh(cookie);
    assertError(late, 401, "REFRESH_TOKEN_REVOKED");
    assert.equal(cookieOf(late)!.maxAge, 0);
  });

  it("is refused to pages of other origins, ports and sites before anything is done", async () => {
    const { hostname, port } = new URL(api.url);
    const cookie = kept(await login());
    const foreign: Record<string, string>[] = [
      { Origin: "https://evil.example.com", "Sec-Fetch-Site": "cross-site" },
      { Origin: "https://evil.example.com" },
      { Origin: `http://${hostname}:${Number(port) + 1}` },
      { Origin: `http://app.${hostname}:${port}`, "Sec-Fetch-Site": "same-site" },
      { Origin: "null" },
      { Origin: "" },
      { "Sec-Fetch-Site": "same-site" },
      { "Sec-Fetch-Site": "none" },
    ];
    for (const headers of foreign) {
      for (const answer of [await refresh(cookie, own(headers)), await login(own(headers))]) {
        assertError(answer, 403, "ORIGIN_NOT_ALLOWED");
        assert.equal(cookieOf(answer), undefined);
      }
    }
    assertError(await login(own({ "X-Session": "token" })), 400);
    kept(await refresh(cookie));
  });

  it("is of no use to a page of another origin that leaves the header out", async () => {
    const cookie = kept(await login());
    const { "X-Session": _asked, ...headers } = own({ Origin: "https://evil.example.com", Cookie: cookie });
    assertError(await api.post(REFRESH, {}, { headers, isUnchecked: true }), 400);
    const asked = await fetch(api.url + REFRESH, { method: "OPTIONS", headers });
    assert.doesNotMatch(asked.headers.get("access-control-allow-headers")!, /x-session/i);
    for (const { headers: sent } of [asked, await api.get("/api/v1/limits", { headers })])
      assert.equal(sent.get("access-control-allow-credentials"), null);
    const seat = await fetch(`${api.url}/matchmake/joinOrCreate/player`, { method: "OPTIONS", headers });
    assert.equal(seat.headers.get("access-control-allow-credentials"), "true");
  });

  it("is asked for: without a cookie 401, without either 400, and other logins are as before", async () => {
    assertError(await api.post(REFRESH, {}, { headers: own() }), 401, "CREDENTIALS_MISSING");
    assertError(await api.post(REFRESH, {}, { isUnchecked: true }), 400);
    const answer = await login({} as ReturnType<typeof own>);
    assert.equal(typeof must(answer, 200).refreshToken, "string");
    assert.equal(cookieOf(answer), undefined);
  });

  it("has a cookie of its own at each port", async () => {
    const other = await anotherServer(api, {});
    const answer = await login(own({ Origin: other.url }), other);
    assert.match(kept(answer), new RegExp(`^__Host-laurel-session-${other.port}=`));
    const both = `${kept(await login())}; ${kept(answer)}`;
    kept(await refresh(both));
    must(await other.post(REFRESH, {}, { headers: own({ Origin: other.url, Cookie: both }) }), 200);
  });

  it("is the console's at other addresses: by https, and by plain http where nothing is at stake", async () => {
    const behind = await anotherServer(api, { consoleUrl: "https://laurel.example.com/console" });
    const secure = cookieOf(await login(own({ Origin: "https://laurel.example.com" }), behind))!;
    assert.deepEqual([secure.name, secure.secure], ["__Host-laurel-session-443", true]);
    const lan = { consoleUrl: "http://192.168.7.7:2567/console" };
    const headers = own({ Origin: "http://192.168.7.7:2567" });
    const plain = cookieOf(await login(headers, await anotherServer(api, lan)))!;
    assert.deepEqual([plain.name, plain.secure], ["laurel-session-2567", undefined]);
    const production = await anotherServer(api, { ...lan, isProduction: true });
    assertError(await login(headers, production), 403, "HTTPS_REQUIRED");
  });

  it("can begin wherever an operation answers with a refresh token", () => {
    const tokens = routes.filter(
      ({ response }) => response instanceof z.ZodObject && "refreshToken" in response.shape,
    );
    assert.ok(tokens.length > 5);
    assert.deepEqual(
      pluck(
        tokens.filter(({ session }) => session === undefined),
        "id",
      ),
      [],
    );
  });
});
