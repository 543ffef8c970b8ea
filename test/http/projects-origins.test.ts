import assert from "node:assert/strict";
import { aKey, aTenant, aWsToken, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const GAME = "https://game.example.com";
const LOCAL = "http://localhost:5173";

describe("the allowed origins of a project", () => {
  const allow = (allowedOrigins: unknown, projectId = tenant.projectId) =>
    api.patch(`/api/v1/projects/${projectId}`, { allowedOrigins }, { token: tenant.token });
  const from = (origin: string, path = "/api/v1/players", key = tenant.key) =>
    api.get(path, { key, headers: { Origin: origin } });
  const join = async (token: string, origin?: string): Promise<[number, string | undefined]> => {
    const headers = { Authorization: `Bearer ${token}`, ...(origin === undefined ? {} : { Origin: origin }) };
    const room = `${api.url}/matchmake/joinOrCreate/leaderboard`;
    const response = await fetch(room, {
      method: "POST",
      headers,
      body: JSON.stringify({ leaderboardKey: "top" }),
    });
    const body = (await response.json()) as { error?: { reason?: string } };
    return [response.status, body.error?.reason];
  };

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  it("are origins as browsers write them, at most 50, each once", async () => {
    const kept = must(await allow([GAME, LOCAL, GAME]), 200);
    assert.deepEqual(kept.allowedOrigins, [GAME, LOCAL]);
    const { token, projectId } = tenant;
    assert.deepEqual((await api.get(`/api/v1/projects/${projectId}`, { token })).body, kept);
    const made = { name: "New", allowedOrigins: [LOCAL] };
    assert.deepEqual(must(await api.post("/api/v1/projects", made, { token }), 201).allowedOrigins, [LOCAL]);
    for (const bad of [
      `${GAME}/`,
      `${GAME}/play`,
      `${GAME}?a`,
      `${GAME}#a`,
      "https://GAME.example.com",
      "https://game.example.com:443",
      "https://ada:secret@game.example.com",
      "https://*.example.com",
      "game.example.com",
      "*",
      "null",
      "",
      "ftp://game.example.com",
      "javascript:alert(1)",
      "file://",
      "https://",
      " https://game.example.com",
    ]) {
      const answer = await allow([GAME, bad]);
      assert.equal(answer.status, 400, bad);
      assert.equal(answer.body.error.details[0].field, "allowedOrigins.1");
    }
    for (const bad of [GAME, null, [1], Array.from({ length: 51 }, (_, i) => `https://g${i}.example.com`)])
      assertError(await allow(bad), 400);
    must(await allow(Array.from({ length: 50 }, (_, i) => `https://g${i}.example.com`)), 200);
  });

  it("let every page use a key while there are none, and only theirs once there are", async () => {
    assert.equal((await from("https://evil.example")).status, 200);
    await allow([GAME, LOCAL]);
    for (const origin of [GAME, LOCAL]) assert.equal((await from(origin)).status, 200);
    for (const origin of [
      "https://evil.example",
      `${GAME}.evil.example`,
      "http://game.example.com",
      "null",
    ]) {
      assertError(await from(origin), 403, "ORIGIN_NOT_ALLOWED");
      assertError(await from(origin, "/api/v1/projects"), 403, "ORIGIN_NOT_ALLOWED");
      const own = `/api/v1/projects/${tenant.projectId}`;
      assertError(await from(origin, own), 403, "ORIGIN_NOT_ALLOWED");
    }
    await allow([]);
    assert.equal((await from("https://evil.example")).status, 200);
  });

  it("refuse events and tokens for the rooms before anything happens", async () => {
    await allow([GAME]);
    const headers = { Origin: "https://evil.example" };
    const event = { externalUserId: "ada", eventType: "seen" };
    const { key } = tenant;
    assertError(await api.post("/api/v1/events", event, { key, headers }), 403, "ORIGIN_NOT_ALLOWED");
    const wish = { externalUserId: "ada" };
    assertError(await api.post("/api/v1/auth/ws-token", wish, { key, headers }), 403, "ORIGIN_NOT_ALLOWED");
    assert.equal((await api.get("/api/v1/players", { key })).body.pagination.total, 0);
  });

  it("concern neither servers, which send no Origin, nor console users", async () => {
    await allow([GAME]);
    assert.equal((await api.get("/api/v1/players", { key: tenant.key })).status, 200);
    const headers = { Origin: "https://console.example" };
    assert.equal((await api.get("/api/v1/players", { token: tenant.token, headers })).status, 200);
  });

  it("are the sandbox's own for a test key", async () => {
    const { token, projectId } = tenant;
    const test = await aKey(api, { token, projectId, environment: "test" });
    await allow([GAME]);
    assert.equal((await from(LOCAL, "/api/v1/players", test)).status, 200);
    const { sandboxProjectId } = (await api.get(`/api/v1/projects/${projectId}`, { token })).body;
    must(await allow([LOCAL], sandboxProjectId), 200);
    assert.equal((await from(LOCAL, "/api/v1/players", test)).status, 200);
    assertError(await from(GAME, "/api/v1/players", test), 403, "ORIGIN_NOT_ALLOWED");
    assertError(await from(LOCAL), 403, "ORIGIN_NOT_ALLOWED");
  });

  it("keep players' tokens out of the rooms in foreign pages, and no console user's", async () => {
    const board = { key: "top", name: "Top", metric: { source: "CUSTOM" }, operator: "SUM" };
    must(await api.post("/api/v1/leaderboards", board, { key: tenant.key }), 201);
    const { token } = await aWsToken(api, tenant.key, "ada");
    assert.deepEqual(await join(token, "https://evil.example"), [200, undefined]);
    await allow([GAME]);
    assert.deepEqual(await join(token, "https://evil.example"), [403, "ORIGIN_NOT_ALLOWED"]);
    assert.deepEqual(await join(token, "null"), [403, "ORIGIN_NOT_ALLOWED"]);
    assert.deepEqual(await join(token, GAME), [200, undefined]);
    assert.deepEqual(await join(token), [200, undefined]);
    const wish = { projectId: tenant.projectId };
    const console = must(await api.post("/api/v1/auth/ws-token", wish, { token: tenant.token }), 200);
    assert.deepEqual(await join(console.token, "https://console.example"), [200, undefined]);
  });
});
