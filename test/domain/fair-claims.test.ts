import assert from "node:assert/strict";
import { sql } from "kysely";
import { createStatsRecorder, type StatsRecorder } from "../../src/domain/evaluation/running/stats.ts";
import { threadCpuMs } from "../../src/domain/kernel/timeouts.ts";
import {
  ClaimOrder,
  type Processed,
  type ProcessOptions,
  processPartitions,
} from "../../src/domain/progression/claim.ts";
import { SHARED_KEYS_MAX } from "../../src/domain/progression/lock-shared-counters.ts";
import { createPlanCache, loadPlans } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import {
  memoryDomain,
  processAll,
  publish,
  rowsOf,
  userIn,
  usersIn,
  xpOf,
} from "../support/domain/domain.ts";

const PART = 3;
const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));

describe("claims of events of many tenants", () => {
  const { domain } = memoryDomain();
  const plans = createPlanCache();
  beforeEach(() => domain.sql`delete from event_q`);

  const claim = (
    options: Partial<ProcessOptions> = {},
    parts: readonly number[] = [PART],
  ): Promise<Processed> =>
    processPartitions(
      {
        transact: domain.transact,
        plans,
        claimLimit: 20,
        onError: (error) => assert.fail(String(error)),
        onLeft: () => undefined,
        ...options,
      },
      parts.map((part) => ({ part, afterProject: FIRST_PROJECT })),
    );
  const aProject = async (): Promise<string> => {
    const id = await domain.addProject();
    await publish(domain, id, { key: "plain" });
    await domain.transact((work) => loadPlans(work, [id], plans));
    return id;
  };
  const track = (projectId: string, count: number, part = PART): Promise<string[]> =>
    domain.track(
      projectId,
      times(count, () => ({ user: userIn(projectId, part) })),
    );
  const waiting = async (projectId: string): Promise<number> => {
    const query = sql<{ n: number }>`select count(*)::int as n from event_q where project_id = ${projectId}`;
    return (await rowsOf(domain, query))[0]!.n;
  };
  const toOneTenant = (projectIds: readonly string[]): Promise<unknown> =>
    domain.sql`update projects set tenant_id = (select tenant_id from projects where id = ${projectIds[0]!})
      where id = any(${`{${projectIds.join(",")}}`}::uuid[])`;
  /** Statistics of rules, which evaluation calls for each event: here it takes so long. */
  const taking = (ms: number): StatsRecorder => {
    const recorder = createStatsRecorder();
    const considered = (): void => {
      for (const untilMs = threadCpuMs() + ms; threadCpuMs() < untilMs;);
    };
    return {
      ...recorder,
      openBatch: () => ({ ...recorder.openBatch(), observerOf: () => considered }),
    };
  };

  it("take one of each tenant in turn, however many projects and events another has before", async () => {
    const many = await Promise.all(times(10, aProject));
    await toOneTenant(many);
    for (const id of many) await track(id, 30);
    const few = await Promise.all(times(3, aProject));
    for (const id of few) await track(id, 4);
    assert.equal((await claim()).events, 20);
    assert.deepEqual(await Promise.all(few.map(waiting)), [0, 0, 0]);
    const left = await Promise.all(many.map(waiting));
    assert.ok(
      Math.max(...left) - Math.min(...left) <= 1,
      `its own projects are served alike: ${left.join(", ")}`,
    );
  });

  it("go on in the next projects where more have events than a claim looks at, until none is left", async () => {
    const ids = await Promise.all(times(7, aProject));
    for (const id of ids) await track(id, 2);
    const seen: string[] = [];
    const onSeen = (events: readonly { projectId: string }[]): void =>
      void seen.push(...events.map(({ projectId }) => projectId));
    for (let again = [{ part: PART, afterProject: FIRST_PROJECT }]; again.length > 0;) {
      const done = await processPartitions(
        {
          transact: domain.transact,
          plans,
          claimLimit: 3,
          onSeen,
          onError: (error) => assert.fail(String(error)),
          onLeft: () => assert.fail("left"),
        },
        again,
      );
      again = [...done.again];
    }
    assert.deepEqual(seen.toSorted(), ids.flatMap((id) => [id, id]).toSorted());
  });

  it("are small while several tenants have events", async () => {
    const [large, small] = [await aProject(), await aProject()];
    const order = new ClaimOrder();
    const options = { order, claimLimit: 20, claimTogether: 2 };
    await track(large, 9);
    assert.deepEqual((await claim(options)).events, 9, "alone it has all");
    await track(small, 1);
    await claim(options);
    await track(large, 9);
    const shared = await claim(options);
    assert.deepEqual([shared.events, shared.again.length], [4, 1]);
  });

  it("end when they have taken their time, and keep a slow project back for a while", async () => {
    const [slow, neighbour] = [await aProject(), await aProject()];
    await track(slow, 3);
    const order = new ClaimOrder();
    const first = await claim({ order, stats: taking(220) });
    assert.deepEqual([first.events, first.again.length], [1, 1]);
    assert.deepEqual(order.resting, [slow]);
    await track(neighbour, 1);
    const second = await claim({ order });
    assert.deepEqual([second.events, await waiting(slow), await waiting(neighbour)], [1, 2, 0]);
    assert.deepEqual(second.closed, [PART]);
    await second.reopened;
    assert.deepEqual(order.resting, []);
    assert.equal((await claim({ order })).events, 2);
    assert.deepEqual(await xpOf(domain, slow), { [userIn(slow, PART)]: 3 });
  });

  it("leave no player behind who was made for an event that they did not come to", async () => {
    const id = await aProject();
    const users = usersIn(id, PART, 3);
    await domain.track(
      id,
      users.map((user) => ({ user })),
    );
    assert.equal((await claim({ stats: taking(220) })).events, 1);
    const players = await domain.sql`select from players where project_id = ${id}`;
    assert.equal(players.length, 1);
  });

  it("end where a project would lock too many counters at once, and go on from there", async () => {
    const projectId = await domain.addProject();
    const [rules, days] = [60, 100];
    const limits = { global: [{ max: 1, window: "DAY" }] };
    for (let i = 0; i < rules; i++)
      await publish(domain, projectId, { key: `r${i}`, limits, stopOnMatch: false });
    const user = userIn(projectId, PART);
    await domain.track(
      projectId,
      times(days, (i) => ({ user, at: new Date(Date.now() - i * 86_400_000) })),
    );
    await (
      await claim({ claimLimit: 500 })
    ).preparing;
    const { events } = await claim({ claimLimit: 500 });
    assert(events * rules <= SHARED_KEYS_MAX + rules, `${events} events in one claim`);
    await processAll(domain);
    const query = sql<{ n: number }>`
      select sum(used)::int as n from shared_counters where project_id = ${projectId}`;
    assert.equal((await rowsOf(domain, query))[0]!.n, rules * days);
  });
});

describe("the order of a process's claims", () => {
  it("is shared while two tenants have had events lately", () => {
    let now = 0;
    const order = new ClaimOrder(() => now);
    order.seen(["a"]);
    order.seen(["a"]);
    assert.equal(order.isShared, false);
    order.seen(["b", "a"]);
    assert.equal(order.isShared, true);
    now += 11_000;
    order.seen(["a"]);
    assert.equal(order.isShared, false);
  });

  it("leaves out projects until what they wait for is over, and tells when", async () => {
    const order = new ClaimOrder();
    const { promise, resolve } = Promise.withResolvers<void>();
    order.rest("a", promise);
    order.rest("b", new Promise(() => undefined));
    assert.deepEqual(order.resting, ["a", "b"]);
    resolve();
    await order.rested;
    assert.deepEqual(order.resting, ["b"]);
  });
});
