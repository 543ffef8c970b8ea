import assert from "node:assert/strict";
import { sql } from "kysely";
import { linesPart, newId, OUTBOX_PARTITIONS } from "../../src/domain/kernel/ids.ts";
import { relayPartitions } from "../../src/domain/delivery/outbox/relay.ts";
import { RELAY_BYTES, RelaySchedule } from "../../src/domain/delivery/outbox/relay-schedule.ts";
import { readFeed } from "../../src/domain/delivery/webhooks/feed.ts";
import { type HookSite, openWebhookApp } from "../support/webhooks/webhook-app.ts";
import { madeOnce } from "../support/made.ts";

const ROW_BYTES = 16 * 1024;
const FAT = "x".repeat(ROW_BYTES);
const ALL_PARTS = Array.from({ length: OUTBOX_PARTITIONS }, (_, part) => part);
/** More than any test needs. */
const ROUNDS_MAX = 200;
/** Row of which the database takes no body. */
const POISON = "poison";

describe("rounds of the relay", () => {
  /** All rows of a test are of this player, and so in one partition. */
  let playerId: string;
  let nowMs = 0;
  let schedule: RelaySchedule;

  const hooks = madeOnce(
    () => openWebhookApp(),
    (made) => made.close(),
  );
  beforeEach(() => {
    playerId = newId();
    schedule = new RelaySchedule(() => nowMs);
  });
  afterEach(async () => {
    await hooks.sql`alter table webhook_events drop constraint if exists no_poison`;
    while ((await relayPartitions(hooks.app, ALL_PARTS)).again.length > 0);
  });

  /** A project whose feed is read. */
  const aReader = async (): Promise<HookSite> => {
    const site = await hooks.aSite();
    await hooks.app.transact((work) => readFeed(work, site, { limit: 1 }));
    return site;
  };
  /** One commit of events that are numbered. */
  const commit = ({ projectId }: HookSite, numbers: readonly number[], text = ""): Promise<void> =>
    hooks.app.transact(async (work) => {
      for (const n of numbers)
        work.emit(projectId, "custom.thing" as never, { n, text } as never, { playerId });
    });
  const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);
  const relay = (): Promise<{ rows: number; again: readonly number[] }> =>
    relayPartitions({ ...hooks.app, schedule }, [linesPart(playerId)]);
  /** Numbers of the events in a project's feed. */
  const told = async ({ projectId }: HookSite): Promise<number[]> => {
    const rows = await hooks.sql<{ body: string }>`
      select body from webhook_events where project_id = ${projectId} order by seq`;
    return rows.map(({ body }) => (JSON.parse(body) as { data: { n: number } }).data.n);
  };
  const refusePoison = (): Promise<unknown> =>
    hooks.sql`alter table webhook_events add constraint no_poison
      check (body not like ${sql.lit(`%${POISON}%`)}) not valid`;

  it("have so many bytes at most, take commits in part, and tell each row once and in order", async () => {
    const site = await aReader();
    const each = 100;
    for (let i = 0; i < 4; i++) await commit(site, range(i * each, each), FAT);
    const sizes: number[] = [];
    for (let again: readonly number[] = [0]; again.length > 0;) {
      const round = await relay();
      sizes.push(round.rows);
      again = round.again;
    }
    assert(Math.max(...sizes) * ROW_BYTES <= RELAY_BYTES, `rounds had ${sizes.join()} rows`);
    assert(sizes[0]! * ROW_BYTES > RELAY_BYTES / 2, "a round is as large as it may be");
    assert.deepEqual(await told(site), range(0, 4 * each));
  });

  it("have rows of a project whatever waits before them of another", async () => {
    const [fat, small] = [await aReader(), await aReader()];
    for (let i = 0; i < 60; i++) await commit(fat, range(i * 5, 5), FAT);
    await commit(small, [1, 2, 3]);
    await relay();
    assert.deepEqual(await told(small), [1, 2, 3]);
    const shown = await told(fat);
    assert(shown.length > 50, "the other has its share");
    assert.deepEqual(shown, range(0, shown.length));
  });

  it("of a project that fail keep nobody else's from going, and get smaller down to one row", async () => {
    await refusePoison();
    const [bad, good] = [await aReader(), await aReader()];
    await commit(bad, range(0, 37));
    await commit(bad, [37], POISON);
    await commit(bad, range(38, 10));
    await commit(good, [1]);
    let failed = 0;
    const tryOnce = (): Promise<unknown> => relay().catch(() => void failed++);
    for (let i = 0; i < 4; i++) await tryOnce();
    assert.deepEqual(await told(good), [1]);
    for (let i = 0; i < ROUNDS_MAX && (await told(bad)).length < 37; i++) await tryOnce();
    assert.deepEqual(await told(bad), range(0, 37), "all before the one that cannot go");
    assert(failed < 20, `${failed} rounds failed`);
    await commit(good, [2]);
    for (let i = 0; i < 2; i++) await tryOnce();
    assert.deepEqual(await told(good), [1, 2]);
    await hooks.sql`alter table webhook_events drop constraint no_poison`;
    nowMs += 3_600_000;
    for (let i = 0; i < ROUNDS_MAX && (await told(bad)).length < 48; i++) await tryOnce();
    assert.deepEqual(await told(bad), range(0, 48));
  });

  it("rest where one row alone fails, and for longer while those of others go through", async () => {
    await refusePoison();
    const [bad, good] = [await aReader(), await aReader()];
    await commit(bad, [1], POISON);
    let failed = 0;
    const tries = async (): Promise<number> => {
      const before = failed;
      for (let i = 0; i < 20; i++) await relay().catch(() => void failed++);
      return failed - before;
    };
    assert((await tries()) <= 3);
    for (let i = 0; i < 3; i++) {
      nowMs += 1_000;
      assert.equal(await tries(), 1, "what all need may be away");
    }
    await commit(good, [1]);
    assert.equal(await tries(), 0);
    assert.deepEqual(await told(good), [1]);
    nowMs += 1_000;
    assert.equal(await tries(), 1);
    nowMs += 1_000;
    assert.equal(await tries(), 0);
    nowMs += 1_000;
    assert.equal(await tries(), 1);
  });
});
