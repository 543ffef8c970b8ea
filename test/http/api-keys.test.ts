import assert from "node:assert/strict";
import {
  ApiKey,
  authenticateKey,
  forgetKeys,
  newSecret,
} from "../../src/domain/accounts/api-keys/api-key.ts";
import { forgetSessions } from "../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Project } from "../../src/domain/accounts/projects/project.ts";
import type { Caller } from "../../src/domain/kernel/caller.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aKey, type Answer, aTenant, startApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Client, must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { aMailTo, mailsTo } from "../support/mail/mailbox.ts";
import { pluck } from "../support/pluck.ts";

describe("the making of API keys", () => {
  const keysPath = () => `/api/v1/projects/${tenant.projectId}/api-keys`;
  const create = (body: object = {}, token = tenant.token, on: Client = api): Promise<Answer> =>
    on.post(keysPath(), { name: "Server", ...body }, { token });

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  it("has room again for each key that was revoked or has expired", async () => {
    await putOnPlan(api, tenant.tenantId, "FREE", { activeKeysPerProject: 3 });
    const [first, second] = [must(await create(), 201), must(await create(), 201)];
    assertError(await create(), 402, "PLAN_LIMIT_EXCEEDED");
    await api.delete(`${keysPath()}/${first.id}`, { token: tenant.token });
    must(await create(), 201);
    assertError(await create(), 402, "PLAN_LIMIT_EXCEEDED");
    const expiresAt = new Date(Date.now() - 1);
    await api.app.transact(({ em }) => em.nativeUpdate(ApiKey, { id: second.id }, { expiresAt }));
    must(await create(), 201);
  });

  describe("where addresses must be proved", () => {
    const strict = madeForEach(() => anotherServer(api, { isVerifiedEmailRequired: true }));
    const prove = async (emailVerified: boolean) => {
      await api.app.transact(({ em }) => em.nativeUpdate(User, { id: tenant.userId }, { emailVerified }));
      forgetSessions();
    };

    it("needs a proved address for live keys only", async () => {
      await prove(false);
      assertError(await create({}, tenant.token, strict), 403, "EMAIL_NOT_VERIFIED");
      assertError(await create({ environment: "live" }, tenant.token, strict), 403, "EMAIL_NOT_VERIFIED");
      must(await create({ environment: "test" }, tenant.token, strict), 201);
      await prove(true);
      must(await create({}, tenant.token, strict), 201);
    });
  });

  describe("is told by email", () => {
    it("to every OWNER but the one who did it, for live keys and their rotation", async () => {
      const { email } = await aMember(api, tenant.tenantId, "OWNER");
      const developer = await aMember(api, tenant.tenantId, "DEVELOPER");
      const made = must(await create({ name: "Match maker" }), 201);
      const mail = await aMailTo(email, /key/i);
      assert.match(mail.text ?? "", /Match maker/);
      assert(mail.text?.includes(made.prefix) && !mail.text.includes(made.key));
      for (const quiet of [tenant.email, developer.email])
        assert(!mailsTo(quiet).some(({ text }) => text?.includes("Match maker")));
    });

    it("to all OWNERS when a DEVELOPER made it, and for no test key", async () => {
      const developer = await aMember(api, tenant.tenantId, "DEVELOPER");
      must(await create({ name: "Quiet key", environment: "test" }, developer.token), 201);
      must(await create({ name: "Loud key", scopes: ["events:write"] }, developer.token), 201);
      const mail = await aMailTo(tenant.email, /key/i);
      assert.match(mail.text ?? "", /Loud key/);
      assert(!mailsTo(tenant.email).some(({ text }) => text?.includes("Quiet key")));
    });

    it("to nobody by a server that sends no mail, which makes keys all the same", async () => {
      const { mail } = api.app.config;
      const mute = await anotherServer(api, { mail: { ...mail, mode: "off" } });
      await aMember(api, tenant.tenantId, "OWNER");
      must(await create({}, tenant.token, mute), 201);
    });
  });

  it("in a sandbox's name is refused: its keys are test keys of its project", async () => {
    must(await create({ environment: "test" }), 201);
    const { token, projectId } = tenant;
    const sandbox = await api.app.transact(({ em }) => em.findOneOrFail(Project, { sandboxOf: projectId }));
    const path = `/api/v1/projects/${sandbox.id}/api-keys`;
    assertError(await api.post(path, { name: "Server" }, { token }), 409, "INVALID_STATE");
    assertError(await api.get(path, { token }), 409, "INVALID_STATE");
  });
});

