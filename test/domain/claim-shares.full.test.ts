import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { createApp } from "../../src/app.ts";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { ClaimShares, EXPENSIVE_STEPS, SLOW_EVENT_MS } from "../../src/domain/progression/claim-shares.ts";
import { createPlanCache, loadPlans } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { createProcessEvents } from "../../src/jobs/process-events.ts";
import { startRunners } from "../../src/jobs/job.ts";
import { createLog } from "../../src/log.ts";
import { createMetrics } from "../../src/metrics.ts";
import { openPlatform, type Platform } from "../../src/platform.ts";
import { testConfig } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { migratedCluster } from "../support/domain/migrated-cluster.ts";
import { publish, rowsOf, xpOf } from "../support/domain/rule-projects.ts";
import { userIn } from "../support/domain/process-parts.ts";
import { cases } from "../support/properties.ts";

type Share = ReturnType<ClaimShares["open"]>;
const of = (...ids: string[]): { projectId: string }[] => ids.map((projectId) => ({ projectId }));
const spent = (id: string, steps = EXPENSIVE_STEPS, events = 4, slowestMs = 0) =>
  new Map([[id, { steps, events, slowestMs }]]);
const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));

describe("the shares of claims", () => {
  let now: number;
  let shares: ClaimShares;
  beforeEach(() => {
    now = 1_000;
    shares = new ClaimShares(() => now);
  });
  const claim = (taken: ReturnType<typeof spent>, ...ids: string[]): void => {
    const share = shares.open();
    share.found(of(...ids));
    share.close(taken);
  };

  it("keep a project's events back after a slow one, and tell when that is over", async () => {
    claim(spent("slow", EXPENSIVE_STEPS, 1, SLOW_EVENT_MS - 1), "slow");
    assert.deepEqual(shares.open().closed, []);
    claim(spent("slow", EXPENSIVE_STEPS, 1, SLOW_EVENT_MS), "slow");
    const other = shares.open();
    assert.deepEqual(other.closed, ["slow"], "also while it is alone");
    now += 4 * SLOW_EVENT_MS;
    assert.deepEqual(shares.open().closed, []);
    await other.reopened;
  });

  it("never give one dear project to two claims, and tell everybody who waits", async () => {
    const ids = ["a", "b", "c", "d", "e"];
    const step = fc.record({
      at: fc.nat(5),
      finds: fc.subarray(ids),
      takes: fc.boolean(),
      passMs: fc.nat(100),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const own = new ClaimShares(() => now);
        const open: { share: Share; found?: string[] }[] = [];
        const waits: Promise<void>[] = [];
        for (const id of ids) {
          const share = own.open();
          share.found(of(id));
          share.close(spent(id));
        }
        for (const { at, finds, takes, passMs } of steps) {
          now += passMs;
          const claimed = open[at];
          if (!claimed) {
            const share = own.open();
            if (share.closed.length > 0) waits.push(share.reopened);
            open.push({ share });
          } else if (claimed.found) {
            claimed.share.close(new Map(claimed.found.flatMap((id) => (takes ? [...spent(id)] : []))));
            open.splice(at, 1);
          } else {
            claimed.found = finds.filter((id) => !claimed.share.closed.includes(id));
            const others = open.flatMap(({ found = [] }) => (found === claimed.found ? [] : found));
            assert.deepEqual(
              claimed.found.filter((id) => others.includes(id)),
              [],
            );
            claimed.share.found(of(...claimed.found));
          }
        }
        for (const { share } of open) share.close(new Map());
        await Promise.all(waits);
      }),
      { numRuns: cases(200) },
    );
  });
});

/** Rules of a dear project, each of which tells 20 lines of 1 kB of every event. */
const DEAR_RULES = 12;

describe("claims of a worker with a dear project", () => {
  let platform: Platform;
  let domain: Domain;
  let dear: string;
  let plain: string;
  const log = createLog(testConfig());

  beforeEach(async () => {
    platform = await openPlatform(testConfig(), log, { inMemory: true, cluster: await migratedCluster() });
    await platform.database.migrateUp();
    domain = openDomain(platform.database);
    dear = await domain.addProject();
    plain = await domain.addProject();
    const tell = { type: "emit_event", eventType: "told", channels: ["webhook"] };
    const lines = times(20, () => ({ ...tell, properties: { text: "x".repeat(900) } }));
    for (let i = 0; i < DEAR_RULES; i++) await publish(domain, dear, { key: `tell${i}`, actions: lines });
    await publish(domain, plain, { key: "plain" });
  });
  afterEach(() => platform.close());

  /** Events of a project in each of these partitions. */
  const track = (projectId: string, parts: readonly number[], each = 1): Promise<string[]> =>
    domain.track(
      projectId,
      parts.flatMap((part) => times(each, () => ({ user: userIn(projectId, part) }))),
    );
  const waiting = async (projectId: string): Promise<number> => {
    const [row] = await rowsOf(
      domain,
      sql<{ n: string }>`select count(*) as n from event_q where project_id = ${projectId}`,
    );
    return Number(row!.n);
  };

  it("go on with its neighbours' events in other partitions, and forget none of its own", async () => {
    const onError = (error: unknown): never => assert.fail(String(error));
    const onLeft = (): never => assert.fail("left");
    const shares = new ClaimShares();
    const { transact } = domain;
    const plans = createPlanCache();
    await transact((work) => loadPlans(work, [dear], plans));
    const options = { transact, plans, claimLimit: 100, shares, onError, onLeft };
    const claim = (...parts: number[]): Promise<Processed> =>
      processPartitions(
        options,
        parts.map((part) => ({ part, afterProject: FIRST_PROJECT })),
      );
    await track(dear, [0], 9);
    await track(plain, [0]);
    await claim(0);
    assert.deepEqual([await waiting(dear), await waiting(plain)], [0, 0]);

    await track(dear, [1, 2, 3]);
    await track(plain, [2, 3]);
    const [first, second] = await Promise.all([claim(1), claim(2, 3)]);
    assert.deepEqual([first.events, first.closed], [1, []]);
    assert.deepEqual([second.events, second.closed], [2, [2, 3]]);
    assert.deepEqual([await waiting(dear), await waiting(plain)], [2, 0]);
    await second.reopened;
    const third = await claim(2, 3);
    assert.deepEqual([third.events, third.closed, await waiting(dear)], [2, [], 0]);
  });

  it("end with every event processed, without anybody who sweeps", async () => {
    const app = createApp({ config: testConfig(), log, metrics: createMetrics(), platform });
    await app.queue.start(startRunners(app, { "process-events": createProcessEvents() }));
    const parts = times(12, (i) => i);
    const wake = (): void => parts.forEach((part) => app.queue.wake("process-events", String(part)));
    await track(dear, [0], 9);
    await track(plain, [1]);
    wake();
    await eventually(async () => (await waiting(dear)) + (await waiting(plain)) === 0);
    for (let round = 0; round < 2; round++) {
      await track(dear, parts, 2);
      await track(plain, parts);
      wake();
    }
    await eventually(async () => (await waiting(dear)) + (await waiting(plain)) === 0, { timeoutMs: 60_000 });
    const xp = Object.values(await xpOf(domain, plain));
    assert.equal(
      xp.reduce((sum, one) => sum + one, 0),
      1 + 2 * parts.length,
    );
    await app.queue.close();
  });
});
