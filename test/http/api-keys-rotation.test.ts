import assert from "node:assert/strict";
import { ApiKey } from "../../src/domain/accounts/api-keys/api-key.ts";
import { forgetKeys } from "../../src/domain/accounts/api-keys/authenticate.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { auditOf } from "../support/app/audit.ts";
import { must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

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

  it("without a grace period ends the old key at once", async () => {
    const { id, key } = await create();
    assert.equal((await use(key)).status, 200);
    const made = must(await rotate(id, { gracePeriodSeconds: 0 }), 201);
    assertError(await use(key), 401, "API_KEY_EXPIRED");
    assert.equal((await use(made.key)).status, 200);
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

  it("happens once: of several at once one wins, and a replaced key is not replaced again", async () => {
    const { id } = await create();
    const answers = await Promise.all(Array.from({ length: 5 }, () => rotate(id)));
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 409, 409, 409, 409]);
    assertError(await rotate(id), 409, "INVALID_STATE");
    const list = (await api.get(keysPath(), { token: tenant.token })).body;
    // The tenant's first key, the old one and the one new one.
    assert.equal(list.length, 3);
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

  it("is audited on the old key and names the new one", async () => {
    const { id } = await create();
    const made = must(await rotate(id), 201);
    const last = (await auditOf(api, id)).at(-1);
    assert.deepEqual([last?.action, last?.data.newKeyId], ["api_key.rotated", made.id]);
    assert(!JSON.stringify(last).includes(made.key.slice(17)));
  });
});
