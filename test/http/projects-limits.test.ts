import assert from "node:assert/strict";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { auditOf } from "../support/app/audit.ts";
import { must } from "../support/http/client.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

describe("the projects of a tenant", () => {
  const create = (body: object = {}) =>
    api.post("/api/v1/projects", { name: "Game", ...body }, { token: tenant.token });
  const names = async (query: string): Promise<string[]> =>
    must(await api.get(`/api/v1/projects${query}`, { token: tenant.token }), 200).data.map(
      ({ name }: { name: string }) => name,
    );

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  it("are exactly as many as the plan has, also when all come at once; sandboxes do not count", async () => {
    const { token, projectId } = tenant;
    await putOnPlan(api, tenant.tenantId, "STARTER");
    await aKey(api, { token, projectId, environment: "test" });
    const answers = await Promise.all(Array.from({ length: 6 }, () => create()));
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 201, 402, 402, 402, 402]);
    assertError(await create(), 402, "PLAN_LIMIT_EXCEEDED");
    must(await api.delete(`/api/v1/projects/${projectId}`, { token }), 200);
    must(await create(), 201);
    assertError(await create(), 402, "PLAN_LIMIT_EXCEEDED");
    await putOnPlan(api, tenant.tenantId, "STARTER", { projects: null });
    must(await create(), 201);
  });

  it("are sorted and searched by what is asked for", async () => {
    for (const name of ["Beta", "Alpha 100%", "Gamma_x"]) must(await create({ name }), 201);
    const found = await names("?sort=name&order=asc");
    assert.deepEqual(found, ["Alpha 100%", "Beta", "Gamma_x", "Test Game"]);
    assert.deepEqual(await names("?sort=name"), found.toReversed());
    assert.deepEqual(await names("?order=asc"), ["Test Game", "Beta", "Alpha 100%", "Gamma_x"]);
    const { token, projectId } = tenant;
    await api.patch(`/api/v1/projects/${projectId}`, { description: "Changed last" }, { token });
    assert.equal((await names("?sort=updatedAt&limit=1"))[0], "Test Game");
    assert.deepEqual(await names("?search=ALPHA"), ["Alpha 100%"]);
    assert.deepEqual(await names("?search=%25"), ["Alpha 100%"]);
    assert.deepEqual(await names("?search=_"), ["Gamma_x"]);
    assert.deepEqual(await names("?search=nothing"), []);
    for (const query of ["?sort=id"]) assertError(await api.get(`/api/v1/projects${query}`, { token }), 400);
  });

  it("write into the audit log who made, changed and deleted them", async () => {
    const { token, tenantId, userId } = tenant;
    const { id } = must(await create({ name: "Short-lived" }), 201);
    const change = { name: "Renamed", timezone: "Europe/Oslo", allowedOrigins: ["https://a.example"] };
    must(await api.patch(`/api/v1/projects/${id}`, change, { token }), 200);
    must(await api.delete(`/api/v1/projects/${id}`, { token }), 200);
    const lines = await auditOf(api, id);
    assert.deepEqual(
      lines.map(({ action }) => action),
      ["project.created", "project.updated", "project.deleted"],
    );
    for (const line of lines) assert.deepEqual([line.actor, line.tenant], [`user:${userId}`, tenantId]);
    assert.deepEqual(lines[1]?.data, { projectName: "Renamed", ...change });
  });
});
