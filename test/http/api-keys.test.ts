import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type Caller, SCOPES } from "../../src/domain/kernel/caller.ts";
import { ApiKey, newSecret } from "../../src/domain/accounts/api-keys/api-key.ts";
import { authenticateKey, forgetKeys } from "../../src/domain/accounts/api-keys/authenticate.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { resolveProject } from "../../src/domain/accounts/projects/project.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { aMember } from "../support/app/member.ts";
import { madeOnce } from "../support/made.ts";

describe("API keys", () => {
  const keysPath = (projectId = tenant.projectId) => `/api/v1/projects/${projectId}/api-keys`;
  const create = (body: object, token = tenant.token) =>
    api.post(keysPath(), { name: "Game server", ...body }, { token });
  const revoke = (id: string, token = tenant.token) => api.delete(`${keysPath()}/${id}`, { token });
  const use = (key: string) => api.get("/api/v1/projects", { key });
  const callerOf = (key: string): Promise<Caller> => authenticateKey(api.app.transact, api.app.apiKeys, key);

  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  describe("when created", () => {
    it("show the secret once and then exactly the documented fields", async () => {
      const { status, body } = await create({});
      assert.equal(status, 201);
      const { key, ...apiKey } = body;
      assert.match(key, /^svc_live_[0-9A-Za-z]{42}$/);
      const { id, createdAt, updatedAt, ...rest } = apiKey;
      assert.equal(createdAt, updatedAt);
      assert.deepEqual(rest, {
        projectId: tenant.projectId,
        name: "Game server",
        prefix: key.slice(0, 17),
        environment: "live",
        createdBy: `user:${tenant.userId}`,
        scopes: ["events:write", "players:read", "players:write"],
        status: "ACTIVE",
        metadata: {},
        deletedAt: null,
      });
      assert.deepEqual((await api.get(`${keysPath()}/${id}`, { token: tenant.token })).body, apiKey);
      const stored = await api.app.transact(({ em }) => em.findOneOrFail(ApiKey, { id }));
      assert(!JSON.stringify(stored).includes(key.slice(17)));
    });

    it("keep rate limit, expiry and metadata", async () => {
      const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
      const metadata = { team: "backend", rotation: { days: 30 } };
      const { body } = await create({ rateLimit: 50, expiresAt, metadata });
      assert.deepEqual([body.rateLimit, body.expiresAt, body.metadata], [50, expiresAt, metadata]);
    });

    it("have stars expanded to the scopes of today", async () => {
      assert.deepEqual((await create({ scopes: ["*"] })).body.scopes, SCOPES);
      assert.deepEqual((await create({ scopes: ["rules:*"] })).body.scopes, ["rules:read", "rules:manage"]);
    });

    it("by a DEVELOPER may not carry what a DEVELOPER may not do", async () => {
      const { token } = await aMember(api, tenant.tenantId, "DEVELOPER");
      for (const scope of ["rules:manage", "leaderboards:manage", "config:manage", "*", "rules:*"]) {
        assertError(await create({ scopes: [scope] }, token), 403, "INSUFFICIENT_ROLE");
      }
      assert.equal((await create({ scopes: ["events:*", "players:*", "rules:read"] }, token)).status, 201);
    });

    it("for tests share one sandbox, also when made at once", async () => {
      const { token, projectId } = await aTenant(api);
      const keys = await Promise.all(
        Array.from({ length: 4 }, () => aKey(api, { token, projectId, environment: "test" })),
      );
      const callers = await Promise.all(keys.map(callerOf));
      const { sandboxProjectId } = (await api.get(`/api/v1/projects/${projectId}`, { token })).body;
      for (const caller of callers) {
        assert(caller.kind === "key");
        assert.deepEqual(
          [caller.projectId, caller.ownerProjectId, caller.isTest],
          [sandboxProjectId, projectId, true],
        );
      }
      const listed = (await api.get(keysPath(projectId), { token })).body;
      assert(listed.every((key: { projectId: string }) => key.projectId === projectId));
      assertError(await api.get(keysPath(sandboxProjectId), { token }), 409, "INVALID_STATE");
    });
  });

  describe("when listed", () => {
    it("are a bare array, newest first, revoked ones only on request", async () => {
      const { token, projectId } = await aTenant(api);
      const made = (await api.post(keysPath(projectId), { name: "Second" }, { token })).body;
      const list = async (query = "") => (await api.get(keysPath(projectId) + query, { token })).body;
      assert.deepEqual(
        (await list()).map(({ name }: { name: string }) => name),
        ["Second", "Test key"],
      );
      await api.delete(`${keysPath(projectId)}/${made.id}`, { token });
      assert.deepEqual(
        (await list()).map(({ name }: { name: string }) => name),
        ["Test key"],
      );
      assert.equal((await list("?includeRevoked=false")).length, 1);
      const [revoked, active] = await list("?includeRevoked=true");
      assert.deepEqual([revoked.status, active.status], ["REVOKED", "ACTIVE"]);
      assertError(await api.get(`${keysPath(projectId)}?includeRevoked=maybe`, { token }), 400);
    });
  });

  describe("when revoked", () => {
    it("stop working at once in this process and stay revoked", async () => {
      const { id, key } = (await create({ scopes: ["*"] })).body;
      assert.equal((await use(key)).status, 200);
      const { status, body } = await revoke(id);
      assert.equal(status, 200);
      assert.equal(body.status, "REVOKED");
      assert.equal(body.deletedAt, body.updatedAt);
      assertError(await use(key), 401, "API_KEY_REVOKED");
      assertError(await revoke(id), 409, "INVALID_STATE");
    });

    it("are revoked by exactly one of several who try at once", async () => {
      const { id } = (await create({})).body;
      const answers = await Promise.all(Array.from({ length: 4 }, () => revoke(id)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409, 409, 409]);
    });

    it("die within 5 seconds in a process that was not told", async () => {
      const { id, key } = (await create({ scopes: ["*"] })).body;
      assert.equal((await use(key)).status, 200);
      await api.app.transact(async ({ em }) => {
        (await em.findOneOrFail(ApiKey, { id })).status = "REVOKED";
      });
      await eventuallyHolds(async () => assertError(await use(key), 401, "API_KEY_REVOKED"));
    });
  });

  describe("when used", () => {
    it("are refused when unknown, and without a look at the database when malformed", async () => {
      assertError(await use(newSecret("live")), 401, "API_KEY_INVALID");
      const refuse = () => assert.fail("no transaction for a malformed key");
      for (const text of [
        "",
        "svc_live_short",
        `${tenant.key.slice(0, -1)}_`,
        tenant.key.replace("live", "test"),
      ]) {
        await assert.rejects(
          authenticateKey(refuse, api.app.apiKeys, text),
          (error) => error instanceof DomainError && error.reason === "API_KEY_INVALID",
        );
      }
    });

    it("work from X-API-Key alone", async () => {
      assert.equal(
        (await api.get(`/api/v1/projects?apiKey=${tenant.key}`, { isUnchecked: true })).status,
        401,
      );
      assertError(
        await api.get("/api/v1/projects", { headers: { Authorization: tenant.key } }),
        401,
        "TOKEN_INVALID",
      );
    });

    it("note the use once a minute", async () => {
      const { id, key } = (await create({ scopes: ["*"] })).body;
      const lastUsedAt = async () =>
        (await api.get(`${keysPath()}/${id}`, { token: tenant.token })).body.lastUsedAt;
      assert.equal(await lastUsedAt(), undefined);
      await use(key);
      await eventuallyHolds(async () => assert.notEqual(await lastUsedAt(), undefined));
      const noted = await lastUsedAt();
      forgetKeys();
      await use(key);
      assert.equal(await lastUsedAt(), noted);
    });

    it("end with their expiry", async () => {
      const expiresAt = new Date(Date.now() + 700).toISOString();
      const { id, key } = (await create({ scopes: ["*"], expiresAt })).body;
      assert.equal((await use(key)).status, 200);
      await eventuallyHolds(async () => assertError(await use(key), 401, "API_KEY_EXPIRED"));
      assert.equal((await api.get(`${keysPath()}/${id}`, { token: tenant.token })).body.status, "EXPIRED");
      assertError(await revoke(id), 409, "INVALID_STATE");
    });
  });

  describe("and the project of a request", () => {
    const resolve = async (caller: Caller, requested?: string) =>
      (await resolveProject(api.app.transact, caller, requested)).projectId;
    const refuses = (promise: Promise<unknown>, code: string, reason?: string) =>
      assert.rejects(
        promise,
        (error) => error instanceof DomainError && error.code === code && error.reason === reason,
      );

    it("is the key's own, and for a test key its sandbox", async () => {
      const { token, projectId } = tenant;
      const live = await callerOf(tenant.key);
      const test = await callerOf(await aKey(api, { token, projectId, environment: "test" }));
      assert(test.kind === "key");
      assert.equal(await resolve(live), projectId);
      assert.equal(await resolve(live, projectId), projectId);
      for (const wish of [undefined, projectId, test.projectId])
        assert.equal(await resolve(test, wish), test.projectId);
      await refuses(resolve(live, test.projectId), "FORBIDDEN", "PROJECT_MISMATCH");
      await refuses(resolve(live, randomUUID()), "FORBIDDEN", "PROJECT_MISMATCH");
    });

    it("is for a console user the one named, else the tenant's only one, sandboxes not counted", async () => {
      const mine = await aTenant(api);
      const { token, tenantId, userId, projectId } = mine;
      const user: Caller = {
        kind: "user",
        userId,
        tenantId,
        role: "OWNER",
        sessionId: randomUUID(),
        status: "ACTIVE",
        emailVerified: true,
        tenant: { plan: "ENTERPRISE", planOverrides: {}, approvalStatus: "APPROVED" },
      };
      await aKey(api, { token, projectId, environment: "test" });
      assert.equal(await resolve(user), projectId);
      await refuses(resolve(user, tenant.projectId), "NOT_FOUND");
      await refuses(resolve(user, "x"), "NOT_FOUND");
      const second = await api.post("/api/v1/projects", { name: "Second" }, { token });
      await assert.rejects(resolve(user), /X-Project-ID/);
      assert.equal(await resolve(user, second.body.id), second.body.id);
      for (const id of [projectId, second.body.id]) await api.delete(`/api/v1/projects/${id}`, { token });
      await refuses(resolve(user), "VALIDATION_ERROR", "PROJECT_REQUIRED");
      await refuses(resolve({ kind: "anonymous" }), "UNAUTHORIZED", "CREDENTIALS_MISSING");
    });
  });
});
