import assert from "node:assert/strict";
import { newSecret } from "../../src/domain/accounts/api-keys/api-key.ts";
import { blockAddress, noteAbuse } from "../../src/domain/accounts/rate-limits/ip-blocks.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { anAdmin } from "../support/app/admin.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aNetwork, blocksBy, pathOf as path } from "../support/app/ip-blocks.ts";
import { from } from "../support/http/limit-headers.ts";
import { madeOnce } from "../support/made.ts";

describe("addresses", () => {
  let token: string;
  let { status, block, visit, audited } = {} as ReturnType<typeof blocksBy>;
  const api = madeOnce(startApp);
  before(async () => {
    ({ token } = await anAdmin(api));
    ({ status, block, visit, audited } = blocksBy(api, token));
  });

  describe("that the server blocks by itself", () => {
    it("are those that try 60 unknown API keys in a minute", async () => {
      const ip = anAddress();
      const tryKey = () => api.get("/api/v1/players", { key: newSecret("live"), ...from(ip) });
      for (let i = 0; i < 60; i++) assertError(await tryKey(), 401, "API_KEY_INVALID");
      assertError(await tryKey(), 403, "IP_BLOCKED");
      const { blockReason, blockExpiresAt } = must(await status(ip), 200);
      assert.match(blockReason, /API keys/);
      assert(Math.abs(blockExpiresAt - Date.now() / 1_000 - 900) < 60);
      assert.deepEqual((await audited(`${ip}/32`))[0], ["ip.blocked", "system", null]);
    });

    it("are not those that still use keys of a project that was deleted", async () => {
      const ip = anAddress();
      const { key, projectId, token: own } = await aTenant(api);
      assert.equal((await api.delete(`/api/v1/projects/${projectId}`, { token: own })).status, 200);
      const visits = Array.from({ length: 70 }, () => api.get("/api/v1/players", { key, ...from(ip) }));
      for (const answer of await Promise.all(visits)) assertError(answer, 401, "API_KEY_REVOKED");
    });

    it("are not those that send no credentials", async () => {
      const ip = anAddress();
      for (let i = 0; i < 70; i++)
        assertError(await api.get("/api/v1/players", from(ip)), 401, "CREDENTIALS_MISSING");
    });

    it("are those that fail to log in 20 times, and those that fill in the honeypot 10 times", async () => {
      for (const [kind, times, seconds] of [
        ["loginFailures", 20, 900],
        ["honeypot", 10, 86_400],
      ] as const) {
        const ip = anAddress();
        for (let i = 1; i < times; i++) await noteAbuse(api.app, kind, ip);
        assert.equal((await visit(ip)).status, 200);
        await noteAbuse(api.app, kind, ip);
        assertError(await visit(ip), 403, "IP_BLOCKED");
        const { blockExpiresAt } = must(await status(ip), 200);
        assert(Math.abs(blockExpiresAt - Date.now() / 1_000 - seconds) < 60);
      }
    });

    it("are never loopback or a trusted proxy", async () => {
      const proxy = anAddress();
      const config = { ...api.app.config, trustedProxies: [`${proxy}/32`] };
      for (const ip of [proxy, "127.0.0.1", "::1"])
        for (let i = 0; i < 11; i++) await noteAbuse({ ...api.app, config }, "honeypot", ip);
      assert.equal(must(await status(proxy), 200).isBlocked, false);
      assert.equal(must(await status("127.0.0.1"), 200).isBlocked, false);
      await api.app.limiter.reset(LIMITS.honeypot, "127.0.0.1");
    });

    it("keep the block that an administrator made, and the longest one", async () => {
      const ip = anAddress();
      const auto = (seconds: number) =>
        api.app.transact((work) =>
          blockAddress(work, {
            network: ip,
            reason: `${seconds}`,
            source: "AUTO",
            seconds,
            createdBy: "system",
          }),
        );
      await auto(1_000);
      await auto(10);
      assert.equal(must(await status(ip), 200).blockReason, "1000");
      await auto(2_000);
      assert.equal(must(await status(ip), 200).blockReason, "2000");
      await block(ip, { reason: "By hand", durationSeconds: 60 });
      await auto(3_000);
      assert.equal(must(await status(ip), 200).blockReason, "By hand");
    });
  });

  describe("that nobody can block", () => {
    it("are the administrator's own and its IPv6 /64", async () => {
      const [ip, net] = [anAddress(), aNetwork()];
      const own = await api.post(path(ip, "/block"), { reason: "x" }, { token, ...from(ip) });
      assertError(own, 400, "ADDRESS_PROTECTED");
      const neighbour = await api.post(
        path(`${net}::2`, "/block"),
        { reason: "x" },
        { token, ...from(`${net}::1`) },
      );
      assertError(neighbour, 400, "ADDRESS_PROTECTED");
    });

    it("are loopback and every trusted proxy", async () => {
      for (const ip of ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "::2"])
        assertError(await block(ip), 400, "ADDRESS_PROTECTED");
      const trustedProxies = ["127.0.0.1/32", "192.0.2.0/24", "2001:db8:77:77::1/128"];
      const other = await anotherServer(api, { trustedProxies });
      for (const ip of ["192.0.2.9", "2001:db8:77:77::5"]) {
        const answer = await other.post(path(ip, "/block"), { reason: "x" }, { token });
        assertError(answer, 400, "ADDRESS_PROTECTED");
      }
    });
  });
});
