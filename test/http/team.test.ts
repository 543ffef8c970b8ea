import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import type { Role } from "../../src/domain/kernel/caller.ts";
import { changeMember } from "../../src/domain/accounts/team/members.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMember, type Member } from "../support/app/member.ts";
import { anInvitation, putTenant } from "../support/operations/sso.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const MEMBERS = "/api/v1/team/members";

describe("the team", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const join = (role: Role, status?: "ACTIVE" | "PENDING" | "SUSPENDED"): Promise<Member> =>
    aMember(api, tenant.tenantId, role, status);
  const list = async (query = "", token = tenant.token) =>
    must(await api.get(MEMBERS + query, { token }), 200);
  const change = (id: string, body: unknown, token = tenant.token): Promise<Answer> =>
    api.patch(`${MEMBERS}/${id}`, body, { token });
  const remove = (id: string, token = tenant.token): Promise<Answer> =>
    api.delete(`${MEMBERS}/${id}`, { token });
  const add = (email: string, role: string, token = tenant.token): Promise<Answer> =>
    api.post(MEMBERS, { email, role }, { token });
  const use = (token: string): Promise<Answer> => api.get("/api/v1/projects", { token });
  const actions = async (): Promise<string[]> =>
    must(await api.get("/api/v1/audit-log", { token: tenant.token }), 200).data.map(
      ({ action }: { action: string }) => action,
    );

  describe("is listed", () => {
    it("in pages, by role and status", async () => {
      const waiting = await join("VIEWER", "PENDING");
      const admin = await join("ADMIN");
      const all = await list("?sort=createdAt&order=asc");
      assert.deepEqual(pluck(all.data, "id"), [tenant.userId, waiting.userId, admin.userId]);
      assert.deepEqual(all.pagination, { page: 1, limit: 20, total: 3, totalPages: 1 });
      const ids = async (query: string) => (await list(query)).data.map(({ id }: { id: string }) => id);
      assert.deepEqual(await ids("?status=PENDING"), [waiting.userId]);
      assert.deepEqual(await ids("?role=MEMBER"), [waiting.userId]);
      assert.deepEqual(await ids("?role=ADMIN&status=ACTIVE"), [admin.userId]);
      assert.deepEqual(await ids("?limit=1&page=2&order=asc"), [waiting.userId]);
      for (const query of ["?sort=role", "?role=KING", "?status=GONE", "?limit=101", "?who=me"])
        assertError(await api.get(MEMBERS + query, { token: tenant.token }), 400);
    });

    it("with the documented fields, and for a VIEWER without addresses", async () => {
      const viewer = await join("VIEWER");
      const path = `${MEMBERS}/${tenant.userId}`;
      const seen = must(await api.get(path, { token: tenant.token }), 200);
      const { id, userId, email, name, role, status } = seen;
      assert.deepEqual(
        { id, userId, email, name, role, status },
        {
          id: tenant.userId,
          userId: tenant.userId,
          email: tenant.email,
          name: "Test Owner",
          role: "OWNER",
          status: "ACTIVE",
        },
      );
      const bare = must(await api.get(path, { token: viewer.token }), 200);
      assert.deepEqual(Object.keys(bare).toSorted(), ["createdAt", "id", "name", "role", "status", "userId"]);
      assert(!JSON.stringify(await list("", viewer.token)).includes("@"));
      assertError(await api.get(`${MEMBERS}?sort=email`, { token: viewer.token }), 400);
      const designer = await join("DESIGNER");
      assert.equal((await list("?role=OWNER", designer.token)).data[0].email, tenant.email);
    });
  });

  describe("changes", () => {
    it("a role, which the member's token goes by at once", async () => {
      const { userId, token } = await join("VIEWER");
      const project = { name: "Another game" };
      assertError(await api.post("/api/v1/projects", project, { token }), 403, "INSUFFICIENT_ROLE");
      assert.equal(must(await change(userId, { role: "ADMIN" }), 200).role, "ADMIN");
      must(await api.post("/api/v1/projects", project, { token }), 201);
      assert.equal(must(await change(userId, { role: "MEMBER" }), 200).role, "VIEWER");
      assertError(await api.post("/api/v1/projects", project, { token }), 403, "INSUFFICIENT_ROLE");
      assert.equal((await actions()).filter((action) => action === "member.role_changed").length, 2);
    });

    it("by shutting a member out and letting them back in", async () => {
      const { userId, token } = await join("DEVELOPER");
      assert.equal((await use(token)).status, 200);
      must(await change(userId, { status: "SUSPENDED" }), 200);
      assertError(await use(token), 403, "MEMBERSHIP_SUSPENDED");
      must(await change(userId, { status: "ACTIVE" }), 200);
      assert.equal((await use(token)).status, 200);
      const said = await actions();
      for (const action of ["member.suspended", "member.reactivated"]) assert(said.includes(action));
    });

    it("by removing a member, whose account and sessions are gone at once", async () => {
      for (const path of ["/", "?id="]) {
        const { userId, token } = await join("ADMIN");
        assert.equal((await use(token)).status, 200);
        const gone = await api.delete(`${MEMBERS}${path}${userId}`, { token: tenant.token });
        assert.deepEqual(must(gone, 200), { deleted: true });
        assertError(await use(token), 401, "SESSION_REVOKED");
        assertError(await remove(userId), 404);
      }
      assert((await actions()).includes("member.removed"));
      assertError(await api.delete(MEMBERS, { token: tenant.token }), 400);
    });

    it("by a member's leaving, whoever they are", async () => {
      for (const [role, status] of [
        ["VIEWER", "ACTIVE"],
        ["VIEWER", "PENDING"],
        ["ADMIN", "ACTIVE"],
        ["OWNER", "ACTIVE"],
      ] as const) {
        const { userId, token } = await join(role, status);
        assert.deepEqual(must(await api.post("/api/v1/team/leave", {}, { token }), 200), { deleted: true });
        assertError(await use(token), 401, "SESSION_REVOKED");
        assertError(await api.get(`${MEMBERS}/${userId}`, { token: tenant.token }), 404);
      }
      assert((await actions()).includes("member.left"));
    });
  });

  describe("keeps its ranks:", () => {
    it("an ADMIN neither makes an OWNER nor touches one", async () => {
      const admin = await join("ADMIN");
      const owner = await join("OWNER");
      const viewer = await join("VIEWER");
      const tries: Answer[] = [
        await change(viewer.userId, { role: "OWNER" }, admin.token),
        await change(admin.userId, { role: "OWNER" }, admin.token),
        await change(owner.userId, { role: "VIEWER" }, admin.token),
        await change(owner.userId, { status: "SUSPENDED" }, admin.token),
        await remove(owner.userId, admin.token),
        await api.delete(`${MEMBERS}?id=${owner.userId}`, { token: admin.token }),
        await add("new@example.com", "OWNER", admin.token),
      ];
      for (const answer of tries) assertError(answer, 403, "INSUFFICIENT_ROLE");
      must(await change(viewer.userId, { role: "ADMIN" }, admin.token), 200);
      must(await remove(viewer.userId, admin.token), 200);
    });

    it("the last active OWNER is not demoted, suspended, removed, and does not leave", async () => {
      const { userId, token } = tenant;
      await join("OWNER", "SUSPENDED");
      for (const answer of [
        await change(userId, { role: "ADMIN" }),
        await change(userId, { status: "SUSPENDED" }),
        await remove(userId),
        await api.post("/api/v1/team/leave", {}, { token }),
      ])
        assertError(answer, 409, "LAST_OWNER");
      const second = await join("OWNER");
      assertError(await change(userId, { status: "SUSPENDED" }), 409, "INVALID_STATE");
      assert.equal(must(await change(userId, { role: "ADMIN" }), 200).role, "ADMIN");
      assertError(await remove(second.userId, second.token), 409, "LAST_OWNER");
    });

    it("who is demoted acts on nothing any more, whatever a process remembers of them", async () => {
      const admin = await join("ADMIN");
      const viewer = await join("VIEWER");
      const actor = { tenantId: tenant.tenantId, userId: admin.userId };
      await api.app.transact(({ em }) => em.nativeUpdate(User, { id: admin.userId }, { role: "VIEWER" }));
      await assert.rejects(
        api.app.transact((work) =>
          changeMember(work, { actor, rule: { isVerifiedEmailRequired: false } }, viewer.userId, {
            role: "ADMIN",
          }),
        ),
        { reason: "INSUFFICIENT_ROLE" },
      );
    });
  });

  describe("lets in", () => {
    it("who has asked to join, with the role that they are given", async () => {
      const { email, userId, token } = await join("VIEWER", "PENDING");
      assertError(await use(token), 403, "MEMBERSHIP_PENDING");
      const { member } = must(await add(email.toUpperCase(), "DESIGNER"), 201);
      assert.deepEqual([member.id, member.role, member.status], [userId, "DESIGNER", "ACTIVE"]);
      assert.equal((await use(token)).status, 200);
      const second = await join("VIEWER", "PENDING");
      assert.equal(must(await change(second.userId, { status: "ACTIVE" }), 200).status, "ACTIVE");
      assert.equal((await actions()).filter((action) => action === "member.accepted").length, 2);
      const third = await join("VIEWER", "PENDING");
      assertError(await change(third.userId, { status: "SUSPENDED" }), 409, "INVALID_STATE");
    });

    it("nobody under an address that they have not proved, where addresses are proved", async () => {
      const { userId } = await join("VIEWER", "PENDING");
      await api.app.transact(({ em }) => em.nativeUpdate(User, { id: userId }, { emailVerified: false }));
      const accept = (isVerifiedEmailRequired: boolean) =>
        api.app.transact((work) => {
          const who = { actor: tenant, rule: { isVerifiedEmailRequired } };
          return changeMember(work, who, userId, { status: "ACTIVE" });
        });
      await assert.rejects(accept(true), { reason: "INVALID_STATE" });
      assert.equal((await accept(false)).status, "ACTIVE");
    });

    it("no more than the plan has seats, invitations counted, waiting ones not", async () => {
      await putTenant(tenant.tenantId, { plan: "FREE" });
      const waiting = await join("VIEWER", "PENDING");
      const { id } = await anInvitation(tenant);
      const usage = must(await api.get("/api/v1/tenant", { token: tenant.token }), 200).usage;
      assert.equal(usage.members, 2);
      for (const answer of [
        await add(waiting.email, "VIEWER"),
        await change(waiting.userId, { status: "ACTIVE" }),
        await add(`${randomUUID()}@example.com`, "VIEWER"),
      ])
        assertError(answer, 402, "PLAN_LIMIT_EXCEEDED");
      must(await api.delete(`/api/v1/team/invitations/${id}`, { token: tenant.token }), 200);
      must(await add(waiting.email, "VIEWER"), 201);
    });

    it("who has also been invited, on one seat", async () => {
      await putTenant(tenant.tenantId, { plan: "FREE" });
      const waiting = await join("VIEWER", "PENDING");
      await anInvitation(tenant, { email: waiting.email });
      must(await add(waiting.email, "ADMIN"), 201);
      const { usage } = must(await api.get("/api/v1/tenant", { token: tenant.token }), 200);
      assert.equal(usage.members, 2);
    });
  });
});
