import assert from "node:assert/strict";
import { z } from "zod";
import { forgetKeys } from "../../src/domain/accounts/api-keys/api-key.ts";
import { LIMITS, RateLimited } from "../../src/domain/accounts/rate-limits/limiter.ts";
import type { Plan, PlanLimits } from "../../src/domain/kernel/caller.ts";
import { route } from "../../src/http/route.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { limitOf, numbers } from "../support/http/limit-headers.ts";
import { aMember } from "../support/app/member.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("rate limits", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const aKeyOf = async (of: Tenant, body: object = {}): Promise<string> => {
    const answer = await api.post(
      `/api/v1/projects/${of.projectId}/api-keys`,
      { name: "Limited key", scopes: ["*"], ...body },
      { token: of.token },
    );
    return must(answer, 201).key;
  };
  const use = (key: string) => api.get("/api/v1/players?limit=1", { key });
  const setPlan = async ({ tenantId }: Tenant, plan: Plan, overrides: Partial<PlanLimits> = {}) => {
    await api.sql`update tenants set plan = ${plan}, plan_overrides = ${JSON.stringify(overrides)}::jsonb
      where id = ${tenantId}::uuid`;
    forgetKeys();
  };
  /** Keys are made first: plans limit them too. */
  const aTenantOn = async (requestsPerMinute: number, ...bodies: object[]) => {
    const of = await aTenant(api);
    const keys: string[] = [];
    for (const body of bodies) keys.push(await aKeyOf(of, body));
    await setPlan(of, "FREE", { requestsPerMinute });
    return { of, keys };
  };

  describe("of API keys", () => {
    it("are told by every answer, and a refusal says when to come back", async () => {
      const key = await aKeyOf(tenant, { rateLimit: 2 });
      assert.deepEqual(numbers(await use(key)), [2, 1]);
      assert.deepEqual(numbers(await use(key)), [2, 0]);
      const refused = await use(key);
      assertError(refused, 429, "KEY_RATE");
      assert.equal(refused.body.error.code, "RATE_LIMITED");
      assert.match(refused.body.error.message, /2 requests in 60 seconds.*try again in \d+ seconds/);
      assert.deepEqual(numbers(refused), [2, 0]);
      const retryAfter = Number(refused.headers.get("Retry-After"));
      assert(retryAfter >= 1 && retryAfter <= 60, String(retryAfter));
      const leftMs = limitOf(refused)!.reset * 1_000 - Date.now();
      assert(Number.isInteger(limitOf(refused)!.reset) && leftMs > 0 && leftMs <= 61_000, String(leftMs));
    });

    it("are told by answers that are errors too", async () => {
      const key = await aKeyOf(tenant, { rateLimit: 50, scopes: ["players:read"] });
      const answers = [
        await api.get("/api/v1/players/not-there", { key }),
        await api.get("/api/v1/players?limit=0", { key }),
        await api.post("/api/v1/players", {}, { key }),
        await api.get("/api/v1/players", { key, headers: { "X-Project-ID": tenant.tenantId } }),
      ];
      assert.deepEqual(pluck(answers, "status"), [404, 400, 403, 403]);
      assert.deepEqual(answers.map(numbers), [
        [50, 49],
        [50, 48],
        [50, 47],
        [50, 46],
      ]);
    });

    it("of FREE are those of the specification", async () => {
      const { of, keys } = await aTenantOn(0, {});
      await setPlan(of, "FREE");
      assert.deepEqual(numbers(await use(keys[0]!)), [100, 99]);
      await setPlan(of, "STARTER");
      assert.deepEqual(numbers(await use(keys[0]!)), [500, 498]);
      await setPlan(of, "PRO");
      assert.deepEqual(numbers(await use(keys[0]!)), [1_000, 997]);
    });

    it("of a new plan apply within the minute that runs", async () => {
      const { of, keys } = await aTenantOn(1, {});
      await use(keys[0]!);
      assertError(await use(keys[0]!), 429, "PROJECT_RATE");
      await setPlan(of, "STARTER");
      assert.deepEqual(numbers(await use(keys[0]!)), [500, 497]);
    });

    it("of a key are never over its plan's, and come before the project's", async () => {
      const { keys } = await aTenantOn(4, { rateLimit: 2 }, { rateLimit: 1_000 });
      const [narrow, wide] = keys as [string, string];
      assert.deepEqual(numbers(await use(narrow)), [2, 1]);
      await use(narrow);
      assertError(await use(narrow), 429, "KEY_RATE");
      assert.deepEqual(numbers(await use(wide)), [4, 1], "what the key's limit refused is not the project's");
      await use(wide);
      assertError(await use(wide), 429, "PROJECT_RATE");
    });

    it("are none, and told by no header, without a limit of plan and key", async () => {
      const answer = await use(tenant.key);
      assert.equal(answer.status, 200);
      assert.equal(limitOf(answer), undefined);
    });

    it("count a batch as one request", async () => {
      const key = await aKeyOf(tenant, { rateLimit: 5 });
      const events = Array.from({ length: 50 }, (_, i) => ({ eventType: "e", externalUserId: `u${i}` }));
      const answer = await api.post("/api/v1/events/batch", { events }, { key });
      assert.deepEqual(numbers(answer), [5, 4]);
    });
  });

  describe("of users", () => {
    it("are 600 a minute for each, wherever they ask from, and 1,800 reads", async () => {
      const { token } = await aMember(api, tenant.tenantId, "VIEWER");
      assert.deepEqual(numbers(await api.get("/api/v1/projects", { token })), [1_800, 1_799]);
      const refused = await api.post("/api/v1/projects", { name: "A game" }, { token });
      assertError(refused, 403, "INSUFFICIENT_ROLE");
      assert.deepEqual(numbers(refused), [600, 599]);
      const { id } = await me(token);
      await api.app.limiter.consume(LIMITS.user, id, 600);
      assertError(await api.post("/api/v1/projects", { name: "A game" }, { token }), 429, "USER_RATE");
      assert.equal((await api.get("/api/v1/projects", { token })).status, 200);
      await api.app.limiter.consume(LIMITS.userReads, id, 1_800);
      assertError(await api.get("/api/v1/projects", { token }), 429, "USER_RATE");
      assert.equal((await api.get("/api/v1/projects", { token: tenant.token })).status, 200);
    });
    const me = async (token: string): Promise<{ id: string }> => {
      const [, payload = ""] = token.split(".");
      const { sub } = JSON.parse(Buffer.from(payload, "base64url").toString()) as { sub: string };
      return { id: sub };
    };
  });

  it("that a part deeper inside refuses by have the same headers", async () => {
    const state = { isAllowed: false, limit: 7, remaining: 0, windowSeconds: 60, resetAtMs: 30_500 };
    const http = await startTinyHttp([
      route({
        method: "get",
        path: "/deep",
        id: "deep",
        tag: "Test",
        summary: "Refuses",
        access: "public",
        project: "none",
        response: z.unknown(),
        outside: async () => {
          throw new RateLimited("LOGIN_THROTTLED", "Too many", state, 20_000);
        },
      }),
    ]);
    const { status, headers, json } = await http.send("GET", "/deep");
    await http.close();
    assert.deepEqual([status, json.error.code, json.error.reason], [429, "RATE_LIMITED", "LOGIN_THROTTLED"]);
    assert.equal(headers["retry-after"], "11");
    assert.deepEqual(
      ["limit", "remaining", "reset"].map((name) => headers[`x-ratelimit-${name}`]),
      ["7", "0", "31"],
    );
  });

  it("are listed for integrators, those of the plans too", async () => {
    const { data } = must(await api.get("/api/v1/limits"), 200);
    const named = (name: string) => data.find((limit: { name: string }) => limit.name === name);
    assert.deepEqual(
      [named("rate.ip").value, named("rate.ip").windowSeconds, named("rate.registration").windowSeconds],
      [300, 60, 3_600],
    );
    assert.equal(named("plan.FREE.requestsPerMinute").value, 100);
    assert.equal(named("plan.ENTERPRISE.requestsPerMinute"), undefined);
    assert.equal(new Set(data.map(({ name }: { name: string }) => name)).size, data.length);
  });
});
