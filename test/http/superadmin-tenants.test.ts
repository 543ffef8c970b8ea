import assert from "node:assert/strict";
import { sql } from "kysely";
import { newId } from "../../src/domain/kernel/ids.ts";
import type { ApprovalStatus } from "../../src/domain/kernel/caller.ts";
import { anAdmin } from "../support/app/admin.ts";
import { type Answer, aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

/** What an act takes. */
const bodyOf = (step: string): object =>
  step === "reject" || step === "suspend" ? { reason: "Because" } : {};

describe("tenants, for super-admins", () => {
  const api = madeOnce(startApp);
  const admin = madeOnce(() => anAdmin(api));
  const tenant = madeForEach(() => aTenant(api));

  const path = (step = "", id = tenant.tenantId) => `/api/v1/superadmin/tenants/${id}${step}`;
  const act = (step: string, body: object = {}): Promise<Answer> =>
    api.post(path(`/${step}`), body, { token: admin.token });
  const get = () => api.get(path(), { token: admin.token });
  const list = async (query: string) =>
    must(await api.get(`/api/v1/superadmin/tenants?${query}`, { token: admin.token }), 200);
  const setStatus = (status: ApprovalStatus) =>
    api.app.transact(({ db }) =>
      sql`update tenants set approval_status = ${status} where id = ${tenant.tenantId}::uuid`.execute(db),
    );
  const ownLog = async (): Promise<{ action: string; actor: string; data: Record<string, unknown> }[]> =>
    must(await api.get("/api/v1/audit-log?limit=100", { token: tenant.token }), 200).data;

  it("are shown with what holds for them and what they have", async () => {
    await aMember(api, tenant.tenantId, "VIEWER");
    const body = must(await get(), 200);
    assert.deepEqual(body.counts, { projects: 1, members: 2, activeKeys: 1 });
    assert.deepEqual(
      [body.id, body.name, body.approvalStatus, body.plan, body.planOverrides],
      [tenant.tenantId, "Test Studio", "APPROVED", "ENTERPRISE", {}],
    );
    assert.deepEqual([body.limits.members, body.limits.webhooks], ["unlimited", 50]);
  });

  it("are listed by page, filtered, searched by name or an OWNER's address, and sorted", async () => {
    const mark = newId().slice(-12);
    const rename = (name: string, { tenantId }: Tenant) =>
      api.app.transact(({ db }) =>
        sql`update tenants set name = ${name}, plan = 'PRO' where id = ${tenantId}::uuid`.execute(db),
      );
    const other = await aTenant(api);
    await rename(`b 100% ${mark}`, tenant);
    await rename(`a 100% ${mark}`, other);
    const ids = async (query: string) => (await list(query)).data.map(({ id }: { id: string }) => id);
    assert.deepEqual(await ids(`search=${mark}&sort=name&order=asc`), [other.tenantId, tenant.tenantId]);
    assert.deepEqual(await ids(`search=${mark}`), [other.tenantId, tenant.tenantId]);
    assert.deepEqual(await ids(`search=${mark}&order=asc&limit=1&page=2`), [other.tenantId]);
    assert.deepEqual(await ids(`search=${encodeURIComponent(tenant.email.toUpperCase())}`), [
      tenant.tenantId,
    ]);
    assert.deepEqual(
      await ids(`search=${encodeURIComponent(`0% ${mark}`)}&plan=PRO`),
      await ids(`search=${mark}`),
    );
    assert.deepEqual(await ids(`search=${mark}&plan=FREE`), []);
    assert.deepEqual(await ids(`search=${encodeURIComponent("1_0")}${mark}`), []);
    await act("suspend", { reason: "Spam" });
    assert.deepEqual(await ids(`search=${mark}&approvalStatus=SUSPENDED`), [tenant.tenantId]);
    const page = await list(`search=${mark}&limit=1`);
    assert.deepEqual(page.pagination, { page: 1, limit: 1, total: 2, totalPages: 2 });
    for (const bad of ["sort=plan", "plan=GOLD", "approvalStatus=x", "limit=101", "search=", "bogus=1"])
      assertError(await api.get(`/api/v1/superadmin/tenants?${bad}`, { token: admin.token }), 400);
  });

  it("are approved, and their OWNER is told and sees who did it", async () => {
    await setStatus("PENDING");
    assert.equal(must(await act("approve"), 200).approvalStatus, "APPROVED");
    await aMailTo(tenant.email, /./);
    const [entry] = (await ownLog()).filter(({ action }) => action === "tenant.approved");
    assert.equal(entry?.actor, `admin:${admin.adminId}`);
    assertError(await act("approve"), 409, "INVALID_STATE");
  });

  it("are rejected with a reason", async () => {
    await setStatus("PENDING");
    const body = must(await act("reject", { reason: "A fake address" }), 200);
    assert.deepEqual([body.approvalStatus, body.approvalReason], ["REJECTED", "A fake address"]);
    assert.ok((await ownLog()).some(({ action }) => action === "tenant.rejected"));
    assert.equal(must(await act("approve"), 200).approvalReason, null);
  });

  it("are suspended: keys and members that were just served are refused at once", async () => {
    const useKey = () => api.get("/api/v1/players", { key: tenant.key });
    const useToken = () => api.get("/api/v1/projects", { token: tenant.token });
    for (const use of [useKey, useToken]) must(await use(), 200);
    must(await act("suspend", { reason: "Spam" }), 200);
    for (const use of [useKey, useToken]) assertError(await use(), 403, "TENANT_SUSPENDED");
    must(await act("unsuspend"), 200);
    for (const use of [useKey, useToken]) must(await use(), 200);
    const log = await ownLog();
    const [suspended] = log.filter(({ action }) => action === "tenant.suspended");
    assert.ok(suspended);
    assert.equal(suspended.actor, `admin:${admin.adminId}`);
    assert.equal(suspended.data["reason"], "Spam");
    assert.ok(log.some(({ action }) => action === "tenant.unsuspended"));
  });

  it("go only from the states that an act is for", async () => {
    const allowed: Record<string, ApprovalStatus[]> = {
      approve: ["PENDING", "REJECTED"],
      reject: ["PENDING"],
      suspend: ["APPROVED"],
      unsuspend: ["SUSPENDED"],
    };
    for (const [step, from] of Object.entries(allowed)) {
      for (const status of ["PENDING", "APPROVED", "REJECTED", "SUSPENDED"] as const) {
        await setStatus(status);
        const answer = await act(step, bodyOf(step));
        if (from.includes(status)) must(answer, 200);
        else assertError(answer, 409, "INVALID_STATE");
      }
    }
  });

  it("are changed by one of two who decide at once", async () => {
    await setStatus("PENDING");
    const answers = await Promise.all([act("approve"), act("reject", { reason: "No" }), act("approve")]);
    const statuses = answers.map(({ status }) => status).toSorted();
    assert.ok(statuses[0] === 200 && statuses.at(-1) === 409, String(statuses));
  });

  it("get plans and limits that requests feel, one limit at a time", async () => {
    const change = async (body: object) => must(await api.patch(path(), body, { token: admin.token }), 200);
    const free = await change({ plan: "FREE" });
    assert.deepEqual([free.plan, free.limits.requestsPerMinute], ["FREE", 100]);
    const limited = await change({ planOverrides: { requestsPerMinute: 7, members: "unlimited" } });
    assert.deepEqual(limited.planOverrides, { requestsPerMinute: 7, members: "unlimited" });
    assert.equal(limited.limits.members, "unlimited");
    const { headers } = await api.get("/api/v1/players", { key: tenant.key });
    assert.equal(headers.get("x-ratelimit-limit"), "7");
    const more = await change({ planOverrides: { requestsPerMinute: null, webhooks: 3 } });
    assert.deepEqual(more.planOverrides, { members: "unlimited", webhooks: 3 });
    assert.deepEqual([more.limits.requestsPerMinute, more.plan], [100, "FREE"]);
    const entries = (await ownLog()).filter(({ action }) => action === "tenant.plan_changed");
    assert.equal(entries.length, 3);
  });

  it("refuse ids that name nothing", async () => {
    for (const id of [newId(), "nonsense"]) {
      assertError(await api.get(path("", id), { token: admin.token }), 404);
      assertError(await api.patch(path("", id), { plan: "PRO" }, { token: admin.token }), 404);
      for (const step of ["approve", "reject", "suspend", "unsuspend"]) {
        const answer = await api.post(path(`/${step}`, id), bodyOf(step), { token: admin.token });
        assertError(answer, 404);
      }
    }
  });

  it("are counted", async () => {
    const stats = must(await api.get("/api/v1/superadmin/stats", { token: admin.token }), 200);
    const sum = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0);
    assert.equal(sum(stats.tenants.byApprovalStatus), stats.tenants.total);
    assert.equal(sum(stats.tenants.byPlan), stats.tenants.total);
    const before = stats;
    await aTenant(api);
    const after = must(await api.get("/api/v1/superadmin/stats", { token: admin.token }), 200);
    assert.deepEqual(
      [after.tenants.total, after.users, after.projects, after.activeKeys].map(Number),
      [before.tenants.total, before.users, before.projects, before.activeKeys].map((count) => count + 1),
    );
  });
});
