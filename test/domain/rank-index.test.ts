import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import {
  type EntrySource,
  joinMoved,
  type Moved,
  type Standing,
  TIES,
  type Ties,
} from "../../src/domain/evaluation/boards/ranks.ts";
import {
  createMemoryRanks,
  OrderedList,
  PERIODS_IN_MEMORY_MAX,
  RankIndex,
} from "../../src/domain/leaderboards/rank-index.ts";
import { checkMoved } from "../support/leaderboards/ranks.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

/** What every entry ought to be, by sorting and counting. */
const naive = (changes: readonly EntryChange[], ties: Ties): Standing[] => {
  const newest = new Map<string, EntryChange>();
  for (const change of changes) {
    const known = newest.get(change[0]);
    if (!known || change[3] > known[3]) newest.set(change[0], change);
  }
  const shown = [...newest.values()].filter(([, , , , isHidden = false]) => !isHidden);
  const sorted = shown.toSorted((a, b) => a[1] - b[1] || a[2] - b[2] || (a[0] < b[0] ? -1 : 1));
  return sorted.map(([playerId, rankScore, rankTie], position) => {
    const smaller = sorted.filter((other) => other[1] < rankScore).map((other) => other[1]);
    const shared = {
      SHARED: smaller.length,
      DENSE: new Set(smaller).size,
      EARLIEST: position,
      LATEST: position,
    };
    return { playerId, rankScore, rankTie, position, rank: shared[ties] + 1 };
  });
};

const change = fc.tuple(
  fc.integer({ min: 0, max: 40 }).map((n) => `player-${String(n).padStart(2, "0")}`),
  fc.oneof(fc.integer({ min: -5, max: 5 }), fc.maxSafeInteger()),
  fc.integer({ min: -3, max: 3 }),
  fc.integer({ min: 1, max: 6 }),
  fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
);

describe("rank index", () => {
  for (const ties of TIES) {
    it(`ranks as sorting would with ties ${ties}, whatever is set again, late or hidden`, () => {
      fc.assert(
        fc.property(
          fc.array(change, { maxLength: 120 }),
          fc.nat(45),
          fc.integer({ min: 1, max: 20 }),
          (changes, offset, limit) => {
            const index = new RankIndex();
            for (const [i, entry] of changes.entries()) {
              index.set(entry);
              // Asking early makes the structure of distinct scores live through all later changes.
              if (i === 10) index.standing(entry[0], ties);
            }
            const expected = naive(changes, ties);
            assert.deepEqual(index.page(0, 1_000, ties), { standings: expected, total: expected.length });
            assert.deepEqual(
              index.page(offset, limit, ties).standings,
              expected.slice(offset, offset + limit),
            );
            for (const standing of expected) {
              assert.deepEqual(index.standing(standing.playerId, ties), standing);
              const around = index.around(standing.playerId, limit, ties)!.standings;
              assert.equal(around.length, Math.min(limit, expected.length));
              assert.ok(around.some(({ playerId }) => playerId === standing.playerId));
              assert.deepEqual(around, expected.slice(around[0]!.position, around[0]!.position + limit));
            }
          },
        ),
        { numRuns: cases(300) },
      );
    });
  }

  for (const ties of TIES) {
    it(`moves nobody outside of what it says has moved, with ties ${ties}`, () => {
      fc.assert(
        fc.property(fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 40 }), (batches) => {
          const index = new RankIndex();
          let before: readonly Standing[] = index.page(0, 1_000, ties).standings;
          for (const batch of batches) {
            let moved: Moved | undefined;
            for (const entry of batch) moved = joinMoved(moved, index.set(entry));
            const after = index.page(0, 1_000, ties).standings;
            checkMoved([before, after], moved);
            before = after;
          }
        }),
        { numRuns: cases(200) },
      );
    });
  }

  it("says that little has moved when one score passes another", () => {
    const index = new RankIndex();
    for (let n = 0; n < 100; n++) index.set([`p${n}`, 10 * n, 0, 1]);
    assert.deepEqual(index.set(["p50", 485, 0, 2]), { from: 485, to: 500 });
    assert.equal(index.set(["p50", 0, 0, 2]), undefined);
    assert.deepEqual(index.set(["p50", 0, 0, 3, true]), { from: 485, to: null });
  });

  it("stays exact over many chunks", () => {
    const index = new RankIndex();
    const changes: EntryChange[] = [];
    for (let i = 0; i < 12_000; i++) {
      const player = (i * 7_919) % 5_000;
      changes.push([
        `p${String(player).padStart(5, "0")}`,
        (i * 31) % 997,
        (i * 17) % 13,
        1 + Math.floor(i / 5_000),
      ]);
    }
    for (const entry of changes) index.set(entry);
    for (const ties of TIES) assert.deepEqual(index.page(0, 10_000, ties).standings, naive(changes, ties));
  });

  it("knows nothing of a player without an entry", () => {
    const index = new RankIndex();
    assert.equal(index.standing("nobody", "SHARED"), undefined);
    assert.equal(index.around("nobody", 5, "SHARED"), undefined);
    assert.deepEqual(index.page(0, 5, "DENSE"), { standings: [], total: 0 });
  });
});

