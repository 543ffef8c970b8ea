import assert from "node:assert/strict";
import { sql } from "kysely";
import {
  ACTIVE_PLATFORM_TOKENS_MAX,
  createPlatformToken,
  forgetAdmins,
} from "../../src/domain/accounts/admin/admins.ts";
import type { ApprovalStatus } from "../../src/domain/kernel/caller.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { ACCOUNTS_ROLE, WEB_ROLE } from "../../src/domain/kernel/db.ts";
import { routes } from "../../src/http/routes.ts";
import { anAdmin, aPlatformToken } from "../support/app/admin.ts";
import { type Answer, aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { aMailTo, refuseMail } from "../support/mail/mailbox.ts";

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
    api.sql`update tenants set approval_status = ${status} where id = ${tenant.tenantId}::uuid`;
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
      api.sql`update tenants set name = ${name}, plan = 'PRO' where id = ${tenantId}::uuid`;
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

describe("credentials of the platform and of tenants", () => {
  const api = madeOnce(startApp);
  const admin = madeOnce(() => anAdmin(api));
  const tenant = madeOnce(() => aTenant(api));
  const address = (path: string) => `/api/v1${path.replaceAll(/\{\w+\}/g, crypto.randomUUID())}`;

  it("are nothing to each other: 401 on every operation of the other side", async () => {
    const machine = await aPlatformToken(api, admin.token);
    let seen = 0;
    for (const { method, path, access } of routes) {
      if (access === "public") continue;
      const send = (options: object) =>
        api.request(method.toUpperCase(), address(path), { body: {}, ...options });
      const withBody = (options: object) =>
        method === "get" || method === "delete"
          ? api.request(method.toUpperCase(), address(path), options)
          : send(options);
      if (access.admin === undefined) {
        assertError(await withBody({ token: admin.token }), 401, "TOKEN_INVALID");
        assertError(await withBody({ token: machine }), 401, "TOKEN_INVALID");
        assertError(await withBody({ key: machine }), 401, "API_KEY_INVALID");
      } else {
        seen++;
        assertError(await withBody({ token: tenant.token }), 401, "TOKEN_INVALID");
        assertError(await withBody({ key: tenant.key }), 401, "CREDENTIALS_MISSING");
        assertError(await withBody({ token: tenant.key }), 401, "TOKEN_INVALID");
        if (access.admin === "*") assertError(await withBody({ token: machine }), 403, "INSUFFICIENT_SCOPE");
      }
    }
    assert.ok(seen >= 20, `${seen} operations of the platform`);
  });
});

describe("platform tokens", () => {
  const api = madeOnce(startApp);
  const admin = madeOnce(() => anAdmin(api));
  const create = (body: object) => api.post("/api/v1/superadmin/tokens", body, { token: admin.token });
  const valid = { name: "Site build", scopes: ["blog:sync"] };
  const sync = (token: string) => api.post("/api/v1/superadmin/blog-posts/sync", { posts: [] }, { token });

  it("are shown once, kept as a hash, and note when they were used", async () => {
    const made = must(await create(valid), 201);
    const { token, ...shown } = made;
    assert.match(token, /^svc_admin_[0-9A-Za-z]{42}$/);
    assert.deepEqual(
      [shown.status, shown.createdBy, shown.lastUsedAt],
      ["ACTIVE", `admin:${admin.adminId}`, null],
    );
    const listed = async () => {
      const all = must(await api.get("/api/v1/superadmin/tokens", { token: admin.token }), 200);
      return all.find(({ id }: { id: string }) => id === made.id);
    };
    assert.deepEqual(await listed(), shown);
    const stored =
      await api.sql`select to_jsonb(t)::text as row from platform_tokens t where id = ${made.id}::uuid`;
    assert.ok(!JSON.stringify(stored).includes(token.slice(10)));
    must(await sync(token), 200);
    await eventuallyHolds(async () => assert.ok((await listed()).lastUsedAt));
  });

  it("die when revoked and when they expire", async () => {
    const made = must(await create(valid), 201);
    must(await sync(made.token), 200);
    const path = `/api/v1/superadmin/tokens/${made.id}`;
    assert.equal(must(await api.delete(path, { token: admin.token }), 200).status, "REVOKED");
    assertError(await sync(made.token), 401, "TOKEN_INVALID");
    assertError(await api.delete(path, { token: admin.token }), 409, "INVALID_STATE");

    const brief = must(await create({ ...valid, expiresAt: "2999-01-01T00:00:00Z" }), 201);
    must(await sync(brief.token), 200);
    await api.sql`update platform_tokens set expires_at = '2020-01-01Z' where id = ${brief.id}::uuid`;
    forgetAdmins();
    assertError(await sync(brief.token), 401, "TOKEN_EXPIRED");
  });

  it("are refused when malformed, and in any place but Authorization", async () => {
    const { token } = must(await create(valid), 201);
    const last = token.endsWith("A") ? "B" : "A";
    for (const wrong of [`${token.slice(0, -1)}${last}`, "svc_admin_x", `${token}x`])
      assertError(await sync(wrong), 401, "TOKEN_INVALID");
    const path = `/api/v1/superadmin/blog-posts/sync`;
    assertError(await api.post(path, { posts: [] }, { key: token }), 401, "CREDENTIALS_MISSING");
    assertError(await api.post(`${path}?token=${token}`, { posts: [] }), 401, "CREDENTIALS_MISSING");
  });

  it("are at most a hundred that work: those that are revoked or over make room", async () => {
    const give = (name: string, ended: string) => async (): Promise<void> => {
      await api.app.transact(async (work) => {
        await sql`
          insert into platform_tokens (id, name, secret_hash, scopes, created_by, created_at, ${sql.ref(ended)})
          select gen_random_uuid(), ${name}, gen_random_uuid()::text, '{blog:sync}', 'test', now(),
            ${ended === "expires_at" ? sql`now() + interval '1 hour'` : sql`now()`}
          from generate_series(1, ${ACTIVE_PLATFORM_TOKENS_MAX}::int)`.execute(work.db);
        await createPlatformToken(work, api.app.apiKeys, {
          name,
          scopes: ["blog:sync"],
          expiresAt: undefined,
        });
        // The platform's tokens are of all tests.
        throw new Error("there was room for one more");
      });
    };
    await assert.rejects(give("working", "expires_at"), { reason: "LIMIT_REACHED" });
    await assert.rejects(give("revoked", "revoked_at"), /there was room for one more/);
  });
});

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
});
