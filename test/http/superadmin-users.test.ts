import assert from "node:assert/strict";
import { sql } from "kysely";
import { newId } from "../../src/domain/kernel/ids.ts";
import { ACCOUNTS_ROLE, WEB_ROLE } from "../../src/domain/kernel/row-roles.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aMailTo, refuseMail } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";
import { madeOnce } from "../support/made.ts";

describe("users, for super-admins", () => {
  const api = madeOnce(startApp);
  const admin = madeOnce(() => anAdmin(api));
  const tenant = madeOnce(() => aTenant(api));
  const get = (path: string) => api.get(`/api/v1/superadmin/users${path}`, { token: admin.token });
  const act = (userId: string, step: string, body: object = {}) =>
    api.post(`/api/v1/superadmin/users/${userId}/${step}`, body, { token: admin.token });
  const ids = async (query: string): Promise<string[]> =>
    must(await get(query), 200).data.map(({ id }: { id: string }) => id);

  it("are listed over all tenants, filtered, searched and paged", async () => {
    const viewer = await aMember(api, tenant.tenantId, "VIEWER", "SUSPENDED");
    assert.deepEqual(await ids(`?tenantId=${tenant.tenantId}&order=asc`), [tenant.userId, viewer.userId]);
    assert.deepEqual(await ids(`?tenantId=${tenant.tenantId}&status=SUSPENDED`), [viewer.userId]);
    assert.deepEqual(await ids(`?search=${viewer.email.slice(0, 30).toUpperCase()}`), [viewer.userId]);
    assert.deepEqual(
      await ids(`?tenantId=${tenant.tenantId}&limit=1&page=2&sort=email`).then((found) => found.length),
      1,
    );
    assert.deepEqual(await ids(`?tenantId=${tenant.tenantId}&disabled=true`), []);
    for (const bad of ["?status=x", "?tenantId=x", "?sort=name", "?disabled=yes", "?search="])
      assertError(await get(bad), 400);
  });

  it("are shown without secrets", async () => {
    const body = must(await get(`/${tenant.userId}`), 200);
    assert.deepEqual(Object.keys(body).toSorted(), [
      "createdAt",
      "disabledAt",
      "email",
      "emailVerified",
      "id",
      "lastLoginAt",
      "mfaEnabled",
      "name",
      "role",
      "status",
      "tenantId",
      "updatedAt",
    ]);
    for (const id of [newId(), "nonsense"]) {
      assertError(await get(`/${id}`), 404);
      assertError(await act(id, "disable", { reason: "x" }), 404);
      assertError(await act(id, "enable"), 404);
    }
  });

  it("are shut out at once when disabled, the last OWNER too, and no old session comes back", async () => {
    const own = await aTenant(api);
    const me = () => api.get("/api/v1/projects", { token: own.token });
    const login = () => api.post("/api/v1/auth/login", { email: own.email, password: own.password });
    const { refreshToken } = must(await login(), 200);
    must(await me(), 200);
    assert.ok(must(await act(own.userId, "disable", { reason: "Abuse" }), 200).disabledAt);
    assertError(await me(), 401, "SESSION_REVOKED");
    assert.equal((await login()).status, 401);
    assert.equal((await api.post("/api/v1/auth/refresh", { refreshToken })).status, 401);
    must(await api.get("/api/v1/players", { key: own.key }), 200);
    assertError(await act(own.userId, "disable", { reason: "Again" }), 409, "INVALID_STATE");
    assert.deepEqual(await ids(`?tenantId=${own.tenantId}&disabled=true`), [own.userId]);

    assert.equal(must(await act(own.userId, "enable"), 200).disabledAt, null);
    assertError(await me(), 401, "SESSION_REVOKED");
    const { accessToken } = must(await login(), 200);
    assertError(await act(own.userId, "enable"), 409, "INVALID_STATE");
    const log = must(await api.get("/api/v1/audit-log?limit=100", { token: accessToken }), 200).data;
    const disabled = log.find(({ action }: { action: string }) => action === "user.disabled");
    assert.deepEqual([disabled.actor, disabled.data.reason], [`admin:${admin.adminId}`, "Abuse"]);
    assert.ok(log.some(({ action }: { action: string }) => action === "user.enabled"));
  });

  it("are disabled only with a reason", async () => {
    for (const body of [{}, { reason: " " }, { reason: "x".repeat(501) }])
      assertError(await act(tenant.userId, "disable", body), 400);
  });
});