describe("the rotation of an API key", () => {
  const keysPath = (projectId = tenant.projectId) => `/api/v1/projects/${projectId}/api-keys`;
  const create = async (body: object = {}) =>
    must(
      await api.post(keysPath(), { name: "Server", scopes: ["*"], ...body }, { token: tenant.token }),
      201,
    );
  const rotate = (id: string, body: object = {}, token = tenant.token): Promise<Answer> =>
    api.post(`${keysPath()}/${id}/rotate`, body, { token });
  const read = async (id: string) => (await api.get(`${keysPath()}/${id}`, { token: tenant.token })).body;
  const use = (key: string) => api.get("/api/v1/projects", { key });
  const secondsLeft = ({ expiresAt }: { expiresAt: string }) => (Date.parse(expiresAt) - Date.now()) / 1_000;

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  it("makes a like key with a new secret, and the old one works on for a day and names it", async () => {
    const { key: oldSecret, ...old } = await create({ rateLimit: 60, metadata: { team: "a" } });
    const { key, ...made } = must(await rotate(old.id), 201);
    const same = ({ name, scopes, rateLimit, metadata, environment, projectId }: typeof old) => ({
      name,
      scopes,
      rateLimit,
      metadata,
      environment,
      projectId,
    });
    assert.deepEqual(same(made), same(old));
    assert.notEqual(made.id, old.id);
    assert.match(key, /^svc_live_[0-9A-Za-z]{42}$/);
    assert.equal(made.prefix, key.slice(0, 17));
    assert.deepEqual([made.expiresAt, made.lastUsedAt, made.status], [undefined, undefined, "ACTIVE"]);
    const replaced = await read(old.id);
    assert.equal(replaced.replacedBy, made.id);
    assert(Math.abs(secondsLeft(replaced) - 86_400) < 60);
    for (const secret of [key, oldSecret]) assert.equal((await use(secret)).status, 200);
  });

  it("lets the old key die with its grace period", async () => {
    const { id, key } = await create();
    must(await rotate(id, { gracePeriodSeconds: 3_600 }), 201);
    assert.equal((await use(key)).status, 200);
    // An hour later.
    const past = new Date(Date.now() - 1);
    await api.app.transact(({ em }) => em.nativeUpdate(ApiKey, { id }, { expiresAt: past }));
    forgetKeys();
    assertError(await use(key), 401, "API_KEY_EXPIRED");
    assert.equal((await read(id)).status, "EXPIRED");
  });

  it("never lets the old key live longer, and hands its expiry on unless told otherwise", async () => {
    const expiresAt = new Date(Date.now() + 60_000).toISOString();
    const { id } = await create({ expiresAt });
    const made = must(await rotate(id), 201);
    assert.equal((await read(id)).expiresAt, expiresAt);
    assert.equal(made.expiresAt, expiresAt);
    assert.equal(must(await rotate(made.id, { expiresAt: null }), 201).expiresAt, undefined);
    const { id: plain } = await create();
    assert.equal(must(await rotate(plain, { expiresAt }), 201).expiresAt, expiresAt);
    const past = { expiresAt: "2020-01-01T00:00:00Z" };
    assertError(await rotate((await create()).id, past), 400);
  });

  it("keeps a test key on the sandbox", async () => {
    const { id } = await create({ environment: "test" });
    const made = must(await rotate(id), 201);
    assert.match(made.key, /^svc_test_/);
    assert.equal(made.environment, "test");
    const { data } = (await api.get("/api/v1/projects", { key: made.key })).body;
    const sandboxId = data[0].sandboxProjectId;
    must(await api.post("/api/v1/players", { externalUserId: "ada" }, { key: made.key }), 201);
    const headers = { "X-Project-ID": sandboxId };
    const players = await api.get("/api/v1/players", { token: tenant.token, headers });
    assert.equal(players.body.pagination.total, 1);
  });

  it("of a revoked or an expired key is refused", async () => {
    const { id } = await create();
    await api.delete(`${keysPath()}/${id}`, { token: tenant.token });
    assertError(await rotate(id), 409, "INVALID_STATE");
    const expired = (await create()).id;
    const past = new Date(Date.now() - 1);
    await api.app.transact(({ em }) => em.nativeUpdate(ApiKey, { id: expired }, { expiresAt: past }));
    assertError(await rotate(expired), 409, "INVALID_STATE");
  });

  it("leaves a replaced key that can end sooner, but not later", async () => {
    const { id, key } = await create();
    must(await rotate(id, { gracePeriodSeconds: 600 }), 201);
    const path = `${keysPath()}/${id}`;
    const { token } = tenant;
    for (const expiresAt of [null, new Date(Date.now() + 700_000).toISOString()])
      assertError(await api.patch(path, { expiresAt }, { token }), 409, "INVALID_STATE");
    const sooner = new Date(Date.now() + 60_000).toISOString();
    assert.equal(must(await api.patch(path, { expiresAt: sooner }, { token }), 200).expiresAt, sooner);
    must(await api.delete(path, { token }), 200);
    assertError(await use(key), 401, "API_KEY_REVOKED");
  });

  it("works at the plan's limit of keys, where a further key does not", async () => {
    await putOnPlan(api, tenant.tenantId, "FREE");
    const made = [];
    for (let i = 0; i < 4; i++) made.push(await create());
    const { token } = tenant;
    assertError(await api.post(keysPath(), { name: "Sixth" }, { token }), 402, "PLAN_LIMIT_EXCEEDED");
    const rotated = must(await rotate(made[0].id), 201);
    must(await rotate(rotated.id), 201);
    assertError(await api.post(keysPath(), { name: "Sixth" }, { token }), 402, "PLAN_LIMIT_EXCEEDED");
  });

  it("by a DEVELOPER gives no secret of a key that a DEVELOPER could not make", async () => {
    const { token } = await aMember(api, tenant.tenantId, "DEVELOPER");
    const strong = await create({ scopes: ["events:write", "config:manage"] });
    assertError(await rotate(strong.id, {}, token), 403, "INSUFFICIENT_ROLE");
    const plain = await create({ scopes: ["events:write"] });
    must(await rotate(plain.id, {}, token), 201);
  });
});

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
      assert.deepEqual(pluck(await list(), "name"), ["Second", "Test key"]);
      await api.delete(`${keysPath(projectId)}/${made.id}`, { token });
      assert.deepEqual(pluck(await list(), "name"), ["Test key"]);
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
      const refuse = () => assert.fail("no transaction for a key that was refused a moment ago");
      await assert.rejects(authenticateKey(refuse, api.app.apiKeys, key), { reason: "API_KEY_REVOKED" });
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
      const first = await use(key);
      // A slow machine may come too late for it.
      assert.ok(first.status === 200 || Date.now() >= Date.parse(expiresAt));
      await eventuallyHolds(async () => assertError(await use(key), 401, "API_KEY_EXPIRED"));
      assert.equal((await api.get(`${keysPath()}/${id}`, { token: tenant.token })).body.status, "EXPIRED");
      assertError(await revoke(id), 409, "INVALID_STATE");
    });
  });
});
