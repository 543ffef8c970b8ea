import assert from "node:assert/strict";
import { z } from "zod";
import {
  approveTenant,
  rejectTenant,
  setPlan,
  suspendTenant,
  unsuspendTenant,
} from "../../src/domain/accounts/tenants/approval.ts";
import type { Tenant as TenantRow } from "../../src/domain/accounts/tenants/tenant.ts";
import type { ApprovalStatus } from "../../src/domain/kernel/caller.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { route } from "../../src/http/route.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { aMailTo, mailsTo } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";
import { putTenant } from "../support/operations/team.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { ownTenant } from "../support/app/own-tenant.ts";

describe("a tenant is", () => {
  const { api, tenant, get, patch, post, actions, asAdmin, useKey, useToken } = ownTenant();

  describe("approved, rejected, suspended", () => {
    type Act = (work: Work, tenantId: string) => Promise<TenantRow>;
    const acts: Record<string, { run: Act; from: ApprovalStatus[]; to: ApprovalStatus }> = {
      approved: {
        run: (work, id) => approveTenant(api.app, work, id),
        from: ["PENDING", "REJECTED"],
        to: "APPROVED",
      },
      rejected: {
        run: (work, id) => rejectTenant(api.app, work, id, "No games here"),
        from: ["PENDING"],
        to: "REJECTED",
      },
      suspended: {
        run: (work, id) => suspendTenant(api.app, work, id, "Abuse"),
        from: ["APPROVED"],
        to: "SUSPENDED",
      },
      unsuspended: {
        run: (work, id) => unsuspendTenant(api.app, work, id),
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

    it("by one of two at once", async () => {
      await putTenant(tenant.tenantId, { approvalStatus: "PENDING" });
      const results = await Promise.allSettled([
        asAdmin((work) => approveTenant(api.app, work, tenant.tenantId)),
        asAdmin((work) => rejectTenant(api.app, work, tenant.tenantId, "No")),
      ]);
      assert.equal(results.filter(({ status }) => status === "fulfilled").length, 1);
    });

    it("and while suspended all keys and most of its people's doors are shut, at once", async () => {
      assert.equal((await useKey()).status, 200);
      assert.equal((await useToken()).status, 200);
      await asAdmin((work) => suspendTenant(api.app, work, tenant.tenantId, "Abuse"));
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
      await asAdmin((work) => unsuspendTenant(api.app, work, tenant.tenantId));
      must(await refresh(), 200);
      assert.equal((await useKey()).status, 200);
      assert.equal((await useToken()).status, 200);
      assert.equal((await get()).approvalReason, undefined);
    });

    it("and a process that was not told knows it within 5 seconds", async () => {
      assert.equal((await useKey()).status, 200);
      assert.equal((await useToken()).status, 200);
      await putTenant(tenant.tenantId, { approvalStatus: "SUSPENDED" });
      const isShut = async () => {
        assertError(await useKey(), 403, "TENANT_SUSPENDED");
        assertError(await useToken(), 403, "TENANT_SUSPENDED");
      };
      await eventuallyHolds(isShut);
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
          if (status === "REJECTED")
            await asAdmin((work) => rejectTenant(api.app, work, tenant.tenantId, "No"));
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
      await asAdmin((work) => rejectTenant(api.app, work, tenant.tenantId, "No again"));
      assertError(await post("approval-request"), 409, "APPROVAL_REQUESTED_RECENTLY");
      assert.equal((await get()).approvalStatus, "REJECTED");
      await putTenant(tenant.tenantId, { approvalRequestedAt: new Date(Date.now() - 25 * 3_600_000) });
      must(await post("approval-request"), 200);
    });

    it("without a mail to those who are no active OWNERs", async () => {
      const admin = await aMember(api, tenant.tenantId, "ADMIN");
      const former = await aMember(api, tenant.tenantId, "OWNER", "SUSPENDED");
      await asAdmin((work) => suspendTenant(api.app, work, tenant.tenantId, "Abuse"));
      await aMailTo(tenant.email, /suspended/i);
      for (const { email } of [admin, former]) assert.deepEqual(mailsTo(email), []);
    });
  });
});
