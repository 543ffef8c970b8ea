import assert from "node:assert/strict";
import { z } from "zod";
import type { Work } from "../../src/domain/kernel/work.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { type Decision, decideTenant, setPlan } from "../../src/domain/accounts/tenants/approval.ts";
import { deleteDueTenants } from "../../src/domain/accounts/tenants/tenants.ts";
import type { Tenant as TenantRow } from "../../src/domain/accounts/tenants/tenant.ts";
import type { ApprovalStatus } from "../../src/domain/kernel/caller.ts";
import { route } from "../../src/http/route.ts";
import { aMember } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { aMailTo, mailsTo } from "../support/mail/mailbox.ts";
import { anInvitation, putTenant } from "../support/operations/sso.ts";

const TENANT = "/api/v1/tenant";

/** A tenant of each test's own, with what tests of tenants do. */
const ownTenant = () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  return {
    api,
    tenant,
    get: async (token = tenant.token) => must(await api.get(TENANT, { token }), 200),
    patch: (body: unknown, token = tenant.token): Promise<Answer> => api.patch(TENANT, body, { token }),
    post: (path: string, body: unknown = {}, token = tenant.token): Promise<Answer> =>
      api.post(`${TENANT}/${path}`, body, { token }),
    /** What its audit log tells. */
    actions: async (): Promise<string[]> =>
      must(await api.get("/api/v1/audit-log", { token: tenant.token }), 200).data.map(
        ({ action }: { action: string }) => action,
      ),
    /** As a super-admin's operation does it. */
    asAdmin: <T>(run: (work: Work) => Promise<T>): Promise<T> =>
      api.app.transactAs({ role: "accounts" })(run),
    useKey: (): Promise<Answer> => api.get("/api/v1/projects", { key: tenant.key }),
    useToken: (): Promise<Answer> => api.get("/api/v1/projects", { token: tenant.token }),
  };
};

