import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { anAdmin } from "../support/app/admin.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aJob } from "../support/app/jobs.ts";
import { aMember, type Member } from "../support/app/member.ts";
import { unique } from "../support/operations/bodies.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

describe("an answer that is kept for an idempotency key", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  type Credentials = { key?: string; token?: string };
  const post = (path: string, body: unknown, key: string, who: Credentials = { token: tenant.token }) =>
    api.post(`/api/v1${path}`, body, { ...who, headers: { "X-Idempotency-Key": key } });
  const patchMember = (member: Member, body: object) =>
    api.patch(`/api/v1/team/members/${member.userId}`, body, { token: tenant.token });
  const keysPath = () => `/projects/${tenant.projectId}/api-keys`;

  it("is not shown to a user whose role has changed since, and nothing is done twice", async () => {
    const admin = await aMember(api, tenant.tenantId, "ADMIN");
    const [key, body] = [randomUUID(), { name: "Manager", scopes: ["rules:manage"] }];
    must(await post(keysPath(), body, key, admin), 201);
    must(await patchMember(admin, { role: "DEVELOPER" }), 200);
    assertError(await post(keysPath(), body, key, admin), 422, "IDEMPOTENCY_KEY_REUSED");
    must(await patchMember(admin, { role: "VIEWER" }), 200);
    assertError(await post(keysPath(), body, key, admin), 403, "INSUFFICIENT_ROLE");
    const keys = must(await api.get(`/api/v1${keysPath()}`, { token: tenant.token }), 200) as unknown[];
    assert.equal(keys.length, 2);
  });

  it("is not shown to who was suspended, removed or disabled since", async () => {
    const admin = await anAdmin(api);
    const ends: [string, (member: Member) => Promise<unknown>, number, string][] = [
      ["suspended", (one) => patchMember(one, { status: "SUSPENDED" }), 403, "MEMBERSHIP_SUSPENDED"],
      [
        "removed",
        (one) => api.delete(`/api/v1/team/members/${one.userId}`, { token: tenant.token }),
        401,
        "SESSION_REVOKED",
      ],
      [
        "disabled",
        (one) => api.post(`/api/v1/superadmin/users/${one.userId}/disable`, { reason: "Fraud" }, admin),
        401,
        "SESSION_REVOKED",
      ],
    ];
    for (const [name, end, status, reason] of ends) {
      const member = await aMember(api, tenant.tenantId, "ADMIN");
      const key = randomUUID();
      must(await post(keysPath(), { name: `Of the ${name}` }, key, member), 201);
      await end(member);
      assertError(await post(keysPath(), { name: `Of the ${name}` }, key, member), status, reason);
    }
  });

  it("is not shown once its tenant is suspended", async () => {
    const [key, admin] = [randomUUID(), await anAdmin(api)];
    const body = { externalUserId: unique("user") };
    must(await post("/players", body, key, { key: tenant.key }), 201);
    must(await post(keysPath(), { name: "Suspended" }, key), 201);
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}/suspend`;
    must(await api.post(path, { reason: "Fraud" }, { token: admin.token }), 200);
    assertError(await post("/players", body, key, { key: tenant.key }), 403, "TENANT_SUSPENDED");
    assertError(await post(keysPath(), { name: "Suspended" }, key), 403, "TENANT_SUSPENDED");
  });

  it("is not shown once its project is deleted", async () => {
    const { id } = must(await api.post("/api/v1/projects", { name: "Brief" }, { token: tenant.token }), 201);
    const paths = [`/projects/${id}/api-keys`, `/projects/${id}/sandbox`, `/projects/${id}/sandbox/sync`];
    const sent = paths.map((path) => ({
      path,
      key: randomUUID(),
      body: path.endsWith("api-keys") ? { name: "A key" } : {},
    }));
    for (const { path, key, body } of sent) assert.ok((await post(path, body, key)).status < 300);
    must(await api.delete(`/api/v1/projects/${id}`, { token: tenant.token }), 200);
    for (const { path, key, body } of sent) assertError(await post(path, body, key), 404);
  });

  it("is not shown to a key that lost the scope, was revoked, or is of another project", async () => {
    const path = `/api/v1${keysPath()}`;
    const [key, body] = [randomUUID(), { externalUserId: unique("user") }];
    const made = must(await api.post(path, { name: "Server" }, { token: tenant.token }), 201);
    const first = must(await post("/players", body, key, { key: made.key }), 201);
    must(await api.patch(`${path}/${made.id}`, { scopes: ["players:read"] }, { token: tenant.token }), 200);
    assertError(await post("/players", body, key, { key: made.key }), 403, "INSUFFICIENT_SCOPE");
    must(await api.delete(`${path}/${made.id}`, { token: tenant.token }), 200);
    assertError(await post("/players", body, key, { key: made.key }), 401, "API_KEY_REVOKED");
    const { id } = must(await api.post("/api/v1/projects", { name: "Other" }, { token: tenant.token }), 201);
    const other = await aKey(api, { token: tenant.token, projectId: id });
    assert.notEqual(must(await post("/players", body, key, { key: other }), 201).id, first.id);
    const foreign = await aTenant(api);
    assert.notEqual(must(await post("/players", body, key, { key: foreign.key }), 201).id, first.id);
  });

  it("is not shown to a key of other scopes, whose requests have answers of their own", async () => {
    const keyOf = (scopes: string[]) => aKey(api, { ...tenant, scopes });
    const [players, rules] = [await keyOf(["players:write"]), await keyOf(["rules:manage"])];
    for (const [first, second] of [
      [players, rules],
      [rules, players],
    ] as const) {
      const id = await aJob(api.app, tenant.projectId, "QUEUED");
      const key = randomUUID();
      for (const one of [first, second, first]) {
        const answer = await post(`/jobs/${id}/cancel`, {}, key, { key: one });
        if (one === players) assert.equal(must(answer, 200).status, "CANCELLED");
        else assertError(answer, 404);
      }
    }
  });

  it("is shown to a key of the same scopes, whatever their order, and to a key's rotation", async () => {
    const scopes = ["players:write", "players:read"];
    const made = must(
      await api.post(`/api/v1${keysPath()}`, { name: "Server", scopes }, { token: tenant.token }),
      201,
    );
    const other = await aKey(api, { ...tenant, scopes: scopes.toReversed() });
    const [key, body] = [randomUUID(), { externalUserId: unique("user") }];
    const first = must(await post("/players", body, key, { key: made.key }), 201);
    const rotation = await api.post(`/api/v1${keysPath()}/${made.id}/rotate`, {}, { token: tenant.token });
    const rotated = must(rotation, 201).key as string;
    assert.notEqual(rotated, made.key);
    for (const one of [rotated, other]) {
      const again = await post("/players", body, key, { key: one });
      assert.deepEqual([again.status, again.body], [201, first]);
      assert.equal(again.headers.get("x-idempotent-replayed"), "true");
    }
  });

  it("tells texts apart that only look alike, and not how a body is spelled", async () => {
    const [key, composed, decomposed] = [randomUUID(), "caf\u00e9", "cafe\u0301"];
    const user = unique("user");
    const send = (text: string) => post("/players", text, key, { key: tenant.key });
    const first = must(await send(`{"externalUserId":"${user}","name":"${composed}"}`), 201);
    const spelled = await send(`{ "name" : "caf\\u00e9", "externalUserId":"x", "externalUserId":"${user}" }`);
    assert.deepEqual([spelled.status, spelled.body], [201, first]);
    const other = await send(`{"externalUserId":"${user}","name":"${decomposed}"}`);
    assertError(other, 422, "IDEMPOTENCY_KEY_REUSED");
  });
});
