import assert from "node:assert/strict";
import { z } from "zod";
import { route } from "../../src/http/route.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { madeOnce } from "../support/made.ts";

const ORIGIN = "https://console.example.com";

describe("headers of answers", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  it("let any page call with the specification's headers, by a preflight without credentials", async () => {
    const asked = ["X-API-Key", "Authorization", "Content-Type", "X-Idempotency-Key", "X-Project-ID"];
    asked.push("traceparent", "tracestate", "baggage", "If-None-Match", "Content-Encoding");
    for (const path of ["/api/v1/players", "/v1/players", "/players", "/matchmake/joinOrCreate/player"]) {
      const answer = await fetch(api.url + path, {
        method: "OPTIONS",
        headers: { Origin: ORIGIN, "Access-Control-Request-Method": "POST" },
      });
      assert.equal(answer.status, 204);
      assert.equal(answer.headers.get("access-control-allow-origin"), ORIGIN);
      const allowed = answer.headers.get("access-control-allow-headers")!.toLowerCase().split(/, */);
      for (const name of asked) assert.ok(allowed.includes(name.toLowerCase()), `${path}: ${name}`);
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"])
        assert.ok(answer.headers.get("access-control-allow-methods")!.includes(method));
    }
  });

  it("allow nothing on an address that is not there", async () => {
    for (const path of ["/api/v1/nothing", "/matchmake/create/player", "/matchmake"]) {
      const answer = await fetch(api.url + path, { method: "OPTIONS", headers: { Origin: ORIGIN } });
      assert.equal(answer.status, 404, path);
      assert.equal(((await answer.json()) as { error: { code: string } }).error.code, "NOT_FOUND", path);
    }
    for (const path of ["/api/v1/players", "/openapi.json", "/health/live"])
      assert.equal((await fetch(api.url + path, { method: "OPTIONS" })).status, 204, path);
  });

  it("can be read by a page, also those of a refusal", async () => {
    for (const credentials of [{ key: tenant.key }, {}]) {
      const answer = await api.get("/api/v1/players", { ...credentials, headers: { Origin: ORIGIN } });
      const exposed = answer.headers.get("access-control-expose-headers")!.toLowerCase();
      for (const name of ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"])
        assert.ok(exposed.includes(name), name);
      for (const name of [
        "etag",
        "x-request-id",
        "x-idempotent-replayed",
        "x-deprecated",
        "x-total-estimated",
      ])
        assert.ok(exposed.includes(name), name);
      assert.equal(answer.headers.get("access-control-allow-origin"), ORIGIN);
    }
  });

  it("forbid sniffing, framing, keeping and telling where one came from, on every path", async () => {
    for (const path of ["/api/v1/players", "/v1/players", "/nowhere", "/api/v1/auth/oauth/providers"]) {
      const { headers } = await api.get(path, { isUnchecked: true });
      assert.equal(headers.get("x-content-type-options"), "nosniff");
      assert.equal(headers.get("x-frame-options"), "DENY");
      assert.equal(headers.get("cache-control"), "no-store");
      assert.equal(headers.get("referrer-policy"), "no-referrer");
      assert.match(headers.get("content-security-policy")!, /default-src 'none'/);
      assert.equal(headers.get("x-powered-by"), null);
    }
  });

  it("announce the end of a deprecated operation, also when it refuses, and of no other", async () => {
    const old = route({
      method: "get",
      path: "/old",
      id: "old",
      tag: "Old",
      summary: "Old",
      access: "public",
      project: "none",
      deprecated: { sunset: new Date("2027-06-01T00:00:00Z") },
      query: z.object({ a: z.string().optional() }),
      response: z.object({}),
      outside: async () => ({}),
    });
    const http = await startTinyHttp([old]);
    try {
      for (const path of ["/api/v1/old", "/old?b=1"]) {
        const { headers } = await http.send("GET", path);
        assert.equal(headers["x-deprecated"], "true");
        assert.equal(headers["sunset"], "Tue, 01 Jun 2027 00:00:00 GMT");
      }
      for (const path of ["/openapi.json", "/api/v1/openapi.json"])
        assert.equal((await http.send("GET", path)).json.paths["/old"].get.deprecated, true);
    } finally {
      await http.close();
    }
    assert.equal((await api.get("/api/v1/limits")).headers.get("x-deprecated"), null);
  });
});