describe("a tenant is", () => {
  const { api, tenant, get, patch, post, actions, asAdmin, useKey, useToken } = ownTenant();

  describe("approved, rejected, suspended", () => {
    const decide = (work: Work, tenantId: string, decision: Decision, reason?: string): Promise<TenantRow> =>
      decideTenant(work, api.app.mail, { tenantId, decision, reason });
    type Act = (work: Work, tenantId: string) => Promise<TenantRow>;
    const acts: Record<string, { run: Act; from: ApprovalStatus[]; to: ApprovalStatus }> = {
      approved: {
        run: (work, id) => decide(work, id, "approve"),
        from: ["PENDING", "REJECTED"],
        to: "APPROVED",
      },
      rejected: {
        run: (work, id) => decide(work, id, "reject", "No games here"),
        from: ["PENDING"],
        to: "REJECTED",
      },
      suspended: {
        run: (work, id) => decide(work, id, "suspend", "Abuse"),
        from: ["APPROVED"],
        to: "SUSPENDED",
      },
      unsuspended: {
        run: (work, id) => decide(work, id, "unsuspend"),
        from: ["SUSPENDED"],
        to: "APPROVED",
      },
    };

    for (const name of Object.keys(acts)) {
      it(`as the table says: ${name}`, async () => {
        const { run, from, to } = acts[name]!;
        for (const status of ["PENDING", "APPROVED", "REJECTED", "SUSPENDED"] as const) {
          await putTenant(tenant.tenantId, { approvalStatus: status });
          const act = asAdmin((work) => run(work, tenant.tenantId));
          if (from.includes(status)) assert.equal((await act).approvalStatus, to);
          else await assert.rejects(act, { reason: "INVALID_STATE" });
        }
        await assert.rejects(
          asAdmin((work) => run(work, tenant.userId)),
          { code: "NOT_FOUND" },
        );
        await aMailTo(tenant.email, name === "unsuspended" ? /no longer suspended/ : new RegExp(name, "i"));
        await putTenant(tenant.tenantId, { approvalStatus: "APPROVED" });
        assert((await actions()).includes(`tenant.${name}`));
      });
    }
    it("and while suspended all keys and most of its people's doors are shut, at once", async () => {
      assert.equal((await useKey()).status, 200);
      assert.equal((await useToken()).status, 200);
      await asAdmin((work) => decide(work, tenant.tenantId, "suspend", "Abuse"));
      assertError(await useKey(), 403, "TENANT_SUSPENDED");
      assertError(await useToken(), 403, "TENANT_SUSPENDED");
      assertError(await api.get("/api/v1/team/members", { token: tenant.token }), 403, "TENANT_SUSPENDED");
      assertError(await patch({ name: "New" }), 403, "TENANT_SUSPENDED");
      const event = { externalUserId: "a", eventType: "b" };
      assertError(await api.post("/api/v1/events", event, { key: tenant.key }), 403, "TENANT_SUSPENDED");
      const { approvalStatus, approvalReason } = await get();
      assert.deepEqual([approvalStatus, approvalReason], ["SUSPENDED", "Abuse"]);
      const { email, password } = tenant;
      const { accessToken, refreshToken } = must(
        await api.post("/api/v1/auth/login", { email, password }),
        200,
      );
      assert.equal((await get(accessToken)).approvalStatus, "SUSPENDED");
      const refresh = () => api.post("/api/v1/auth/refresh", { refreshToken });
      assertError(await refresh(), 403, "TENANT_SUSPENDED");
      await asAdmin((work) => decide(work, tenant.tenantId, "unsuspend"));
      must(await refresh(), 200);
      assert.equal((await useKey()).status, 200);
      assert.equal((await useToken()).status, 200);
      assert.equal((await get()).approvalReason, undefined);
    });

    it("and before approval only what needs it is shut", async () => {
      const guarded = route({
        method: "get",
        path: "/guarded",
        id: "guarded",
        tag: "Test",
        summary: "Needs approval",
        access: { scope: "projects:read", roles: ["OWNER"], needs: { approval: true } },
        project: "none",
        response: z.object({ isOpen: z.literal(true) }),
        outside: async () => ({ isOpen: true as const }),
      });
      const http = await startTinyHttp([guarded], { ...api.app });
      try {
        const ask = async (headers: Record<string, string>) => {
          const { status, json } = await http.send("GET", "/api/v1/guarded", { headers });
          return [status, json.error?.reason];
        };
        const credentials = [{ "X-API-Key": tenant.key }, { Authorization: `Bearer ${tenant.token}` }];
        for (const headers of credentials) assert.deepEqual(await ask(headers), [200, undefined]);
        for (const status of ["PENDING", "REJECTED"] as const) {
          // Through a super-admin's act and back, so that nothing is remembered.
          await putTenant(tenant.tenantId, { approvalStatus: "PENDING" });
          if (status === "REJECTED") await asAdmin((work) => decide(work, tenant.tenantId, "reject", "No"));
          else await asAdmin((work) => setPlan(work, tenant.tenantId, {}));
          for (const headers of credentials) assert.deepEqual(await ask(headers), [403, "APPROVAL_REQUIRED"]);
          assert.equal((await useKey()).status, 200);
          assert.equal((await useToken()).status, 200);
        }
      } finally {
        await http.close();
      }
    });

    it("again when a rejected one's OWNER asks, once a day", async () => {
      assertError(await post("approval-request"), 409, "INVALID_STATE");
      await putTenant(tenant.tenantId, { approvalStatus: "REJECTED", approvalReason: "No" });
      const admin = await aMember(api, tenant.tenantId, "ADMIN");
      assertError(await post("approval-request", {}, admin.token), 403, "INSUFFICIENT_ROLE");
      const asked = must(await post("approval-request"), 200);
      assert.deepEqual([asked.approvalStatus, asked.approvalReason], ["PENDING", undefined]);
      assertError(await post("approval-request"), 409, "INVALID_STATE");
      await asAdmin((work) => decide(work, tenant.tenantId, "reject", "No again"));
      assertError(await post("approval-request"), 409, "APPROVAL_REQUESTED_RECENTLY");
      assert.equal((await get()).approvalStatus, "REJECTED");
      await putTenant(tenant.tenantId, { approvalRequestedAt: new Date(Date.now() - 25 * 3_600_000) });
      must(await post("approval-request"), 200);
    });

    it("without a mail to those who are no active OWNERs", async () => {
      const admin = await aMember(api, tenant.tenantId, "ADMIN");
      const former = await aMember(api, tenant.tenantId, "OWNER", "SUSPENDED");
      await asAdmin((work) => decide(work, tenant.tenantId, "suspend", "Abuse"));
      await aMailTo(tenant.email, /suspended/i);
      for (const { email } of [admin, former]) assert.deepEqual(mailsTo(email), []);
    });
  });
});

const WRONG = "Wrong-Password-1";

