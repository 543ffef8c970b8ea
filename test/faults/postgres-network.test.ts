import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { type PostgresCluster, startPostgresCluster } from "../support/processes/postgres-cluster.ts";

/** All processes work again within this time once the network does, in ms. */
const BACK_MAX_MS = 5_000;
/** No request waits longer than 2 s for a database that stalls; the rest is for a machine with much to do. */
const ANSWER_MAX_MS = 3_500;
const HEALTH_MAX_MS = 2_500;

describe("a network that loses PostgreSQL", () => {
  let cluster: PostgresCluster;
  before(async () => {
    cluster = await startPostgresCluster();
  });
  after(() => cluster?.stop());

  /** Under load breaks the network for so long, and mends it. */
  const suffer = async (breakIt: () => unknown, ms: number): Promise<void> => {
    const { proxy, load, isBackWithin, assertExact, answers } = cluster;
    const before = answers.length;
    const end = load();
    try {
      await eventually(() => answers.length > before + 20);
      await breakIt();
      await delay(ms);
      await proxy.restore();
      await isBackWithin(BACK_MAX_MS);
    } finally {
      await end();
    }
    const during = answers.slice(before);
    for (const { status, body } of during)
      assert.ok(status === 200 || status === 503, `${status}: ${JSON.stringify(body)}`);
    await assertExact();
    const refused = during.filter(({ status }) => status === 503);
    for (const { retryAfter } of refused) assert.ok(Number(retryAfter) >= 1);
    const slowest = Math.max(...during.map((answer) => answer.ms));
    assert.ok(slowest < ANSWER_MAX_MS, `a request waited for ${Math.round(slowest)} ms`);
  };

  it("and is half-open for 5 s: all goes on within 5 s, nothing is lost or doubled", () =>
    suffer(cluster.proxy.halfOpen, 5_000));

  it("and is half-open for 20 s: all goes on within 5 s, nothing is lost or doubled", () =>
    suffer(cluster.proxy.halfOpen, 20_000));

  it("and loses every second connection: all goes on within 5 s, and nobody waits for those", () =>
    suffer(cluster.proxy.loseSome, 2_000));

  it("and hangs: requests and readiness are answered meanwhile, and all goes on within 5 s", () =>
    suffer(async () => {
      cluster.proxy.hang();
      const startMs = performance.now();
      const health = await cluster.webs[0]!.get("/health/ready");
      assert.equal(health.status, 503);
      assert.ok(performance.now() - startMs < HEALTH_MAX_MS);
    }, 3_000));

  it("and cuts every connection: all goes on within 5 s", () => suffer(cluster.proxy.cut, 2_000));

  it("and is slow: every request is answered, by what it came to", () =>
    suffer(() => cluster.proxy.slow(50), 1_000));
});
