import assert from "node:assert/strict";
import type { App } from "../../src/app.ts";
import { readFeed } from "../../src/domain/delivery/webhooks/feed.ts";
import type { RankStore } from "../../src/domain/evaluation/boards/ranks.ts";
import { newId, ranksPart } from "../../src/domain/kernel/ids.ts";
import { createJobs } from "../../src/jobs/jobs.ts";
import { startRunners } from "../../src/jobs/job.ts";
import { eventually } from "../support/eventually.ts";
import { type HookSite, openWebhookApp } from "../support/webhooks/webhook-app.ts";
import { madeOnce } from "../support/made.ts";

/** Players of a list: a commit that changes them all has 15 KB. */
const PLAYERS = Array.from({ length: 200 }, () => newId());
const NO_ONE = { timeoutMs: 60_000 };

type Applied = { projectId: string; entries: Parameters<RankStore["apply"]>[2] };

describe("backlogs of the relay", () => {
  let applied: Applied[];

  const hooks = madeOnce(
    () => openWebhookApp(),
    (made) => made.close(),
  );
  beforeEach(() => {
    applied = [];
  });

  const change = ({ projectId }: HookSite, periodId: string, version: number): Promise<void> =>
    hooks.app.transact(async (work) =>
      work.emit(projectId, "leaderboard.entries_changed", {
        periodId,
        entries: PLAYERS.map((playerId) => [playerId, -version, 1, version]),
      }),
    );
  /** Commits that change the same entries, numbered by their versions from 1 on. */
  const changes = async (site: HookSite, commits: number): Promise<void> => {
    const periodId = newId();
    for (let n = 1; n <= commits; n++) await change(site, periodId, n);
  };
  /** An app whose rank index says what it is given, and does it when `before` resolves. */
  const appWith = (before: (projectId: string) => Promise<unknown> = async () => undefined): App => ({
    ...hooks.app,
    ranks: {
      ...hooks.app.ranks,
      apply: async (projectId, periodId, entries) => {
        await before(projectId);
        applied.push({ projectId, entries });
        return hooks.app.ranks.apply(projectId, periodId, entries);
      },
    },
  });
  const start = async (app: App): Promise<void> => {
    const jobs = Object.entries(createJobs()).filter(([name]) => name.startsWith("relay-"));
    await app.queue.start(startRunners(app, Object.fromEntries(jobs)));
  };
  const wake = ({ projectId }: HookSite): void =>
    hooks.app.queue.wake("relay-outbox", String(ranksPart(projectId)));
  const isRelayed = async ({ projectId }: HookSite): Promise<boolean> => {
    const rows = await hooks.sql`select from outbox_q where project_id = ${projectId}::uuid limit 1`;
    return rows.length === 0;
  };
  const appliedOf = (site: HookSite) =>
    applied.filter(({ projectId }) => projectId === site.projectId).flatMap(({ entries }) => entries);
  /** A project whose changes of boards are in the same partition. */
  const aNeighbour = async (site: HookSite): Promise<HookSite> => {
    const other = await hooks.aSite();
    return ranksPart(other.projectId) === ranksPart(site.projectId) ? other : aNeighbour(site);
  };

  it("keep no change of another project waiting, not even in the same partition", async () => {
    const fat = await hooks.aSite();
    const live = await aNeighbour(fat);
    await changes(fat, 120);
    const gate = Promise.withResolvers<void>();
    let calls = 0;
    await start(appWith(async (projectId) => projectId === fat.projectId && ++calls > 1 && gate.promise));
    wake(fat);
    try {
      await eventually(() => calls > 1, { ...NO_ONE, label: "a backlog that stands still" });
      await changes(live, 1);
      await eventually(() => appliedOf(live).length > 0, { label: "the live project's change is applied" });
    } finally {
      gate.resolve();
    }
    await eventually(() => isRelayed(fat), NO_ONE);
    assert.equal(Math.max(...appliedOf(fat).map(([, , , version]) => version)), 120);
    await hooks.app.queue.close();
  });

  it("apply the last word about each entry, whatever number of commits wait", async () => {
    const fat = await hooks.aSite();
    const commits = 300;
    await changes(fat, commits);
    await start(appWith());
    wake(fat);
    await eventually(() => isRelayed(fat), NO_ONE);
    const entries = appliedOf(fat);
    const last = new Map(entries.map(([playerId, , , version]) => [playerId, version]));
    assert.deepEqual(new Set(last.values()), new Set([commits]));
    assert(entries.length <= 4 * PLAYERS.length, `${entries.length} entries were applied`);
    await hooks.app.queue.close();
  });

  it("keep the order of a player's lines, also of those that are committed meanwhile", async () => {
    const site = await hooks.aSite();
    await hooks.app.transact((work) => readFeed(work, site, { limit: 1 }));
    const playerId = newId();
    const text = "x".repeat(16 * 1024);
    const lines = (from: number, count: number) =>
      hooks.app.transact(async (work) => {
        for (let n = from; n < from + count; n++)
          work.emit(site.projectId, "custom.thing" as never, { n, text } as never, { playerId });
      });
    for (let n = 0; n < 200; n += 5) await lines(n, 5);
    await start(appWith());
    for (let n = 200; n < 300; n += 5) await lines(n, 5);
    await eventually(() => isRelayed(site), NO_ONE);
    const rows = await hooks.sql<{ body: string }>`
      select body from webhook_events where project_id = ${site.projectId} order by seq`;
    const told = rows.map(({ body }) => (JSON.parse(body) as { data: { n: number } }).data.n);
    assert.deepEqual(
      told,
      Array.from({ length: 300 }, (_, n) => n),
    );
    await hooks.app.queue.close();
  });

  it("that fail are tried again, while changes of others go on", async () => {
    const fat = await hooks.aSite();
    const live = await aNeighbour(fat);
    await changes(fat, 120);
    let failures = 0;
    await start(
      appWith(async (projectId) => {
        const isNext = applied.some((one) => one.projectId === fat.projectId);
        if (projectId !== fat.projectId || !isNext || failures >= 3) return;
        failures++;
        throw new Error("the index refuses");
      }),
    );
    wake(fat);
    await eventually(() => failures > 0, NO_ONE);
    await changes(live, 1);
    await eventually(() => {
      // What the sweep does.
      wake(fat);
      return appliedOf(live).length > 0;
    });
    await eventually(() => {
      wake(fat);
      return isRelayed(fat);
    }, NO_ONE);
    assert.equal(failures, 3);
    assert.equal(Math.max(...appliedOf(fat).map(([, , , version]) => version)), 120);
    await hooks.app.queue.close();
  });
});
