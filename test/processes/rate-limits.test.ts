import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import type { Bucket, Limiter } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { createLog } from "../../src/log.ts";
import { createLimiter } from "../../src/platform/limiter.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { startTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.ts";
import { pluck } from "../support/pluck.ts";

const LIMIT = 100;
const bucket = (points: number): Bucket => ({ name: "test", points, seconds: 60 });
const proxyOf = ({ env }: Services): Promise<TcpProxy> => {
  const { hostname, port } = new URL(env["REDIS_URL"]!);
  return startTcpProxy(hostname, Number(port || 6_379));
};
/** Between counts that are made one after another: some hundreds of them last for several looks at Redis. */
const PACE_MS = 15;
/** Acts so often, in turn: acts that each waited for Redis would not be through in time. */
const oneAfterAnother = async (
  { times, timeoutMs }: { times: number; timeoutMs: number },
  act: () => Promise<unknown>,
): Promise<void> => {
  const startedAt = performance.now();
  for (let done = 0; done < times; done++) {
    await act();
    const took = performance.now() - startedAt;
    assert(took < timeoutMs, `only ${done + 1} of ${times} in ${timeoutMs} ms`);
  }
};
const via = ({ env }: Services, { port }: TcpProxy): string => {
  const url = new URL(env["REDIS_URL"]!);
  url.host = `127.0.0.1:${port}`;
  return url.href;
};

