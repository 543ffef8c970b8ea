import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage as Refused } from "node:http";
import { WebSocket } from "ws";
import { aTenant, aWsToken, startApp } from "../support/app/app.ts";
import { aServedDomain, type Call, overHttp } from "../support/domains/server.ts";
import { startSsoServer } from "../support/sso/server.ts";
import { madeOnce } from "../support/made.ts";

const PLAYERS = "/v1/players?limit=1";
const SPELT = "/v1/players?limit=1&q=a%20b";
const SAID = { "X-Forwarded-Proto": "https" };

describe("custom domains by plain HTTP", () => {
  let domain: string;
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    ({ domain } = await aServedDomain(api, tenant));
  });
  const call = (parts: Partial<Call> = {}) =>
    overHttp({ port: Number(new URL(api.url).port), host: domain, path: PLAYERS, key: tenant.key, ...parts });

  it("lead to the same address by https, for who reads", async () => {
    for (const method of ["GET", "HEAD"])
      for (const host of [domain, domain.toUpperCase(), `${domain}.:8080`]) {
        const { status, headers, body } = await call({ method, host, path: SPELT });
        assert.deepEqual([status, headers.location, body], [308, `https://${domain}${SPELT}`, ""], host);
      }
    const { headers } = await call({ path: "//login.evil.example.com/x" });
    assert.equal(headers.location, `https://${domain}//login.evil.example.com/x`);
  });

  it("refuse everything else, joins too, and do nothing of it", async () => {
    const body = { externalUserId: "https-ada" };
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      const sent = ["DELETE", "OPTIONS"].includes(method) ? {} : { body };
      const refused = await call({ method, path: "/v1/players", ...sent });
      assert.equal(refused.status, 403, method);
      assert.match(refused.body, /HTTPS_REQUIRED.*https:\/\/|https:\/\/.*HTTPS_REQUIRED/);
      assert.equal(refused.headers.location, undefined);
    }
    assert.equal((await call({ path: "/v1/players/ext:https-ada", headers: SAID })).status, 404);
    const { token } = await aWsToken(api, tenant.key, "ada");
    const join = { path: "/matchmake/joinOrCreate/player", method: "POST", body: {}, token };
    const refused = await call({ ...join, key: undefined });
    assert.equal(refused.status, 403, refused.body);
    assert.match(refused.body, /HTTPS_REQUIRED/);
    const seat = await call({ ...join, key: undefined, headers: SAID });
    assert.equal(seat.status, 200, seat.body);
  });

  it("refuse WebSockets before a room is joined, so that the seat is there for one by https", async () => {
    const { token } = await aWsToken(api, tenant.key, "bea");
    const join = { path: "/matchmake/joinOrCreate/player", method: "POST", body: {}, token, headers: SAID };
    const seat = await call({ ...join, key: undefined });
    assert.equal(seat.status, 200, seat.body);
    const { processId, roomId, sessionId } = JSON.parse(seat.body) as Record<string, string>;
    const open = (headers: Record<string, string>, host = domain) =>
      new WebSocket(`${api.url.replace("http", "ws")}/${processId}/${roomId}?sessionId=${sessionId}`, {
        headers: { host, ...headers },
      });
    for (const headers of [{}, { "X-Forwarded-Proto": "http" }])
      for (const host of [domain, domain.toUpperCase(), `${domain}.:80`]) {
        const [, response] = (await once(open(headers, host), "unexpected-response")) as [unknown, Refused];
        assert.equal(response.statusCode, 403, host);
        response.destroy();
      }
    const socket = open(SAID);
    const [first] = (await once(socket, "message")) as [Buffer];
    assert.equal(first[0], 10, "the room has let the player in");
    socket.close();
  });

  it("are served where a proxy of this machine says that the client spoke https", async () => {
    assert.equal((await call({ headers: SAID })).status, 200);
    assert.equal((await call({ headers: { "X-Forwarded-Proto": "http" } })).status, 308);
    assert.equal(
      (await call({ headers: { "X-Forwarded-Ssl": "on", Forwarded: "proto=https" } })).status,
      308,
    );
  });

  it("answer the authority's question for a challenge, and whether the process lives", async () => {
    const path = `/.well-known/acme-challenge/${"x".repeat(43)}`;
    assert.equal((await call({ path })).status, 404, "unknown, and not redirected");
    assert.equal((await call({ path: "/.well-known/acme-challenge" })).status, 308);
    assert.equal((await call({ path: "/health/live" })).status, 200);
  });

  it("are the only names that lead to https", async () => {
    for (const host of ["localhost", "other.example.com", "127.0.0.1"])
      assert.equal((await call({ host })).status, 200, host);
    const off = await startSsoServer(api, { domains: undefined });
    try {
      const port = Number(new URL(off.url).port);
      assert.equal((await call({ port })).status, 200);
    } finally {
      await off.close();
    }
  });
});
