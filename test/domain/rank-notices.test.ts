import assert from "node:assert/strict";
import * as fc from "fast-check";
import { sql } from "kysely";
import type { EventData } from "../../src/domain/kernel/events/domain-events.ts";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { newId, ranksPart } from "../../src/domain/kernel/ids.ts";
import { sendDueNotices } from "../../src/domain/leaderboards/notices/send.ts";
import { significanceOf } from "../../src/domain/leaderboards/notices/notice-lists.ts";
import { DEFAULT_RANK_CHANGE } from "../../src/domain/evaluation/boards/definition.ts";
import { relayPartitions } from "../../src/domain/delivery/outbox/relay.ts";
import { makeCrashing } from "../support/domain/crashing.ts";
import { openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { NoticeModel, type RankChanged, type ToldChange } from "../support/leaderboards/ranks.ts";
import { madeOnce } from "../support/made.ts";

const CUSTOM = { metric: { source: "CUSTOM" }, operator: "LATEST" };
const DEBOUNCE_MS = DEFAULT_RANK_CHANGE.debounceSeconds * 1_000;

describe("rank notices", () => {
  let projectId: string;
  const players = new Map<string, string>();
  const users = (n: number): string[] => Array.from({ length: n }, (_, i) => `u${i}`);
  let nowMs = Date.now() - 86_400_000;

  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  const domain = madeOnce(() => openDomain(database, () => new Date(nowMs)));
  before(async () => {
    projectId = await domain.addProject();
    // Ids rise with the order of creation.
    for (const user of [...users(16), "ann", "bob", "cid"])
      players.set(user, await domain.addPlayer(projectId, user));
  });

  type LeaderTold = EventData<"leaderboard.new_leader">;
  type Entry = { i: string; s: number; t: number; v: number };

  /** A board with players u0, u1, …, and ways to change entries and to hear what is told. */
  const aBoard = async (definition: object = {}) => {
    const board = await domain.addBoard(projectId, { key: newId(), name: "Runs", ...CUSTOM, ...definition });
    const entries = new Map<string, Entry>();
    const seen = new Set<string>();
    /** Events of a type that came since the last look. */
    const news = async <T>(type: string): Promise<T[]> => {
      const found = await domain.sql<{ id: string; data: T }>`
        select id, data from outbox where project_id = ${projectId} and type = ${type}
          and data->>'leaderboardId' = ${board.id} order by id`;
      const fresh = found.filter(({ id }) => !seen.has(id));
      for (const { id } of fresh) seen.add(id);
      return fresh.map(({ data }) => data);
    };
    const entryOf = ([user, score]: [string, number]): Entry => {
      const [i, units] = [players.get(user)!, Math.round(score * 10 ** board.definition.scoreDecimals)];
      const old = entries.get(user);
      const t = old?.s === 0 - units ? old.t : nowMs * 1_000;
      const entry = { i, s: 0 - units, t, v: (old?.v ?? 0) + 1 };
      entries.set(user, entry);
      return entry;
    };
    /** Commits entries as a batch does. */
    const score = (scores: Record<string, number>): Promise<void> =>
      domain.transact(async (work) => {
        const changed = Object.entries(scores).map(entryOf);
        await sql`
          insert into leaderboard_entries
            (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
          select ${projectId}::uuid, ${board.periodId}::uuid, i, s, t, t, v, now()
          from json_to_recordset(${JSON.stringify(changed)}::json) as x(i uuid, s bigint, t bigint, v int)
          on conflict (project_id, period_id, player_id) do update set rank_score = excluded.rank_score,
            rank_tie = excluded.rank_tie, version = excluded.version`.execute(work.db);
        const rows = changed.map(({ i, s, t, v }): EntryChange => [i, s, t, v]);
        work.emit(projectId, "leaderboard.entries_changed", { periodId: board.periodId, entries: rows });
      });
    /** The player is banned: the entry stays and is no place any more. */
    const hide = (user: string): Promise<void> =>
      domain.transact(async (work) => {
        const { i, s, t, v } = entries.get(user)!;
        const change: EntryChange = [i, s, t, v + 1, true];
        work.emit(projectId, "leaderboard.entries_changed", { periodId: board.periodId, entries: [change] });
      });
    return {
      board,
      score,
      hide,
      told: async (): Promise<ToldChange[]> =>
        (await news<RankChanged>("leaderboard.rank_changed"))
          .map((t): ToldChange => [t.externalUserId, t.previousRank, t.newRank, t.reason])
          .toSorted(),
      leaders: () => news<LeaderTold>("leaderboard.new_leader"),
    };
  };
  const relay = () => relayPartitions(domain, [ranksPart(projectId)]);

  it("are significant by bands, by distance or by entering, and by nothing else", () => {
    const reason = (before: number | null, now: number) =>
      significanceOf(DEFAULT_RANK_CHANGE, before, now)?.reason;
    assert.deepEqual(
      [reason(11, 10), reason(3, 4), reason(40, 36), reason(40, 34), reason(1_000, 950), reason(1_000, 900)],
      ["BAND", "BAND", undefined, "DELTA", undefined, "DELTA"],
    );
    assert.deepEqual(
      [reason(10_000, 9_001), reason(10_000, 9_000)],
      [undefined, "DELTA"],
      "a tenth of the way",
    );
    assert.deepEqual([reason(null, 100), reason(null, 101), reason(5, 5)], ["ENTERED", undefined, undefined]);
    assert.deepEqual(significanceOf(DEFAULT_RANK_CHANGE, 30, 2)!.crossed, [3, 10, 25]);
    const near = { ...DEFAULT_RANK_CHANGE, maxRank: 50 };
    assert.deepEqual(
      [significanceOf(near, 200, 100), significanceOf(near, 200, 50)?.reason],
      [undefined, "BAND"],
    );
  });

  it("tell what a model that looks at everybody after every change tells, once each", async () => {
    const change = fc.record({
      scores: fc.dictionary(fc.constantFrom(...users(16)), fc.integer({ min: 0, max: 12 }), {
        minKeys: 1,
        maxKeys: 6,
      }),
      waitS: fc.constantFrom(1, 5, 30, 61),
    });
    const told = { changes: 0, leaders: 0 };
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 3, maxLength: 14 }), async (changes) => {
        const game = await aBoard();
        const model = new NoticeModel((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
        for (const { scores, waitS } of changes) {
          nowMs += waitS * 1_000;
          for (const [user, score] of Object.entries(scores)) model.set(user, score, nowMs);
          const changed = Object.keys(scores);
          await game.score(scores);
          await relay();
          await sendDueNotices(domain);
          // Who had to wait may be looked at by the relay or by the sweep that comes after it.
          const expected = [...model.step(new Set(changed), nowMs), ...model.sweep(nowMs)].toSorted();
          assert.deepEqual(await game.told(), expected);
          const leader = model.newLeader();
          const named = (await game.leaders()).map((one) => one.leader.externalUserId);
          assert.deepEqual(named, leader === undefined ? [] : [leader]);
          told.changes += expected.length;
          told.leaders += named.length;
        }
      }),
      { numRuns: 10, endOnFailure: true },
    );
    assert.ok(told.changes > 50 && told.leaders > 10, JSON.stringify(told));
  });

  it("are told once when the relay dies at any statement, before or after it", async () => {
    const crashing = await makeCrashing(database);
    const game = await aBoard();
    await game.score(Object.fromEntries(users(12).map((user, i) => [user, 100 - i])));
    await relay();
    assert.equal((await game.told()).length, 12);
    assert.equal((await game.leaders()).length, 1);
    for (const isAfter of [false, true]) {
      nowMs += DEBOUNCE_MS + 1;
      const last = isAfter ? "u10" : "u11";
      await game.score({ [last]: isAfter ? 2_000 : 1_000 });
      let died = 0;
      while (died < 50 && (await crashing.crashAt(died + 1, isAfter, relay))) died++;
      assert.ok(died >= 7 && died < 50, `the relay died ${died} times`);
      const changes = await game.told();
      assert.deepEqual(
        changes.filter(([user]) => user === last),
        [[last, isAfter ? 11 : 12, 1, "BAND"]],
      );
      assert.equal(new Set(changes.map(([user]) => user)).size, changes.length);
      assert.deepEqual(
        (await game.leaders()).map((one) => one.leader.externalUserId),
        [last],
      );
    }
  });

  it("wait for the time between two, and then tell the rank of that moment", async () => {
    const game = await aBoard();
    await game.score(Object.fromEntries(users(5).map((user, i) => [user, 100 - i])));
    await relay();
    await game.told();
    nowMs += 1_000;
    await game.score({ u4: 200 });
    await relay();
    await game.score({ u4: 99.5 });
    await relay();
    assert.deepEqual(await game.told(), []);
    nowMs += DEBOUNCE_MS;
    await sendDueNotices(domain);
    assert.deepEqual(await game.told(), [
      ["u2", 3, 4, "BAND"],
      ["u4", 5, 2, "BAND"],
    ]);
    await sendDueNotices(domain);
    assert.deepEqual(await game.told(), []);
  });

  it("name the first leader, who passes him, and not who is left when he is gone", async () => {
    const game = await aBoard({ scoreDecimals: 1 });
    await game.score({ ann: 10 });
    await relay();
    const [first] = await game.leaders();
    assert.deepEqual(
      [first!.leader.externalUserId, first!.previousLeader, first!.margin],
      ["ann", null, null],
    );
    nowMs += 1_000;
    await game.score({ bob: 10, cid: 9 });
    await relay();
    assert.deepEqual(await game.leaders(), []);
    nowMs += 1_000;
    await game.score({ bob: 10.3 });
    await game.score({ cid: 12.5 });
    await relay();
    const [second, ...more] = await game.leaders();
    assert.deepEqual(more, []);
    assert.deepEqual(
      [
        second!.leader.externalUserId,
        second!.leader.score,
        second!.previousLeader!.externalUserId,
        second!.margin,
      ],
      ["cid", 12.5, "ann", 2.5],
    );
    await game.hide("cid");
    await relay();
    assert.deepEqual(await game.leaders(), []);
    // Bob leads by now, without a word; whoever passes him is told of.
    await game.score({ ann: 10.4 });
    await relay();
    const [third] = await game.leaders();
    assert.deepEqual([third!.leader.externalUserId, third!.previousLeader!.externalUserId], ["ann", "bob"]);
  });
});