describe("the tenant", () => {
  const { api, tenant, get, patch, post, actions, asAdmin, useKey, useToken } = ownTenant();
  const remove = (currentPassword?: string, token = tenant.token): Promise<Answer> =>
    api.request("DELETE", TENANT, { token, body: { currentPassword } });

  describe("shows itself", () => {
    it("with limits and use to all of its people", async () => {
      await anInvitation(tenant);
      for (const role of ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER", "VIEWER"] as const) {
        const { token } = await aMember(api, tenant.tenantId, role);
        assert.equal((await get(token)).id, tenant.tenantId);
      }
      const { id, createdAt, updatedAt, limits, ...rest } = await get();
      assert.deepEqual([id, createdAt], [tenant.tenantId, updatedAt]);
      assert.equal(limits.activeKeysPerProject, 500);
      assert.deepEqual(rest, {
        name: "Test Studio",
        plan: "ENTERPRISE",
        approvalStatus: "APPROVED",
        features: ["webhooks", "customDomains", "sso"],
        usage: { projects: 1, members: 7 },
        redirectUris: [],
        linkDomain: null,
        requireSecondFactor: false,
      });
    });
  });

  describe("is changed", () => {
    it("by OWNER and ADMIN, and the log tells", async () => {
      const { token } = await aMember(api, tenant.tenantId, "ADMIN");
      const redirectUris = ["https://console.example.com/in?x=1", "http://localhost:5173/in"];
      assert.equal(must(await patch({ name: "  New Studio " }, token), 200).name, "New Studio");
      assert.deepEqual(must(await patch({ redirectUris }), 200).redirectUris, redirectUris);
      assert.deepEqual((await get()).redirectUris, redirectUris);
      assert.equal((await get()).name, "New Studio");
      assert.deepEqual((await actions()).slice(0, 2), ["tenant.updated", "tenant.updated"]);
      for (const role of ["DESIGNER", "DEVELOPER", "VIEWER"] as const) {
        const member = await aMember(api, tenant.tenantId, role);
        assertError(await patch({ name: "Mine" }, member.token), 403, "INSUFFICIENT_ROLE");
      }
      assertError(await api.patch(TENANT, { name: "Mine" }), 401, "CREDENTIALS_MISSING");
    });

    it("in where tokens travel to by an OWNER alone, whatever a process remembers of them", async () => {
      const admin = await aMember(api, tenant.tenantId, "ADMIN");
      for (const redirectUris of [["https://evil.example/in"], []])
        assertError(await patch({ name: "Mine", redirectUris }, admin.token), 403, "INSUFFICIENT_ROLE");
      assertError(await patch({ redirectUris: ["no uri"] }, admin.token), 403, "INSUFFICIENT_ROLE");
      const owner = await aMember(api, tenant.tenantId, "OWNER");
      must(await patch({ redirectUris: ["https://good.example/in"] }, owner.token), 200);
      await api.app.transact(({ em }) => em.nativeUpdate(User, { id: owner.userId }, { role: "ADMIN" }));
      const late = await patch({ redirectUris: ["https://evil.example/in"] }, owner.token);
      assertError(late, 403, "INSUFFICIENT_ROLE");
      const { name, redirectUris } = await get();
      assert.deepEqual([name, redirectUris], ["Test Studio", ["https://good.example/in"]]);
    });

    it("to no address that tokens must not travel to", async () => {
      for (const uri of [
        "http://console.example.com/in",
        "https://user:pw@example.com/in",
        "https://user@example.com/in",
        "https://example.com/in#fragment",
        "https://example.com/in#",
        "https://EXAMPLE.com/in",
        "https://example.com:443/in",
        "https://example.com/a/../in",
        "//example.com/in",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://localhost.example.com/",
        "http://[::1]/",
        "",
        "x",
      ])
        assertError(await patch({ redirectUris: [uri] }), 400, "REDIRECT_URI_NOT_ALLOWED");
      const many = Array.from({ length: 21 }, (_, index) => `https://example.com/${index}`);
      assertError(await patch({ redirectUris: many }), 400);
      assertError(await patch({ redirectUris: "https://example.com" }), 400);
      assertError(await patch({ name: "x" }), 400);
      assert.deepEqual((await get()).redirectUris, []);
    });
  });

  describe("changes hands", () => {
    it("when the OWNER says so with their password, who becomes ADMIN", async () => {
      const { userId, token } = await aMember(api, tenant.tenantId, "VIEWER");
      const body = { userId, currentPassword: tenant.password };
      must(await post("transfer-ownership", body), 200);
      const roleOf = async (id: string) =>
        must(await api.get(`/api/v1/team/members/${id}`, { token }), 200).role;
      assert.deepEqual([await roleOf(userId), await roleOf(tenant.userId)], ["OWNER", "ADMIN"]);
      assertError(await post("transfer-ownership", body), 403, "INSUFFICIENT_ROLE");
      assert((await actions()).includes("tenant.ownership_transferred"));
    });

    it("to no stranger, no OWNER, nobody inactive, and not without the password", async () => {
      const transfer = (userId: string, currentPassword = tenant.password, token = tenant.token) =>
        post("transfer-ownership", { userId, currentPassword }, token);
      const member = await aMember(api, tenant.tenantId, "ADMIN");
      const waiting = await aMember(api, tenant.tenantId, "VIEWER", "PENDING");
      const other = await aTenant(api);
      assertError(await transfer(other.userId), 404);
      assertError(await transfer(waiting.userId), 409, "INVALID_STATE");
      assertError(await transfer(tenant.userId), 409, "INVALID_STATE");
      assertError(await transfer(member.userId, WRONG), 403, "INVALID_CREDENTIALS");
      assertError(await transfer("x"), 400);
      assertError(await transfer(member.userId, "x", member.token), 403, "INSUFFICIENT_ROLE");
    });
  });

  describe("is deleted", () => {
    it("in 30 days by an OWNER who proves who they are, and all OWNERs are told", async () => {
      const second = await aMember(api, tenant.tenantId, "OWNER");
      assertError(await remove(WRONG), 403, "INVALID_CREDENTIALS");
      assertError(await remove(undefined), 400);
      const admin = await aMember(api, tenant.tenantId, "ADMIN");
      assertError(await remove(WRONG, admin.token), 403, "INSUFFICIENT_ROLE");
      const { deleteAfter, updatedAt } = must(await remove(tenant.password), 200);
      assert.equal(Date.parse(deleteAfter) - Date.parse(updatedAt), 30 * 86_400_000);
      for (const email of [tenant.email, second.email]) await aMailTo(email, /delet/i);
      assert.equal((await useKey()).status, 200);
      assertError(await remove(tenant.password), 409, "INVALID_STATE");
    });

    it("not any more when an OWNER restores it", async () => {
      assertError(await post("restore"), 409, "INVALID_STATE");
      must(await remove(tenant.password), 200);
      const admin = await aMember(api, tenant.tenantId, "ADMIN");
      assertError(await post("restore", {}, admin.token), 403, "INSUFFICIENT_ROLE");
      assert.equal(must(await post("restore"), 200).deleteAfter, undefined);
      assert.deepEqual((await actions()).slice(0, 2), ["tenant.restored", "tenant.deletion_requested"]);
      await api.app.transact(deleteDueTenants);
      assert.equal((await useToken()).status, 200);
    });

    it("for good when its time is over: keys, sessions and invitations end, addresses are free", async () => {
      const { token } = await anInvitation(tenant);
      assert.equal((await useKey()).status, 200);
      await putTenant(tenant.tenantId, { deleteAfter: new Date(Date.now() - 1_000) });
      while ((await api.app.transact(deleteDueTenants)) > 0);
      assertError(await useKey(), 401, "API_KEY_REVOKED");
      assertError(await useToken(), 401, "SESSION_REVOKED");
      const { email, password } = tenant;
      assertError(await api.post("/api/v1/auth/login", { email, password }), 401, "INVALID_CREDENTIALS");
      assert.equal((await api.get(`/api/v1/team/invitations/accept?token=${token}`)).status, 404);
      must(await api.post("/api/v1/auth/register", { email, password, name: "Test Owner" }), 201);
    });
  });

  describe("has a plan", () => {
    it("and limits of its own over it, which requests see at once", async () => {
      await asAdmin((work) =>
        setPlan(work, tenant.tenantId, { plan: "FREE", planOverrides: { projects: 3, members: null } }),
      );
      const { plan, limits, features } = await get();
      assert.deepEqual(
        [plan, limits.projects, limits.members, limits.requestsPerMinute, features],
        ["FREE", 3, null, 100, []],
      );
      await asAdmin((work) => setPlan(work, tenant.tenantId, { planOverrides: {} }));
      assert.equal((await get()).limits.projects, 1);
      assert.equal((await actions())[0], "tenant.plan_changed");
    });
  });
});
