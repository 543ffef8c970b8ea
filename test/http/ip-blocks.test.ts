import assert from "node:assert/strict";
import { newSecret } from "../../src/domain/accounts/api-keys/api-key.ts";
import {
  blockAddress,
  forgetBlocks,
  KnownBlocks,
  noteAbuse,
} from "../../src/domain/accounts/rate-limits/ip-blocks.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { anAdmin } from "../support/app/admin.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aTenant, startApp, type TestApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { from } from "../support/http/limit-headers.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const aNetwork = (): string => {
  const group = () => Math.floor(Math.random() * 65_536).toString(16);
  return `2001:db8:${group()}:${group()}`;
};

const path = (ip: string, suffix = ""): string =>
  `/api/v1/admin/rate-limits/ip/${encodeURIComponent(ip)}${suffix}`;

/** What a super-admin does with addresses, and what the addresses see of it. */
const blocksBy = (api: TestApp, token: string) => ({
  status: (ip: string, query = "") => api.get(path(ip) + query, { token }),
  block: (ip: string, body: object = { reason: "Scraping" }) => api.post(path(ip, "/block"), body, { token }),
  unblock: (ip: string) => api.delete(path(ip, "/block"), { token }),
  visit: (ip: string) => api.get("/api/v1/limits", from(ip)),
  /** Action, actor and tenant of what the audit log has about a target. */
  audited: async (target: string) =>
    (await auditOf(api, target)).map(({ action, actor, tenant }) => [action, actor, tenant]),
});

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

