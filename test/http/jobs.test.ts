import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aKey, aTenant, startApp, type Tenant, type TestApp } from "../support/app.ts";
import { assertError } from "../support/assert-error.ts";
import { auditOf } from "../support/audit.ts";
import { must } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { aJob } from "../support/jobs.ts";
import { aMember } from "../support/member.ts";

describe("jobs of a project", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const get = (path: string, key = tenant.key) => api.get(`/api/v1/jobs${path}`, { key });
  const cancel = (id: string, key = tenant.key) => api.post(`/api/v1/jobs/${id}/cancel`, {}, { key });
  const make = (status: "QUEUED" | "SUCCEEDED" = "QUEUED") => aJob(api.app, tenant.projectId, status);

  it("are shown while they wait, and with a result when they are done", async () => {
    const id = await make();
    const job = must(await get(`/${id}`), 200);
    const { createdAt, ...rest } = job;
    assert.ok(Date.parse(createdAt));
    assert.deepEqual(rest, {
      id,
      kind: "BULK_GRANT",
      status: "QUEUED",
      progress: 0,
      error: null,
      createdBy: "system",
      finishedAt: null,
    });
    assertError(await get(`/${id}/result`), 409, "INVALID_STATE");
    const done = await make("SUCCEEDED");
    assert.deepEqual(must(await get(`/${done}/result`), 200), { granted: 1 });
  });

  it("are done by the worker that is rung for", async () => {
    const body = { playerIds: [randomUUID()], bundle: { xp: 5 }, reason: "test" };
    const { id } = must(await api.post("/api/v1/grants/bulk", body, { key: tenant.key }), 201);
    await eventually(async () => must(await get(`/${id}`), 200).status === "SUCCEEDED");
    must(await get(`/${id}/result`), 200);
  });

  it("are cancelled once, which is told in the audit log", async () => {
    const id = await make();
    const cancelled = must(await cancel(id), 200);
    assert.equal(cancelled.status, "CANCELLED");
    assert.deepEqual(must(await get(`/${id}`), 200), cancelled);
    assertError(await cancel(id), 409, "INVALID_STATE");
    assertError(await cancel(await make("SUCCEEDED")), 409, "INVALID_STATE");
    assert.deepEqual(
      (await auditOf(api, id)).map(({ action }) => action),
      ["job.cancelled"],
    );
  });

  it("are listed newest first, by kind and state", async () => {
    const owner = await aTenant(api);
    const ids: string[] = [];
    for (const status of ["QUEUED", "SUCCEEDED", "QUEUED"] as const)
      ids.push(await aJob(api.app, owner.projectId, status));
    const list = async (query: string) => {
      const { data, pagination } = must(await get(query, owner.key), 200);
      return [data.map((job: { id: string }) => ids.indexOf(job.id)), pagination.total];
    };
    assert.deepEqual(await list(""), [[2, 1, 0], 3]);
    assert.deepEqual(await list("?status=QUEUED"), [[2, 0], 2]);
    assert.deepEqual(await list("?kind=BULK_GRANT&limit=1&page=3"), [[0], 3]);
    assert.deepEqual(await list("?kind=OTHER"), [[], 0]);
    assertError(await get("?status=LOST", owner.key), 400);
    assertError(await get("?page=0", owner.key), 400);
  });

  it("are for who may, and for nobody of another project", async () => {
    const id = await make("SUCCEEDED");
    const other = await aTenant(api);
    for (const path of [`/${id}`, `/${id}/result`]) {
      assertError(await get(path, other.key), 404);
      assertError(await api.get(`/api/v1/jobs${path}`), 401, "CREDENTIALS_MISSING");
    }
    for (const path of [`/${randomUUID()}`, "/none"]) assertError(await get(path), 404);
    assertError(await cancel(await make(), other.key), 404);
    assert.equal((await get("", other.key)).body.pagination.total, 0);
    const reader = await aKey(api, { ...tenant, scopes: ["config:read"] });
    assert.equal((await get(`/${id}`, reader)).status, 200);
    assertError(await get(`/${id}/result`, reader), 403, "INSUFFICIENT_SCOPE");
    assertError(await cancel(id, reader), 403, "INSUFFICIENT_SCOPE");
    const { token } = await aMember(api, tenant.tenantId, "DESIGNER");
    assert.equal((await api.get(`/api/v1/jobs/${id}`, { token })).status, 200);
    assertError(await api.get(`/api/v1/jobs/${id}/result`, { token }), 403, "INSUFFICIENT_ROLE");
  });
});