describe("the audit log", () => {
  const api = madeOnce(startApp);
  const admin = madeOnce(() => anAdmin(api));
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}/suspend`;
    must(await api.post(path, { reason: "Spam" }, { token: admin.token }), 200);
  });
  const list = async (query: string): Promise<{ action: string; tenantId: string | null }[]> =>
    must(await api.get(`/api/v1/superadmin/audit-log?${query}`, { token: admin.token }), 200).data;

  it("shows super-admins all tenants and the platform, by tenant, actor, action and time", async () => {
    const actor = `admin:${admin.adminId}`;
    const [entry, ...more] = await list(`tenantId=${tenant.tenantId}&actor=${actor}`);
    assert.deepEqual([entry?.action, entry?.tenantId, more], ["tenant.suspended", tenant.tenantId, []]);
    assert.equal((await list(`actor=${actor}&action=tenant.suspended`)).length, 1);
    assert.equal((await list(`actor=${actor}&action=tenant.approved`)).length, 0);
    assert.equal((await list(`actor=${actor}&from=2999-01-01T00:00:00Z`)).length, 0);
    assert.equal((await list(`actor=${actor}&to=2020-01-01T00:00:00Z`)).length, 0);
    assert.ok((await list("action=platform_admin.created")).every(({ tenantId }) => tenantId === null));
    for (const bad of ["tenantId=x", "from=yesterday", "actor=", "bogus=1"])
      assertError(await api.get(`/api/v1/superadmin/audit-log?${bad}`, { token: admin.token }), 400);
  });

  it("is append only for everybody, the database's owner included", async () => {
    const id = tenant.tenantId;
    const statements = [
      sql`update audit_log set action = 'nothing' where tenant_id = ${id}::uuid`,
      sql`delete from audit_log where tenant_id = ${id}::uuid`,
      sql`truncate audit_log`,
    ];
    for (const role of [undefined, WEB_ROLE, ACCOUNTS_ROLE]) {
      for (const statement of statements) {
        await assert.rejects(
          api.app.transact(async ({ db }) => {
            if (role !== undefined) {
              await sql`select set_config('role', ${role}, true),
                set_config('laurel.tenant_id', ${id}, true)`.execute(db);
            }
            await statement.execute(db);
          }),
          /append only|permission denied/,
        );
      }
    }
    assert.equal((await list(`tenantId=${id}&action=tenant.suspended`)).length, 1);
  });
});

describe("mails, for super-admins", () => {
  const api = madeOnce(startApp);
  const admin = madeOnce(() => anAdmin(api));
  const tenant = madeOnce(() => aTenant(api));
  const resend = (id: string) =>
    api.post(`/api/v1/superadmin/email-logs/${id}/resend`, {}, { token: admin.token });
  const list = async (query: string) =>
    must(await api.get(`/api/v1/superadmin/email-logs?${query}`, { token: admin.token }), 200).data;

  it("that have failed are sent again, and the log says who did it", async () => {
    const { email, userId } = await aMember(api, tenant.tenantId, "VIEWER");
    refuseMail(email, 550);
    await api.app.transact((work) =>
      api.app.mail.queue(work, {
        template: "password-changed",
        to: email,
        values: { name: "Ada" },
        tenantId: tenant.tenantId,
        userId,
      }),
    );
    const [failed] = await eventually(async () => {
      const found: { id: string; tenantId: string; smtpResponse: string }[] = await list(
        `email=${email}&status=FAILED`,
      );
      return found.length > 0 && found;
    });
    assert.ok(failed);
    assert.equal(failed.tenantId, tenant.tenantId);
    assert.match(failed.smtpResponse, /550/);
    refuseMail(email, undefined);
    assert.equal(must(await resend(failed.id), 200).status, "QUEUED");
    await aMailTo(email, /./);
    const path = `/api/v1/superadmin/audit-log?tenantId=${tenant.tenantId}&action=email.resent`;
    const { data } = must(await api.get(path, { token: admin.token }), 200);
    assert.equal(data[0].actor, `admin:${admin.adminId}`);
    await eventually(async () => (await list(`email=${email}&status=SENT`)).length === 1);
    assertError(await resend(failed.id), 409, "INVALID_STATE");
  });

  it("refuse ids that name nothing", async () => {
    for (const id of [newId(), "nonsense"]) assertError(await resend(id), 404);
  });
});