describe("blocked addresses", () => {
  let token: string;
  let adminId: string;
  let { status, block, unblock, visit, audited } = {} as ReturnType<typeof blocksBy>;
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    ({ token, adminId } = await anAdmin(api));
    ({ status, block, unblock, visit, audited } = blocksBy(api, token));
  });

  describe("for super-admins", () => {
    it("show an address that was never seen as unused and open", async () => {
      const ip = anAddress();
      const beforeMs = Date.now();
      const { usage, ...rest } = must(await status(ip), 200);
      const afterMs = Date.now();
      assert.deepEqual(rest, { ip, isBlocked: false });
      const { resetAt, ...counts } = usage;
      assert.deepEqual(counts, { current: 0, limit: 300, remaining: 300, window: 60, usagePercent: 0 });
      assert(Number.isInteger(resetAt));
      assert(resetAt * 1_000 >= beforeMs + 60_000 && resetAt * 1_000 < afterMs + 61_000);
    });

    it("show what an address has used in the units of the headers", async () => {
      const ip = anAddress();
      const visited = await visit(ip);
      const { usage } = must(await status(ip), 200);
      assert.deepEqual([usage.current, usage.remaining, usage.usagePercent], [1, 299, 0.3]);
      assert(Math.abs(usage.resetAt - Number(visited.headers.get("X-RateLimit-Reset"))) <= 1);
      await api.app.limiter.consume(LIMITS.anonymous, ip, 499);
      const { usage: over } = must(await status(ip), 200);
      assert.deepEqual([over.current, over.remaining, over.usagePercent], [500, 0, 100]);
    });

    it("show registrations and failed logins by themselves", async () => {
      const ip = anAddress();
      await api.post("/api/v1/auth/register", {}, from(ip));
      const registration = must(await status(ip, "?bucket=registration"), 200).usage;
      assert.deepEqual([registration.current, registration.limit, registration.window], [1, 5, 3_600]);
      const login = must(await status(ip, "?bucket=login"), 200).usage;
      assert.deepEqual([login.current, login.limit, login.window], [0, 20, 900]);
      assertError(await status(ip, "?bucket=other"), 400);
    });
  });

  describe("once blocked", () => {
    it("are refused at once everywhere, with good credentials too, until it is taken away", async () => {
      const ip = anAddress();
      assert.equal((await visit(ip)).status, 200);
      const made = must(await block(ip), 200);
      const { createdAt, ...rest } = made;
      assert.deepEqual(rest, {
        network: `${ip}/32`,
        reason: "Scraping",
        source: "MANUAL",
        createdBy: `admin:${adminId}`,
        expiresAt: null,
      });
      assert.equal(new Date(createdAt).toISOString(), createdAt);
      assertError(await visit(ip), 403, "IP_BLOCKED");
      assertError(await api.get("/api/v1/players", { key: tenant.key, ...from(ip) }), 403, "IP_BLOCKED");
      assertError(await api.post("/api/v1/auth/login", {}, from(ip)), 403, "IP_BLOCKED");
      assert.equal((await visit(anAddress())).status, 200);
      const shown = must(await status(ip), 200);
      assert.deepEqual([shown.isBlocked, shown.blockReason], [true, "Scraping"]);
      assert(!("blockExpiresAt" in shown));
      assert.deepEqual(must(await unblock(ip), 200), { deleted: true });
      assert.equal((await visit(ip)).status, 200);
      assert.deepEqual(
        await audited(`${ip}/32`),
        ["ip.blocked", "ip.unblocked"].map((action) => [action, `admin:${adminId}`, null]),
      );
      assertError(await unblock(ip), 404);
    });

    it("are refused joins of rooms", async () => {
      const ip = anAddress();
      const join = async () => {
        const answer = await fetch(`${api.url}/matchmake/joinOrCreate/player`, {
          method: "POST",
          headers: { "Content-Type": "application/json", "X-Forwarded-For": `${anAddress()}, ${ip}` },
          body: "{}",
        });
        return [answer.status, ((await answer.json()) as { error: { reason: string } }).error.reason];
      };
      assert.deepEqual(await join(), [401, "TOKEN_MISSING"]);
      await block(ip);
      assert.deepEqual(await join(), [403, "IP_BLOCKED"]);
    });

    it("are open again when the time is over, in this process at once", async () => {
      const ip = anAddress();
      const { expiresAt } = must(await block(ip, { reason: "For an hour", durationSeconds: 3_600 }), 200);
      const refused = await visit(ip);
      assertError(refused, 403, "IP_BLOCKED");
      assert(refused.body.error.message.includes(expiresAt));
      const { blockExpiresAt } = must(await status(ip), 200);
      assert.equal(blockExpiresAt, Math.ceil(Date.parse(expiresAt) / 1_000));
      const later = await anotherServer(api, {}, { clock: () => new Date(Date.parse(expiresAt)) });
      assert.equal((await later.get("/api/v1/limits", from(ip))).status, 200);
      await api.sql`update ip_blocks set expires_at = now() where network = ${`${ip}/32`}::cidr`;
      assert.equal(must(await status(ip), 200).isBlocked, false);
    });

    it("are listed while the block lasts, newest first", async () => {
      const [first, second, ended] = [anAddress(), anAddress(), anAddress()];
      for (const ip of [first, ended, second]) await block(ip, { reason: "Listed", durationSeconds: 60 });
      await api.sql`update ip_blocks set expires_at = now() where network = ${`${ended}/32`}::cidr`;
      const { data, pagination } = must(
        await api.get("/api/v1/admin/rate-limits/blocked?limit=2", { token }),
        200,
      );
      assert.deepEqual(pluck(data, "network"), [`${second}/32`, `${first}/32`]);
      assert(pagination.total >= 2);
      for (const source of ["MANUAL", "AUTO"]) {
        const query = `?limit=100&source=${source}`;
        const listed = must(await api.get(`/api/v1/admin/rate-limits/blocked${query}`, { token }), 200).data;
        assert(listed.every((one: { source: string }) => one.source === source));
        const networks = listed.map(({ network }: { network: string }) => network);
        assert.equal(networks.includes(`${first}/32`), source === "MANUAL");
      }
    });

    it("have a block replaced by the next one", async () => {
      const ip = anAddress();
      await block(ip);
      await block(ip, { reason: "Shorter", durationSeconds: 5 });
      const { blockReason, blockExpiresAt } = must(await status(ip), 200);
      assert.equal(blockReason, "Shorter");
      assert(blockExpiresAt > 0);
    });
  });

  it("have their counts forgotten on demand, one kind or all", async () => {
    const ip = anAddress();
    const count = async () => {
      const all = await Promise.all(
        ["global", "registration", "login"].map((bucket) => status(ip, `?bucket=${bucket}`)),
      );
      return all.map(({ body }) => body.usage.current);
    };
    const use = async () => {
      for (const bucket of [LIMITS.anonymous, LIMITS.registration, LIMITS.loginFailures])
        await api.app.limiter.consume(bucket, ip, 3);
    };
    const reset = (body: object) => api.post(path(ip, "/reset"), body, { token });
    await use();
    const one = must(await reset({ bucket: "registration" }), 200);
    assert.deepEqual([one.usage.current, one.usage.limit], [0, 5]);
    assert.deepEqual(await count(), [3, 0, 3]);
    must(await reset({}), 200);
    assert.deepEqual(await count(), [0, 0, 0]);
    assert.deepEqual((await audited(ip))[0], ["ip.limits_reset", `admin:${adminId}`, null]);
    assertError(await reset({ bucket: "other" }), 400);
  });

  it("stay blocked by what was read last while the database is away", async () => {
    const ip = anAddress();
    await block(ip);
    assertError(await visit(ip), 403, "IP_BLOCKED");
    const { transact, clock } = api.app;
    let isAway = false;
    const mayBeAway: Transact = async (run) => {
      if (isAway) throw Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
      return transact(run);
    };
    const blocks = new KnownBlocks({ transact: mayBeAway, clock });
    const lost = await anotherServer(api, {}, { transact: mayBeAway, transactAs: () => mayBeAway, blocks });
    assertError(await lost.get("/api/v1/limits", from(ip)), 403, "IP_BLOCKED");
    isAway = true;
    forgetBlocks();
    assertError(await lost.get("/api/v1/limits", from(ip)), 403, "IP_BLOCKED");
    assert.equal((await lost.get("/api/v1/limits", from(anAddress()))).status, 200);
  });
});
