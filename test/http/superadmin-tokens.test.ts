import assert from "node:assert/strict";
import { sql } from "kysely";
import {
  ACTIVE_PLATFORM_TOKENS_MAX,
  createPlatformToken,
  forgetAdmins,
} from "../../src/domain/accounts/admin/admins.ts";
import { routes } from "../../src/http/routes.ts";
import { anAdmin, aPlatformToken } from "../support/app/admin.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";

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
    const stored = await api.app.transact(({ db }) =>
      sql`select to_jsonb(t)::text as row from platform_tokens t where id = ${made.id}::uuid`.execute(db),
    );
    assert.ok(!JSON.stringify(stored.rows).includes(token.slice(10)));
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
    await api.app.transact(({ db }) =>
      sql`update platform_tokens set expires_at = '2020-01-01Z' where id = ${brief.id}::uuid`.execute(db),
    );
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

  it("refuse ids that name nothing", async () => {
    for (const id of [crypto.randomUUID(), "nonsense"])
      assertError(await api.delete(`/api/v1/superadmin/tokens/${id}`, { token: admin.token }), 404);
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

  it("say in the audit log that a machine acted", async () => {
    const made = must(await create(valid), 201);
    must(await sync(made.token), 200);
    const path = `/api/v1/superadmin/audit-log?actor=platform-token:${made.id}`;
    const { data } = must(await api.get(path, { token: admin.token }), 200);
    assert.deepEqual(
      data.map(({ action }: { action: string }) => action),
      ["blog_posts.synced"],
    );
  });
});
