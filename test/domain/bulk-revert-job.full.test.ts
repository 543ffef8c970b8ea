import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { JobSteps, LEASE_MS } from "../../src/domain/long-work/step-job.ts";
import { JOB_KINDS } from "../../src/domain/registries/jobs/kinds.ts";
import { bulkRevert, startBulkRevert } from "../../src/domain/revert/bulk/bulk-revert.ts";
import { GROUP_MAX } from "../../src/domain/revert/bulk/sums.ts";
import { revertEvents, type RevertResult } from "../../src/domain/revert/revert-events.ts";
import { makeCrashing, runJob } from "../support/domain/crashing.ts";
import {
  findingsOf,
  memoryDomain,
  openDomain,
  openMemoryDatabase,
  processAll,
  publish,
} from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";
import { cases } from "../support/properties.ts";
import {
  aHistoryProject,
  eventAgo,
  HOW,
  NOBODY,
  standingOf,
  takeBack,
  type Won,
  wonItems,
} from "../support/reverts/histories.ts";

describe("events that are reverted together", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  let runs = 0;

  before(async () => {
    projectId = await aHistoryProject(domain);
  });

  const together = (eventIds: readonly string[]) =>
    domain.transact((work) => revertEvents(work, projectId, { eventIds, ...HOW }));
  const track = async (sent: readonly { user: string; event: Won }[]): Promise<string[]> => {
    const ids = await domain.track(
      projectId,
      sent.map(({ user, event }) => ({ user, type: "won", ...event })),
    );
    await processAll(domain);
    return ids;
  };
  const has = async (user: string) => (await standingOf(domain, projectId, user)) ?? NOBODY;
  const sum = (results: readonly RevertResult[]): number =>
    results.reduce((total, { reversed }) => total + reversed.xp, 0);

  it("leave every player as one by one in any order, and as if they had never been", () =>
    fc.assert(
      fc.asyncProperty(fc.array(wonItems, { minLength: 1, maxLength: 3 }), async (histories) => {
        const run = runs++;
        const name = (kind: string, n: number): string => `${kind}-${run}-${n}`;
        const all = histories.flatMap((items, n) => items.map((item) => ({ n, item })));
        const play = (kind: string, some: typeof all): Promise<string[]> =>
          track(some.map(({ n, item }) => ({ user: name(kind, n), event: eventAgo(item) })));
        const isGone = ({ item }: (typeof all)[number]): boolean => item.reverted > 0;
        const bulk = await play("bulk", all);
        const single = await play("single", all);
        await play(
          "never",
          all.filter((one) => !isGone(one)),
        );
        const { results, refused } = await together(bulk.filter((_, i) => isGone(all[i]!)));
        assert.equal(refused.size, 0);
        for (const { left } of results)
          assert.deepEqual(
            left.filter((what) => !/^(level|streak) /.test(what)),
            [],
          );
        const singly: RevertResult[] = [];
        const inOrder = all
          .map((one, i) => ({ ...one, id: single[i]! }))
          .filter(isGone)
          .toSorted((a, b) => a.item.reverted - b.item.reverted);
        for (const { id } of inOrder) singly.push(await takeBack(domain, projectId, id));
        assert.equal(sum(results), sum(singly));
        for (const n of histories.keys()) {
          const expected = await has(name("never", n));
          assert.deepEqual(await has(name("single", n)), expected);
          assert.deepEqual(await has(name("bulk", n)), expected);
        }
      }),
      { numRuns: cases(20) },
    ));
});

/** The players that an event may reach besides its own. */
const FRIENDS = Object.fromEntries([1, 2, 3, 4, 5, 6].map((n) => [`friend${n}`, `friend-${n}`]));

