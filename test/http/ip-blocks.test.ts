import assert from "node:assert/strict";
import { sql } from "kysely";
import { forgetBlocks, KnownBlocks } from "../../src/domain/accounts/rate-limits/ip-blocks.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { anAdmin } from "../support/app/admin.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aNetwork, blocksBy, pathOf as path } from "../support/app/ip-blocks.ts";
import { from } from "../support/http/limit-headers.ts";
import { madeOnce } from "../support/made.ts";

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

    it("know IPv6 in any spelling as its /64, and IPv4 in IPv6 as IPv4", async () => {
      const net = aNetwork();
      await visit(`${net}::1`);
      const body = must(await status(`${net}:0:0:0:ABCD`), 200);
      assert.equal(body.usage.current, 1);
      assert.equal(body.ip, `${net}::abcd`);
      assert.equal(
        must(await api.get(`/api/v1/admin/rate-limits/ip/${net}::7`, { token }), 200).usage.current,
        1,
      );
      const ipv4 = anAddress();
      assert.equal(must(await status(`::ffff:${ipv4}`), 200).ip, ipv4);
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

    it("cannot get around it by spoofing, nor within their IPv6 /64", async () => {
      const ip = anAddress();
      await block(ip);
      assertError(await visit(`${anAddress()}, ${ip}`), 403, "IP_BLOCKED");
      assertError(await visit(`::ffff:${ip}`), 403, "IP_BLOCKED");
      const net = aNetwork();
      assert.match(must(await block(`${net}::1`), 200).network, /\/64$/);
      assertError(await visit(`${net}:9:9:9:9`), 403, "IP_BLOCKED");
      assert.equal((await visit(`${aNetwork()}::1`)).status, 200);
      assert.equal(must(await status(`${net}::5`), 200).isBlocked, true);
      must(await unblock(`${net}::7`), 200);
      assert.equal((await visit(`${net}::1`)).status, 200);
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
      await api.app.transact(({ db }) =>
        sql`update ip_blocks set expires_at = now() where network = ${`${ip}/32`}::cidr`.execute(db),
      );
      assert.equal(must(await status(ip), 200).isBlocked, false);
    });

    it("are listed while the block lasts, newest first", async () => {
      const [first, second, ended] = [anAddress(), anAddress(), anAddress()];
      for (const ip of [first, ended, second]) await block(ip, { reason: "Listed", durationSeconds: 60 });
      await api.app.transact(({ db }) =>
        sql`update ip_blocks set expires_at = now() where network = ${`${ended}/32`}::cidr`.execute(db),
      );
      const { data, pagination } = must(
        await api.get("/api/v1/admin/rate-limits/blocked?limit=2", { token }),
        200,
      );
      assert.deepEqual(
        data.map(({ network }: { network: string }) => network),
        [`${second}/32`, `${first}/32`],
      );
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

  it("are those of one server, also where another one runs in the same process", async () => {
    const ip = anAddress();
    await block(ip);
    assertError(await visit(ip), 403, "IP_BLOCKED");
    const transact = async () => {
      throw new Error("a database of its own, without blocks");
    };
    await new KnownBlocks({ transact, clock: api.app.clock }).refuse(ip);
  });
});
