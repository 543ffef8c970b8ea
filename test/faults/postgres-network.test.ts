import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { type PostgresCluster, startPostgresCluster } from "../support/processes/postgres-cluster.ts";

/** All processes work again within this time once the network does, in ms. */
const BACK_MAX_MS = 5_000;
/** No request waits longer than 4 s for a database that is silent; the rest is for a machine with much to do. */
const ANSWER_MAX_MS = 5_500;
const HEALTH_MAX_MS = 4_500;
/** A single connection is given up after the time that its statement may take, and one second. */
const LOST_MAX_MS = 7_500;
const LOST_BACK_MAX_MS = 20_000;

describe("a network that loses PostgreSQL", () => {
  let cluster: PostgresCluster;
  before(async () => {
    cluster = await startPostgresCluster();
  });
  after(() => cluster?.stop());

  /** Under load breaks the network for so long, and mends it. */
  const suffer = async (
    breakIt: () => unknown,
    ms: number,
    [backMs, answerMs] = [BACK_MAX_MS, ANSWER_MAX_MS],
  ): Promise<void> => {
    const { proxy, load, isBackWithin, assertExact, answers } = cluster;
    const before = answers.length;
    const end = load();
    try {
      await eventually(() => answers.length > before + 20);
      await breakIt();
      await delay(ms);
      await proxy.restore();
      await isBackWithin(backMs);
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
    assert.ok(slowest < answerMs, `a request waited for ${Math.round(slowest)} ms`);
  };

  it("and is half-open for 5 s: all goes on within 5 s, nothing is lost or doubled", () =>
    suffer(cluster.proxy.halfOpen, 5_000));

  it("and is half-open for 20 s: all goes on within 5 s, nothing is lost or doubled", () =>
    suffer(cluster.proxy.halfOpen, 20_000));

  it("and loses every second connection: requests wait no longer than for their statement", () =>
    suffer(cluster.proxy.loseSome, 2_000, [LOST_BACK_MAX_MS, LOST_MAX_MS]));

  it("and hangs: requests and readiness are answered meanwhile, and all goes on within 5 s", () =>
    suffer(async () => {
      cluster.proxy.hang();
      const startMs = performance.now();
      const health = await cluster.webs[0]!.get("/health/ready");
      assert.equal(health.status, 503);
      assert.ok(performance.now() - startMs < HEALTH_MAX_MS);
    }, 5_000));

  it("and cuts every connection: all goes on within 5 s", () => suffer(cluster.proxy.cut, 2_000));

  it("and is slow: every request is answered, by what it came to", () =>
    suffer(() => cluster.proxy.slow(50), 1_000));
});