describe("the job of a bulk revert", () => {
  let aheadMs = 0;

  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  const domain = madeOnce(() => openDomain(database, () => new Date(Date.now() + aheadMs)));
  const crashing = madeOnce(() => makeCrashing(database));

  const paramsOf = (filter: Json): Json => ({
    filter,
    upTo: newId(),
    reason: "test",
    onShortfall: "CLAMP",
    dryRun: false,
  });
  const play = async (projectId: string, users: readonly string[], each: number): Promise<string[]> => {
    const sent = Array.from({ length: each }, (_, i) =>
      users.map((user) => ({
        user,
        type: "won",
        properties: { score: 1 + (i % 3), game: "abc"[i % 3]!, ...FRIENDS },
      })),
    );
    const ids = await domain.track(projectId, sent.flat());
    await processAll(domain);
    return ids;
  };
  const names = (count: number, kind = "player"): string[] =>
    Array.from({ length: count }, (_, i) => `${kind}-${i}`);
  const toldOf = async (projectId: string): Promise<string[]> => {
    const rows = await domain.sql<{ id: string }>`
      select data->>'eventId' as id from outbox
      where project_id = ${projectId} and type = 'event.reverted'`;
    return rows.map(({ id }) => id).toSorted();
  };

  it("tells of no event whose revert was rolled back, and once of each that is reverted", async () => {
    const projectId = await aHistoryProject(domain);
    const [spent] = await play(projectId, ["spender"], 1);
    await domain.transact(async (work) => {
      await sql`update players set xp = 0 where project_id = ${projectId}`.execute(work.db);
    });
    // Of a player who is not known yet; it is the later one, so that it is reverted first.
    const [waiting] = await domain.track(projectId, [{ user: "nobody yet", type: "won" }]);
    const params = { ...paramsOf({ eventIds: [spent!, waiting!] }), onShortfall: "REJECT" };
    const { result } = await runJob(domain, projectId, { kind: bulkRevert, params });
    assert.deepEqual([result["reverted"], result["refused"]], [1, [{ eventId: spent, reason: "SHORTFALL" }]]);
    assert.deepEqual(await toldOf(projectId), [waiting]);
  });

  it("is resumed wherever its process dies, and reverts each event exactly once", async () => {
    const projectId = await aHistoryProject(domain);
    const stays = await play(projectId, ["stays", "player-0"], 1);
    const start = await standingOf(domain, projectId, "player-0");
    const ids = await play(projectId, names(3), 3);
    const { transact } = domain;
    const job = await transact((work) =>
      startBulkRevert(work, projectId, {
        filter: { eventIds: ids },
        reason: "test",
        onShortfall: "CLAMP",
        dryRun: false,
        actor: "test",
      }),
    );
    const jobs = new JobSteps({ transact, kinds: JOB_KINDS, onError: () => undefined });
    const statusOf = async () => {
      const [row] = await domain.sql<{
        status: string;
        result: Json;
      }>`select status, result from project_jobs where id = ${job.id}`;
      return row!;
    };
    let deaths = 0;
    for (let at = 1; (await statusOf()).status !== "SUCCEEDED"; at++) {
      assert.ok(at < 200, "it ends");
      const died = await crashing.crashAt(at, at % 2 === 0, () => jobs.step());
      if (died) deaths++;
      // An attempt that has died counts: four in a row are the end of a job.
      await domain.sql`update project_jobs set attempts = 0 where id = ${job.id}`;
      aheadMs += LEASE_MS + 1_000;
    }
    assert.ok(deaths > 20, `it has died ${deaths} times`);
    assert.deepEqual((await statusOf()).result["reverted"], ids.length);
    assert.deepEqual(await toldOf(projectId), ids.toSorted());
    assert.deepEqual(await standingOf(domain, projectId, "player-0"), start);
    for (const user of ["player-1", "player-2"])
      assert.deepEqual((await standingOf(domain, projectId, user))!.xp, 0);
    assert.equal(stays.length, 2);
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("reverts fewer events together where all are too much for a transaction", async () => {
    const projectId = await domain.addProject();
    for (const key of ["shared", "shared-again"])
      await publish(domain, projectId, {
        key,
        triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
        actions: [1, 2, 3, 4, 5, 6].map((n) => ({
          type: "grant_xp",
          amount: n,
          target: { externalUserId: { $ref: `event.properties.friend${n}` } },
        })),
      });
    await domain.track(
      projectId,
      Object.values(FRIENDS).map((user) => ({ user, type: "seen" })),
    );
    const ids = await play(projectId, names(20), 12);
    const xp = async () => {
      const rows = await domain.sql<{ xp: string }>`
        select sum(xp) as xp from players where project_id = ${projectId}`;
      return Number(rows[0]!.xp);
    };
    assert.equal(await xp(), ids.length * 42);
    const params = paramsOf({ receivedFrom: new Date(0).toISOString(), eventType: "won" });
    const { result, steps } = await runJob(domain, projectId, { kind: bulkRevert, params });
    assert.deepEqual([result["reverted"], result["skipped"], await xp()], [ids.length, {}, 0]);
    assert.ok(steps > 1 + Math.ceil(ids.length / GROUP_MAX) + 1, `${steps} steps`);
    assert.deepEqual(await toldOf(projectId), ids.toSorted());
  });

  it("is over when it is cancelled, and what was reverted before stays so", async () => {
    const projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    const ids = await play(projectId, names(40), 10);
    const { transact } = domain;
    const params = paramsOf({ eventIds: ids.toSorted() });
    const { id } = await transact((work) =>
      queueJob(work, projectId, { kind: bulkRevert, params, createdBy: "test" }),
    );
    const jobs = new JobSteps({ transact, kinds: JOB_KINDS, onError: (error) => assert.fail(String(error)) });
    for (const _ of [1, 2]) await jobs.step();
    const [{ progress }] = (await domain.sql<{ progress: number }>`
      select progress from project_jobs where id = ${id}`) as [{ progress: number }];
    assert.ok(progress > 10 && progress < 100, `${progress} percent`);
    await domain.sql`update project_jobs set status = 'CANCELLED' where id = ${id}`;
    assert.equal(await jobs.step(), false);
    const told = await toldOf(projectId);
    assert.ok(told.length > 0 && told.length < ids.length, `${told.length} reverted`);
    const { result } = await runJob(domain, projectId, { kind: bulkRevert, params });
    const { reverted, skipped } = result as { reverted: number; skipped: Record<string, number> };
    assert.deepEqual([reverted, skipped], [ids.length - told.length, { REVERTED: told.length }]);
    assert.deepEqual(await toldOf(projectId), ids.toSorted());
  });
});
