import assert from "node:assert/strict";
import { request } from "node:http";
import { deleteDueTenants } from "../../src/domain/accounts/tenants/tenants.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant, aWsToken, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { putTenant } from "../support/operations/sso.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const SUPERADMIN_TRICKS = [
  "//superadmin/me",
  "/api/v1//superadmin/me",
  "/api/v1/../superadmin/me",
  "/api/v1/%2e%2e/superadmin/me",
  "/players/../superadmin/me",
  "/superadmin%2fme",
  "/superadmin%2Fme",
  "/%73uperadmin/me",
  "/SUPERADMIN/me",
  "/Api/V1/superadmin/me",
  "/superadmin/./me",
  "/superadmin/me;a=b",
  "/superadmin/me%20",
  "/superadmin/me%3f",
  "/superadmin\\me",
  "/api/v1/v1/superadmin/me",
];

describe("nobody climbs", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const admin = madeForEach(() => anAdmin(api));
  it("into rooms with a token of before, once the tenant is suspended or deleted", async () => {
    const join = async (token: string) => {
      const answer = await fetch(`${api.url}/matchmake/joinOrCreate/player`, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
        body: "{}",
      });
      return [answer.status, ((await answer.json()) as { error?: { reason?: string } }).error?.reason];
    };
    const { token } = await aWsToken(api, tenant.key, "ada");
    assert.deepEqual(await join(token), [200, undefined]);
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}`;
    must(await api.post(`${path}/suspend`, { reason: "Fraud" }, { token: admin.token }), 200);
    assert.deepEqual(await join(token), [403, "TENANT_SUSPENDED"]);
    must(await api.post(`${path}/unsuspend`, {}, { token: admin.token }), 200);
    assert.deepEqual(await join(token), [200, undefined]);
    await putTenant(tenant.tenantId, { deleteAfter: new Date(Date.now() - 1_000) });
    await api.app.transact(deleteDueTenants);
    assert.equal((await join(token))[0], 404);
    assertError(await api.post(`${path}/approve`, {}, { token: admin.token }), 404);
  });

  it("to the platform by another spelling of its address, without a token or from outside", async () => {
    const shut = await anotherServer(api, { superadminAllowCidrs: ["192.0.2.0/24"] });
    const ask = (port: number, path: string, headers: Record<string, string>): Promise<number> =>
      new Promise((resolve, reject) => {
        const sent = request({ host: "127.0.0.1", port, path, headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        sent.on("error", reject).end();
      });
    const bearer = { Authorization: `Bearer ${admin.token}` };
    for (const path of SUPERADMIN_TRICKS) {
      assert.equal(await ask(api.port, path, {}), 404, path);
      assert.equal(await ask(shut.port, path, bearer), 404, path);
    }
    for (const path of [
      "/superadmin/me",
      "/superadmin/me/",
      "/v1/superadmin/me?x=1",
      "/api/v1/superadmin/me",
    ]) {
      assert.equal(await ask(shut.port, path, bearer), 404, path);
      assert.notEqual(await ask(api.port, path, {}), 200, path);
    }
    const inside = { ...bearer, "X-Forwarded-For": "192.0.2.9, 203.0.113.1" };
    assert.equal(await ask(shut.port, "/superadmin/me", inside), 404, "a spoofed entry");
    assert.equal(
      await ask(shut.port, "/superadmin/me", { ...bearer, "X-Forwarded-For": "::FFFF:192.0.2.9" }),
      200,
    );
  });
});
