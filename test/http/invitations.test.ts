import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo, mailsTo, tokenIn } from "../support/mail/mailbox.ts";
import { eventually } from "../support/eventually.ts";
import { aMember } from "../support/app/member.ts";
import { anInvitation, putTenant } from "../support/operations/sso.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const INVITATIONS = "/api/v1/team/invitations";
const ACCEPT = `${INVITATIONS}/accept`;
const PASSWORD = "Brass-Lantern-58";
const LONG_AGO = new Date("2020-01-01T00:00:00Z");

const anEmail = (): string => `${randomUUID()}@example.com`;

describe("invitations", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const invite = (email: string, role = "DESIGNER", token = tenant.token): Promise<Answer> =>
    api.post(INVITATIONS, { email, role }, { token });
  const resend = (id: string, token = tenant.token): Promise<Answer> =>
    api.post(`${INVITATIONS}/${id}/resend`, {}, { token });
  const revoke = (id: string, token = tenant.token): Promise<Answer> =>
    api.delete(`${INVITATIONS}/${id}`, { token });
  const read = (token: string): Promise<Answer> => api.get(`${ACCEPT}?token=${token}`);
  const accept = (token: string, given: object = {}): Promise<Answer> =>
    api.post(ACCEPT, { token, name: "Ada Lovelace", password: PASSWORD, ...given });
  /** Refused for reading and for accepting alike. */
  const assertDead = async (token: string, status: number, reason?: string): Promise<void> => {
    assertError(await read(token), status, reason);
    assertError(await accept(token), status, reason);
  };
  /** Makes room for the next mail to an address. */
  const minutePasses = (email: string) =>
    api.app.limiter.reset(LIMITS.mailMinute, `invitation:${tenant.tenantId}:${email}`);

  it("lead from the mail to a session of a member with that role, and are used up", async () => {
    const email = anEmail();
    const { id, expiresAt, sentAt, createdAt, ...rest } = must(await invite(email.toUpperCase()), 201);
    assert.deepEqual(rest, { email, role: "DESIGNER", status: "PENDING", invitedBy: tenant.userId });
    assert.equal(sentAt, createdAt);
    assert.equal(Date.parse(expiresAt) - Date.parse(createdAt), 7 * 86_400_000);
    const token = tokenIn(await aMailTo(email, /Test Studio/));
    const told = { email, tenantName: "Test Studio", role: "DESIGNER", authUrl: null };
    assert.deepEqual(must(await read(token), 200), told);
    const session = must(await accept(token), 200);
    assert.deepEqual([session.user.email, session.user.role], [email, "DESIGNER"]);
    const me = must(
      await api.get(`/api/v1/team/members/${session.user.id}`, { token: session.accessToken }),
      200,
    );
    assert.deepEqual([me.status, me.emailVerified, me.name], ["ACTIVE", true, "Ada Lovelace"]);
    must(await api.post("/api/v1/auth/login", { email, password: PASSWORD }), 200);
    await assertDead(token, 409, "INVALID_STATE");
    const listed = must(await api.get(`${INVITATIONS}?status=ACCEPTED`, { token: tenant.token }), 200);
    assert.deepEqual(pluck(listed.data, "id"), [id]);
  });

  it("are refused when unknown, revoked, expired, used, and when the tenant is no more", async () => {
    await assertDead("x".repeat(43), 404);
    const { id, token } = await anInvitation(tenant);
    assert.equal(must(await revoke(id), 200).status, "REVOKED");
    await assertDead(token, 410, "INVITATION_REVOKED");
    const expired = await anInvitation(tenant, { expiresAt: LONG_AGO });
    await assertDead(expired.token, 410, "INVITATION_EXPIRED");
    const used = await anInvitation(tenant, { status: "ACCEPTED" });
    await assertDead(used.token, 409, "INVALID_STATE");
    const late = await anInvitation(tenant);
    await putTenant(tenant.tenantId, { approvalStatus: "SUSPENDED" });
    await assertDead(late.token, 403, "TENANT_SUSPENDED");
    await putTenant(tenant.tenantId, { deletedAt: new Date() });
    await assertDead(late.token, 404);
  });

  it("have only the link of the last mail", async () => {
    const email = anEmail();
    const { id } = must(await invite(email), 201);
    const first = tokenIn(await aMailTo(email, /./));
    assertError(await resend(id), 429, "EMAIL_RATE");
    await minutePasses(email);
    const again = must(await resend(id), 200);
    assert.deepEqual([again.id, again.status], [id, "PENDING"]);
    const second = tokenIn(await eventually(() => mailsTo(email)[1]));
    await assertDead(first, 404);
    assert.equal((await accept(second)).status, 200);
    assertError(await resend(id), 409, "INVALID_STATE");
  });

  it("live as long as who sent them may give that role, and whoever resends them sends them", async () => {
    const admin = await aMember(api, tenant.tenantId, "ADMIN");
    const owner = await aMember(api, tenant.tenantId, "OWNER");
    const byAdmin = await anInvitation(tenant, { invitedBy: admin.userId });
    const byOwner = await anInvitation(tenant, { invitedBy: owner.userId, role: "OWNER" });
    const change = (id: string, body: unknown) =>
      api.patch(`/api/v1/team/members/${id}`, body, { token: tenant.token });
    must(await change(owner.userId, { role: "ADMIN" }), 200);
    await assertDead(byOwner.token, 410, "INVITATION_REVOKED");
    must(await change(admin.userId, { status: "SUSPENDED" }), 200);
    await assertDead(byAdmin.token, 410, "INVITATION_REVOKED");
    must(await change(admin.userId, { status: "ACTIVE" }), 200);
    assert.equal((await read(byAdmin.token)).status, 200);
    must(await api.delete(`/api/v1/team/members/${admin.userId}`, { token: tenant.token }), 200);
    await assertDead(byAdmin.token, 410, "INVITATION_REVOKED");
    assert.equal(must(await resend(byAdmin.id), 200).invitedBy, tenant.userId);
    const token = tokenIn(await aMailTo(byAdmin.email, /./));
    assert.equal((await accept(token)).status, 200);
  });

  it("tell nothing about accounts in other tenants until they are accepted", async () => {
    const other = await aTenant(api);
    must(await invite(other.email), 201);
    const token = tokenIn(await aMailTo(other.email, /Test Studio/));
    assert.equal((await read(token)).status, 200);
    assertError(await accept(token), 409, "EMAIL_ALREADY_EXISTS");
    assert.equal((await read(token)).status, 200);
  });

  it("are not sent to members, nor twice", async () => {
    const email = anEmail();
    const { id } = must(await invite(email), 201);
    assertError(await invite(email), 409, "INVITATION_ALREADY_PENDING");
    assertError(await invite(tenant.email), 409, "ALREADY_MEMBER");
    const waiting = await aMember(api, tenant.tenantId, "VIEWER", "PENDING");
    assertError(await invite(waiting.email), 409, "ALREADY_MEMBER");
    must(await revoke(id), 200);
    assertError(await invite(email), 429, "EMAIL_RATE");
    await minutePasses(email);
    must(await invite(email), 201);
  });

  it("want a name and a good password, and are not used up by a bad one", async () => {
    const { token } = await anInvitation(tenant);
    assertError(await accept(token, { password: "short" }), 400, "PASSWORD_TOO_WEAK");
    assertError(await accept(token, { password: undefined }), 400);
    assertError(await accept(token, { name: "x" }), 400);
    assertError(await api.get(ACCEPT), 400);
    assertError(await read("x".repeat(200)), 400);
    assert.equal((await accept(token)).status, 200);
  });

  it("that have expired are shown so, make room for a new one, and can be sent again", async () => {
    const expired = await anInvitation(tenant, { expiresAt: LONG_AGO });
    const ids = async (status: string) =>
      must(await api.get(`${INVITATIONS}?status=${status}`, { token: tenant.token }), 200).data.map(
        ({ id }: { id: string }) => id,
      );
    assert.deepEqual([await ids("EXPIRED"), await ids("PENDING")], [[expired.id], []]);
    assertError(await revoke(expired.id), 409, "INVALID_STATE");
    const fresh = must(await invite(expired.email), 201);
    assert.deepEqual([await ids("EXPIRED"), await ids("PENDING")], [[expired.id], [fresh.id]]);
    await minutePasses(expired.email);
    assertError(await resend(expired.id), 409, "INVITATION_ALREADY_PENDING");
    must(await revoke(fresh.id), 200);
    await minutePasses(expired.email);
    assert.equal(must(await resend(expired.id), 200).status, "PENDING");
    assert.deepEqual([await ids("EXPIRED"), await ids("PENDING")], [[], [expired.id]]);
  });

  it("give nobody more than their sender may give", async () => {
    const { token } = await aMember(api, tenant.tenantId, "ADMIN");
    const owners = await anInvitation(tenant, { role: "OWNER" });
    assertError(await invite(anEmail(), "OWNER", token), 403, "INSUFFICIENT_ROLE");
    assertError(await resend(owners.id, token), 403, "INSUFFICIENT_ROLE");
    assertError(await revoke(owners.id, token), 403, "INSUFFICIENT_ROLE");
    must(await invite(anEmail(), "ADMIN", token), 201);
    must(await invite(anEmail(), "OWNER"), 201);
    for (const role of ["DESIGNER", "DEVELOPER", "VIEWER"] as const) {
      const low = await aMember(api, tenant.tenantId, role);
      assertError(await invite(anEmail(), "VIEWER", low.token), 403, "INSUFFICIENT_ROLE");
      const listed = must(await api.get(INVITATIONS, { token: low.token }), 200);
      assert.equal(JSON.stringify(listed).includes("@"), role !== "VIEWER");
    }
  });
});
