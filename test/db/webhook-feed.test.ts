import assert from "node:assert/strict";
import { type FeedPage, readFeed } from "../../src/domain/delivery/webhooks/feed.ts";
import { eventually } from "../support/eventually.ts";
import { kill } from "../support/processes/process.ts";
import { openWebhookCluster } from "../support/webhooks/webhook-app.ts";
import { madeOnce } from "../support/made.ts";

const COMMITS = 60;
const EVENTS = 20;
const KILL_AT = 30;

describe("the feed of webhook events, filled by two workers of which one is killed", () => {
  const cluster = madeOnce(
    () => openWebhookCluster(),
    (made) => made.close(),
  );
  const site = madeOnce(() => cluster.aSite());

  const read = (cursor?: string): Promise<FeedPage> =>
    cluster.app.transact((work) => readFeed(work, site, { limit: 100, cursor }));

  it("has each event once, and gives it once to who reads on meanwhile", async () => {
    let { nextCursor: cursor } = await read();
    const seen: number[] = [];
    const readOn = async (): Promise<void> => {
      const page = await read(cursor);
      seen.push(...page.data.map(({ data }) => (data as { n: number }).n));
      cursor = page.nextCursor;
    };
    const [killed] = await Promise.all([cluster.startWorker(), cluster.startWorker()]);
    for (let i = 0; i < COMMITS; i++) {
      await cluster.commit(
        site,
        Array.from({ length: EVENTS }, (_, n) => ({ n: i * EVENTS + n })),
      );
      if (i === KILL_AT) await kill(killed);
      await readOn();
    }
    const all = COMMITS * EVENTS;
    await eventually(
      async () => {
        await readOn();
        return seen.length >= all;
      },
      { timeoutMs: 60_000 },
    );
    await readOn();
    assert.deepEqual(
      seen.toSorted((a, b) => a - b),
      Array.from({ length: all }, (_, n) => n),
    );
    const rows = await cluster.sql<{ ids: string; first: string; last: string }>`
      select count(distinct id) as ids, min(seq) as first, max(seq) as last
      from webhook_events where project_id = ${site.projectId}`;
    assert.deepEqual(
      rows.map(({ ids, first, last }) => [Number(ids), Number(first), Number(last)]),
      [[all, 1, all]],
    );
  });
});
