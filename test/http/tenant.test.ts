import assert from "node:assert/strict";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { deleteDueTenants } from "../../src/domain/accounts/tenants/deletion.ts";
import { setPlan } from "../../src/domain/accounts/tenants/approval.ts";
import { Tenant as Tenants } from "../../src/domain/accounts/tenants/tenant.ts";
import { type Answer, aTenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";
import { anInvitation, putTenant } from "../support/operations/team.ts";
import { ownTenant, TENANT } from "../support/app/own-tenant.ts";

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

    it("to nobody who waits to be let in", async () => {
      const { token } = await aMember(api, tenant.tenantId, "VIEWER", "PENDING");
      assertError(await api.get(TENANT, { token }), 403, "MEMBERSHIP_PENDING");
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

    it("never a wrong one", async () => {
      for (const change of [
        { plan: "GOLD" },
        { planOverrides: { projects: -1 } },
        { planOverrides: { projects: 1.5 } },
        { planOverrides: { coffee: 1 } },
      ])
        await assert.rejects(asAdmin((work) => setPlan(work, tenant.tenantId, change as never)));
      const row = await api.app.transact(({ em }) => em.findOneOrFail(Tenants, { id: tenant.tenantId }));
      assert.equal(row.plan, "ENTERPRISE");
    });
  });

  it("keeps the users of others out of all this", async () => {
    const other = await aTenant(api);
    must(await remove(tenant.password), 200);
    must(await patch({ name: "Mine alone" }), 200);
    const theirs = await get(other.token);
    assert.deepEqual(
      [theirs.id, theirs.name, theirs.deleteAfter],
      [other.tenantId, "Test Studio", undefined],
    );
    assert.equal(await api.app.transact(({ em }) => em.count(User, { tenantId: other.tenantId })), 1);
  });
});
