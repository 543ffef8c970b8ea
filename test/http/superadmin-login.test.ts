import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { sql } from "kysely";
import { disableAdmin } from "../../src/domain/accounts/admin/admins.ts";
import { routes } from "../../src/http/routes.ts";
import { createHttp } from "../../src/http/server.ts";
import { anAdmin } from "../support/app/admin.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, type Client, clientOf, must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const WRONG = "Wrong-horse-77";

describe("a super-admin's login", () => {
  const api = madeOnce(startApp);
  const admin = madeForEach(() => anAdmin(api));

  const login = (email: string, password: string, ip = anAddress()): Promise<Answer> =>
    api.post("/api/v1/superadmin/auth/login", { email, password }, { headers: { "X-Forwarded-For": ip } });
  const me = (token: string) => api.get("/api/v1/superadmin/me", { token });
  const auditOf = (adminId: string) => api.sql<{ action: string; actor: string; tenant_id: string | null }>`
    select action, actor, tenant_id from audit_log where target_id = ${adminId}
    order by created_at, id`;

  it("gives an hour's token without a refresh, whatever the case of the address", async () => {
    const body = must(await login(admin.email.toUpperCase(), admin.password), 200);
    const { accessToken, ...rest } = body;
    assert.deepEqual(rest, {
      tokenType: "Bearer",
      expiresIn: 3_600,
      mfaEnrolmentRequired: true,
      admin: { id: admin.adminId, email: admin.email, name: "Test Admin" },
    });
    const [, payload = ""] = accessToken.split(".");
    const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
    assert.deepEqual([claims.aud, claims.exp - claims.iat], ["laurel-superadmin", 3_600]);
    const shown = must(await me(accessToken), 200);
    assert.deepEqual([shown.id, shown.disabledAt], [admin.adminId, null]);
    assert.ok(shown.lastLoginAt);
  });

  it("says the same of an unknown address, a wrong password and a disabled super-admin", async () => {
    const disabled = await anAdmin(api);
    await api.app.transact((work) => disableAdmin(work, disabled.email));
    const answers = [
      await login("nobody@platform.example.com", WRONG),
      await login(admin.email, WRONG),
      await login(disabled.email, disabled.password),
    ];
    for (const answer of answers) assertError(answer, 401, "INVALID_CREDENTIALS");
    assert.equal(new Set(answers.map(({ body }) => body.error.message)).size, 1);
  });

  it("is ended by logging out, everywhere", async () => {
    const other = must(await login(admin.email, admin.password), 200).accessToken;
    const options = { token: admin.token };
    assert.deepEqual(must(await api.post("/api/v1/superadmin/auth/logout", {}, options), 200), {
      accepted: true,
    });
    for (const token of [admin.token, other]) assertError(await me(token), 401, "SESSION_REVOKED");
    must(await me(must(await login(admin.email, admin.password), 200).accessToken), 200);
  });

  it("changes with the password, which needs the current one and obeys the rules", async () => {
    const change = (currentPassword: string, newPassword: string) =>
      api.post(
        "/api/v1/superadmin/auth/change-password",
        { currentPassword, newPassword },
        { token: admin.token },
      );
    assertError(await change(WRONG, "Another-Root-88"), 401, "INVALID_CREDENTIALS");
    const weak = await change(admin.password, "weak");
    assertError(weak, 400, "PASSWORD_TOO_WEAK");
    assert.equal(weak.body.error.details[0].field, "newPassword");
    const { accessToken } = must(await change(admin.password, "Another-Root-88"), 200);
    assertError(await me(admin.token), 401, "SESSION_REVOKED");
    must(await me(accessToken), 200);
    assertError(await login(admin.email, admin.password), 401, "INVALID_CREDENTIALS");
    must(await login(admin.email, "Another-Root-88"), 200);
  });

  it("stays open from the address at which the password was changed, whoever guesses elsewhere", async () => {
    const here = anAddress();
    const passwords = { currentPassword: admin.password, newPassword: "Another-Root-88" };
    must(
      await api.post("/api/v1/superadmin/auth/change-password", passwords, {
        token: admin.token,
        headers: { "X-Forwarded-For": here },
      }),
      200,
    );
    for (let i = 0; i < 8; i++) await login(admin.email, WRONG);
    assertError(await login(admin.email, "Another-Root-88"), 429, "LOGIN_THROTTLED");
    must(await login(admin.email, "Another-Root-88", here), 200);
  });

  it("is in the audit log of the platform, right or wrong, without what was typed", async () => {
    await login(admin.email, WRONG);
    await login("somebody-typed-a-secret@platform.example.com", WRONG);
    must(await login(admin.email, admin.password), 200);
    const rows = await auditOf(admin.adminId);
    assert.deepEqual(pluck(rows, "action", "actor", "tenant_id"), [
      ["platform_admin.created", "system", null],
      ["platform_admin.login_failed", "anonymous", null],
      ["platform_admin.logged_in", `admin:${admin.adminId}`, null],
    ]);
    const typed = await api.app.transact(async ({ db }) => {
      const found = await sql`
        select from audit_log where data::text like '%somebody-typed%'
          or data::text like ${`%${WRONG}%`}`.execute(db);
      return found.rows.length;
    });
    assert.equal(typed, 0);
  });

  describe("and SUPERADMIN_ALLOW_CIDRS", () => {
    let server: Server;
    let guarded: Client;
    const tenant = madeOnce(() => aTenant(api));
    before(async () => {
      const config = {
        ...api.app.config,
        superadminAllowCidrs: ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7"],
      };
      server = createServer(createHttp({ ...api.app, config }, routes)).listen(0, "127.0.0.1");
      await once(server, "listening");
      guarded = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    });
    after(() => void server.close());

    const from = (ip: string, token?: string) => ({
      headers: { "X-Forwarded-For": ip },
      ...(token === undefined ? {} : { token }),
    });

    it("hide every operation of the platform outside of them, as if nothing were there", async () => {
      const nothing = await guarded.get("/api/v1/superadmin/nothing", from("203.0.113.9"));
      const ofPlatform = routes.filter(
        ({ path, access }) => path.startsWith("/superadmin/") || (access !== "public" && access.admin),
      );
      assert.ok(ofPlatform.length >= 20);
      for (const { method, path } of ofPlatform) {
        const address = `/api/v1${path.replaceAll(/\{\w+\}/g, "x")}`;
        for (const verb of [method.toUpperCase(), "PUT", "OPTIONS"]) {
          const answer = await guarded.request(verb, address, from("203.0.113.9", admin.token));
          assert.equal(answer.status, 404, `${verb} ${path}`);
          assert.equal(answer.headers.get("allow"), null, `${verb} ${path}`);
          assert.equal(answer.body.error.message, nothing.body.error.message);
        }
      }
    });

    it("let in from inside, over IPv4 and IPv6, and hide nothing of tenants", async () => {
      const { email, password } = admin;
      for (const ip of ["192.0.2.200", "2001:db8:1::5", "198.51.100.7"]) {
        const body = { email, password };
        const { accessToken } = must(await guarded.post("/superadmin/auth/login", body, from(ip)), 200);
        must(await guarded.get("/superadmin/me", from(ip, accessToken)), 200);
        assert.equal((await guarded.put("/superadmin/me", {}, from(ip))).status, 405);
      }
      const outside = { headers: { "X-Forwarded-For": "203.0.113.9" } };
      assert.equal((await guarded.post("/superadmin/auth/login", { email, password }, outside)).status, 404);
      must(await guarded.get("/projects", from("203.0.113.9", tenant.token)), 200);
      must(await guarded.get("/blog-posts", outside), 200);
    });
  });
});