describe("rate limits over processes", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let proxy: TcpProxy;
  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    proxy = await proxyOf(services);
  });
  after(async () => {
    await services?.remove();
    await proxy?.stop();
    await directory?.remove();
  });

  describe("of two servers", () => {
    const servers: Laurel[] = [];
    const clients: Client[] = [];
    let tenant: Tenant;
    before(async () => {
      for (let i = 0; i < 2; i++) {
        const port = await freePort();
        const shared = { PUBLIC_URL: "http://localhost", TRUSTED_PROXIES: "127.0.0.1/32" };
        // The second has its Redis behind the proxy.
        const redis = i === 1 ? { REDIS_URL: via(services, proxy) } : {};
        const env = { ...services.env, ...shared, ...redis, LOG_LEVEL: "warn", PORT: String(port) };
        servers.push(await startProcess(["serve"], env));
        clients.push(clientOf(`http://127.0.0.1:${port}`));
      }
      tenant = await aTenant(clients[0]!);
    });
    after(async () => {
      for (const server of servers) await kill(server);
    });

    const aLimitedKey = async (): Promise<string> => {
      const body = { name: "Limited key", scopes: ["*"], rateLimit: LIMIT };
      const path = `/api/v1/projects/${tenant.projectId}/api-keys`;
      return must(await clients[0]!.post(path, body, { token: tenant.token }), 201).key;
    };
    const use = (key: string, client: Client) => client.get("/api/v1/projects", { key });
    const useAtOnce = (key: string, times: number, at = clients) =>
      Promise.all(Array.from({ length: times }, (_, i) => use(key, at[i % at.length]!)));
    const passed = (answers: readonly { status: number }[]): number =>
      answers.filter(({ status }) => status === 200).length;
    it("share the wrong passwords for an account, from an address each and all at once", async () => {
      const { email } = await aTenant(clients[0]!);
      const startedMs = performance.now();
      const tries = Array.from({ length: 24 }, (_, i) =>
        clients[i % 2]!.post("/api/v1/auth/login", { email, password: "Wrong-horse-7" }),
      );
      const statuses = (await Promise.all(tries)).map(({ status }) => status);
      const checked = statuses.filter((status) => status === 401).length;
      assert.equal(statuses.filter((status) => status === 429).length, tries.length - checked);
      // The fifth waits a second, after which a slow machine may begin with one more.
      const laterMax = Math.floor((performance.now() - startedMs) / 1_000);
      assert.ok(checked >= 5 && checked <= 5 + laterMax, `${checked} were checked`);
    });

    it("share the count of an address without credentials, and its block", async () => {
      const headers = { "X-Forwarded-For": "203.0.113.77" };
      const [one, other] = clients as [Client, Client];
      const first = await one.get("/api/v1/limits", { headers });
      const second = await other.get("/api/v1/limits", { headers });
      const left = [first, second].map((answer) => answer.headers.get("X-RateLimit-Remaining"));
      assert.deepEqual(left, ["299", "298"]);
      for (let i = 0; i < 60; i++) await one.get("/api/v1/projects", { key: "svc_live_none", headers });
      assert.equal((await one.get("/api/v1/limits", { headers })).status, 403);
      await eventually(async () => (await other.get("/api/v1/limits", { headers })).status === 403, {
        timeoutMs: 10_000,
        label: "the other process knows of the block",
      });
    });

    for (const [how, fail] of [
      ["refuses connections", () => proxy.cut()],
      ["hangs", () => proxy.hang()],
    ] as const)
      it(`hold in each process while Redis ${how}: no answer is 500, none waits long`, async () => {
        const key = await aLimitedKey();
        const [, lost] = clients as [Client, Client];
        assert.equal((await use(key, lost)).status, 200);
        const said = servers[1]!.output().split("limits are counted in each process").length;
        await fail();
        const answers = await useAtOnce(key, 2 * LIMIT, [lost]);
        assert.equal(passed(answers), LIMIT);
        assert.equal(answers.filter(({ status }) => status === 429).length, LIMIT);
        const patient = await aLimitedKey();
        await oneAfterAnother({ times: 100, timeoutMs: 60_000 }, async () =>
          assert.equal((await use(patient, lost)).status, 200),
        );
        assert.equal(passed(await useAtOnce(await aLimitedKey(), 2, clients)), 2);
        const nowSaid = servers[1]!.output().split("limits are counted in each process").length;
        assert.equal(nowSaid, said + 1, "an outage is told once");
        await proxy.restore();
        const shared = await aLimitedKey();
        await eventually(
          async () => {
            await use(shared, clients[0]!);
            const before = Number((await use(shared, clients[0]!)).headers.get("X-RateLimit-Remaining"));
            const answer = await use(shared, lost);
            return Number(answer.headers.get("X-RateLimit-Remaining")) === before - 1;
          },
          { timeoutMs: 60_000, label: "the processes count together again" },
        );
      });
  });

  describe("of the limiter", () => {
    let redis: Redis;
    let limiter: Limiter;
    let lines: string[];
    before(async () => {
      lines = [];
      const log = createLog({ logLevel: "info" }, { write: (line: string) => void lines.push(line) });
      redis = new Redis(via(services, proxy), { commandTimeout: 1_500, maxRetriesPerRequest: 2 });
      redis.on("error", () => undefined);
      await redis.ping();
      limiter = createLimiter(redis, services.namespace, log);
    });
    after(() => redis?.disconnect());

    const nameOf = (key: string): string => `${services.namespace}:limit:test:${key}`;

    it("count exactly and in turn, and apply new numbers to the window that is open", async () => {
      const key = randomUUID();
      const states = await Promise.all(Array.from({ length: 300 }, () => limiter.consume(bucket(100), key)));
      assert.equal(states.filter(({ isAllowed }) => isAllowed).length, 100);
      assert.equal((await limiter.consume(bucket(500), key)).remaining, 199);
      const narrow = { name: "narrow", points: 1, seconds: 60 };
      const both = [
        { bucket: narrow, key },
        { bucket: bucket(1_000), key },
      ];
      assert.deepEqual(pluck(await limiter.consumeInTurn(both), "used"), [1, 302]);
      assert.deepEqual(pluck(await limiter.consumeInTurn(both), "isAllowed"), [false]);
      assert.equal((await limiter.read(bucket(1_000), key)).used, 302);
      await limiter.reset(bucket(1_000), key);
      assert.equal((await limiter.read(bucket(1_000), key)).used, 0);
    });

    it("take points back only from the window in which they were counted", async () => {
      const key = randomUUID();
      const first = { bucket: bucket(5), key, ...(await limiter.consume(bucket(5), key)) };
      await limiter.consume(bucket(5), key);
      await limiter.giveBack([first]);
      assert.equal((await limiter.read(bucket(5), key)).used, 1);
      await redis.del(nameOf(key));
      await limiter.giveBack([first]);
      assert.equal(await redis.exists(nameOf(key)), 0);
      await limiter.consume(bucket(5), key);
      await limiter.giveBack([{ ...first, resetAtMs: first.resetAtMs - 60_000 }]);
      assert.equal((await limiter.read(bucket(5), key)).used, 1);
    });

    it("wait for no Redis that hangs, but at the first, and never throw", async () => {
      proxy.hang();
      const key = randomUUID();
      const count = () => limiter.consume(bucket(10), key);
      await Promise.all(Array.from({ length: 20 }, count));
      assert.equal((await limiter.read(bucket(10), key)).used, 20);
      // Through several looks whether it is back.
      await oneAfterAnother({ times: 300, timeoutMs: 60_000 }, async () => {
        await count();
        await delay(PACE_MS);
      });
      await limiter.reset(bucket(10), key);
      assert.equal((await limiter.read(bucket(10), key)).used, 0);
      await proxy.restore();
      await eventually(
        async () => {
          await count();
          return lines.length === 2 && (await redis.exists(nameOf(key))) === 1;
        },
        { timeoutMs: 60_000, label: "Redis counts again" },
      );
      const told = lines.map((line) => (JSON.parse(line) as { msg: string }).msg.split(":")[0]);
      assert.deepEqual(told, ["Redis does not answer", "Redis answers again"]);
    });

    it("keep nothing of what was given back while Redis answered too late", async () => {
      const key = randomUUID();
      const direct = new Redis(services.env["REDIS_URL"]!);
      const many = bucket(1_000);
      try {
        const first = await limiter.consume(many, key);
        for (let times = 0; times < 3; times++) {
          const seen = lines.length;
          proxy.slow(400);
          await limiter.giveBack([{ bucket: many, key, ...(await limiter.consume(many, key)) }]);
          proxy.slow(0);
          await eventually(
            async () => {
              await limiter.read(many, key);
              return lines.length >= seen + 2;
            },
            { timeoutMs: 60_000, label: "Redis counts again" },
          );
        }
        await eventually(async () => (await direct.get(nameOf(key))) === "1");
        assert.equal((await limiter.read(many, key)).used, 1);
        await limiter.giveBack([{ bucket: many, key, ...first }]);
        assert.equal((await limiter.read(many, key)).used, 0);
      } finally {
        direct.disconnect();
        proxy.slow(0);
      }
    });
  });
});