describe("ordered list", () => {
  it("is a sorted array with positions, also when most of it is removed again", () => {
    const list = new OrderedList<number>((a, b) => a - b);
    const kept = new Set<number>();
    for (let i = 0; i < 4_000; i++) {
      const value = (i * 2_654_435_761) % 100_003;
      if (!kept.has(value)) list.insert(value);
      kept.add(value);
    }
    for (const value of [...kept].filter((_, i) => i % 50 !== 0)) {
      assert.equal(list.remove(value), true);
      kept.delete(value);
    }
    assert.equal(list.remove(-1), false);
    const expected = [...kept].toSorted((a, b) => a - b);
    assert.equal(list.size, expected.length);
    assert.deepEqual(list.range(0, 10_000), expected);
    assert.deepEqual(list.range(7, 5), expected.slice(7, 12));
    for (const [position, value] of expected.entries()) assert.equal(list.countBefore(value), position);
    assert.equal(list.countBefore(Infinity), expected.length);
  });
});

const period = { projectId: "p", periodId: "w", ties: "EARLIEST" as Ties };

/** A truth in memory whose reading a test can hold up. */
const table = () => {
  const rows: EntryChange[] = [];
  const state = { rows, reads: 0, gate: Promise.resolve() };
  const source: EntrySource = async function* () {
    state.reads++;
    const snapshot = [...rows];
    await state.gate;
    yield snapshot.slice(0, 1);
    yield snapshot.slice(1);
  };
  return { ...state, state, source };
};

const gate = () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { promise, open: resolve };
};

describe("ranks in memory", () => {
  it("builds a period once for all who read it first", async () => {
    const { state, source } = table();
    state.rows.push(["a", 1, 0, 1], ["b", 2, 0, 1]);
    const ranks = createMemoryRanks(source);
    const pages = await Promise.all([
      ranks.page(period, 0, 10),
      ranks.page(period, 0, 10),
      ranks.standing(period, "b"),
    ]);
    assert.equal(state.reads, 1);
    assert.equal(pages[0].total, 2);
    assert.equal(pages[2]?.rank, 2);
  });

  it("keeps what is applied during a build, and drops what the build will read", async () => {
    const { state, source } = table();
    const ranks = createMemoryRanks(source);
    state.rows.push(["a", 5, 0, 1]);
    await ranks.apply("p", "w", [["a", 5, 0, 1]]);
    const { promise, open } = gate();
    state.gate = promise;
    const page = ranks.page(period, 0, 10);
    await ranks.apply("p", "w", [
      ["a", 9, 0, 2],
      ["b", 7, 0, 1],
    ]);
    open();
    assert.deepEqual(pluck((await page).standings, "playerId", "rankScore"), [
      ["b", 7],
      ["a", 9],
    ]);
  });

  it("serves reads during a rebuild and applies to both", async () => {
    const { state, source } = table();
    state.rows.push(["a", 1, 0, 1]);
    const ranks = createMemoryRanks(source);
    await ranks.page(period, 0, 1);
    state.rows.push(["c", 3, 0, 1]);
    const { promise, open } = gate();
    state.gate = promise;
    const rebuilt = ranks.rebuild(period);
    await ranks.apply("p", "w", [["b", 2, 0, 1]]);
    assert.equal((await ranks.page(period, 0, 10)).total, 2);
    open();
    await rebuilt;
    assert.equal((await ranks.page(period, 0, 10)).total, 3);
  });

  it("rebuilds after the build in hand, and so sees what was there when it was asked", async () => {
    const { state, source } = table();
    const { promise, open } = gate();
    state.gate = promise;
    const ranks = createMemoryRanks(source);
    const first = ranks.page(period, 0, 10);
    state.rows.push(["a", 1, 0, 1]);
    const rebuilds = Promise.all([ranks.rebuild(period), ranks.rebuild(period)]);
    open();
    assert.equal((await first).total, 0);
    await rebuilds;
    assert.equal(state.reads, 2);
    assert.equal((await ranks.page(period, 0, 10)).total, 1);
  });

  it("tries again after a build that failed", async () => {
    let isBroken = true;
    const ranks = createMemoryRanks(async function* () {
      if (isBroken) throw new Error("no database");
      yield [["a", 1, 0, 1]];
    });
    await assert.rejects(ranks.page(period, 0, 1), /no database/);
    isBroken = false;
    assert.equal((await ranks.page(period, 0, 1)).total, 1);
  });

  it("forgets a dropped period and reads it anew", async () => {
    const { state, source } = table();
    const ranks = createMemoryRanks(source);
    await ranks.page(period, 0, 1);
    await ranks.drop("p", "w");
    await ranks.page(period, 0, 1);
    assert.equal(state.reads, 2);
  });

  it("forgets periods of a project with too many of them, and none of another's", async () => {
    const { state, source } = table();
    const ranks = createMemoryRanks(source);
    await ranks.page(period, 0, 1);
    for (let n = 0; n < PERIODS_IN_MEMORY_MAX; n++)
      await ranks.page({ ...period, projectId: "crowded", periodId: `w${n}` }, 0, 1);
    const { reads } = state;
    await ranks.page(period, 0, 1);
    assert.equal(state.reads, reads);
    await ranks.page({ ...period, projectId: "crowded", periodId: "w0" }, 0, 1);
    assert.equal(state.reads, reads + 1);
  });
});
