import assert from "node:assert/strict";
import { sql } from "kysely";
import { newId, OUTBOX_PARTITIONS } from "../../src/domain/kernel/ids.ts";
import { relayPartitions } from "../../src/domain/delivery/outbox/relay.ts";
import { RelaySchedule, type RoundPlan } from "../../src/domain/delivery/outbox/relay-schedule.ts";
import { readFeed } from "../../src/domain/delivery/webhooks/feed.ts";
import { CPU_SLACK, leastBlockMs } from "../support/cpu.ts";
import { openWebhookCluster } from "../support/webhooks/webhook-cluster.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;
const ALL_PARTS = Array.from({ length: OUTBOX_PARTITIONS }, (_, part) => part);
/** An object of which each byte costs most, of 16 KB. */
const NAMES = Object.fromEntries(Array.from({ length: 1_600 }, (_, i) => [`k${i}`, 1]));

/** Rounds of so many rows at most, other than those of anybody else. */
class SmallRounds extends RelaySchedule {
  readonly #rows: number;

  constructor(rows: number) {
    super();
    this.#rows = rows;
  }

  override next(): RoundPlan {
    return { ...super.next(), rows: this.#rows };
  }
}

describe("a relay of large rows", () => {
  const cluster = madeOnce(
    () => openWebhookCluster(),
    (made) => made.close(),
  );
  const site = madeForEach(() => cluster.aSite());
  beforeEach(async () => {
    await cluster.app.transact((work) => readFeed(work, site, { limit: 1 }));
  });

  const commit = (numbers: readonly number[], data: object): Promise<void> =>
    cluster.app.transact(async (work) => {
      for (const n of numbers)
        work.emit(site.projectId, "custom.thing" as never, { n, ...data } as never, { playerId: newId() });
    });
  const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);
  const relayAll = async (schedule = new RelaySchedule()): Promise<void> => {
    for (let again: readonly number[] = ALL_PARTS; again.length > 0;)
      ({ again } = await relayPartitions({ ...cluster.app, schedule }, again));
  };

  it("takes turns with everything else of its process", async () => {
    const rows = 500;
    let made = 0;
    const commitMany = async (): Promise<void> => {
      for (let i = 0; i < rows; i += 50) await commit(range(made + i, 50), { big: NAMES });
      made += rows;
    };
    await commitMany();
    const blockMs = await leastBlockMs(async () => {
      await commitMany();
      await relayAll();
    }, BLOCK_MAX_MS);
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
  });

  it("reads pages of the feed that are bounded by bytes, and misses none", async () => {
    const rows = 300;
    for (let i = 0; i < rows; i += 50) await commit(range(i, 50), { big: NAMES });
    await relayAll();
    const read = (cursor?: string) =>
      cluster.app.transact((work) => readFeed(work, site, { limit: 500, cursor }));
    const seen: number[] = [];
    let page = await read();
    for (;;) {
      seen.push(...page.data.map(({ data }) => (data as { n: number }).n));
      assert(page.data.length <= rows / 3, `${page.data.length} events of 16 KB in one page`);
      if (!page.hasMore) break;
      page = await read(page.nextCursor);
    }
    assert.deepEqual(
      seen.toSorted((a, b) => a - b),
      range(0, rows),
    );
    const blockMs = await leastBlockMs(() => read(), BLOCK_MAX_MS);
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
  });

  it("puts each row into the feed once, whoever else relays a part of the same commit", async () => {
    const commits = 20;
    const each = 40;
    for (let i = 0; i < commits; i++) await commit(range(i * each, each), {});
    const relays = [1, 7, 50, 4_000].map((rows) => relayAll(new SmallRounds(rows)));
    await Promise.all(relays);
    await relayAll();
    const { rows } = await cluster.app.transact(({ db }) =>
      sql<{ n: number; players: string }>`
        select (body::jsonb->'data'->>'n')::int as n, players[1] as players from webhook_events
        where project_id = ${site.projectId} order by seq`.execute(db),
    );
    assert.deepEqual(
      rows.map(({ n }) => n).toSorted((a, b) => a - b),
      range(0, commits * each),
    );
  });
});
