import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Board } from "../../src/domain/evaluation/boards/board.ts";
import { boardPieces, scoreEvent, scoreXp } from "../../src/domain/evaluation/boards/holdings.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import {
  fromRankScore,
  RANK_MAX,
  reachedUs,
  toRankScore,
  unitsOf,
} from "../../src/domain/evaluation/boards/lists.ts";
import { submitScore } from "../../src/domain/evaluation/boards/submit.ts";
import type { EntryState } from "../../src/domain/evaluation/player-state.ts";
import { aBoard, aPlayer, aTurn, type TurnOptions } from "../support/rules/turn.ts";

describe("scores of events", () => {
  const metric = (part: object) =>
    ({ source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count", ...part }) as Board["metric"];

  const scoreOn = (board: Partial<Board>, events: TurnOptions[]): number | undefined => {
    const full = aBoard({ operator: "SUM", sort: "ASC", ...board });
    const index = atOnce(boardPieces([full]));
    const player = aPlayer();
    for (const event of events) scoreEvent(aTurn({ ...event, player }).turn, index);
    return player.entries.get("w1")?.rankScore;
  };

  it("come from exact types, prefixes and the star", () => {
    const types = ["goal", "goal.own", "goals", "match.goal", "match"].map((type) => ({ type }));
    const count = (...eventTypes: string[]) => scoreOn({ metric: metric({ event: { eventTypes } }) }, types);
    assert.equal(count("goal"), 1);
    assert.equal(count("goal.*"), 1);
    assert.equal(count("goal", "match.*"), 2);
    assert.equal(count("goal", "*"), 5);
    assert.equal(count("nothing"), undefined);
    const more = [...types, { type: "player.level_up" }, { type: "system.schedule" }];
    const all = scoreOn({ metric: metric({ event: { eventTypes: ["*"] } }) }, more);
    assert.equal(all, 5, "the star is no event of the service's own");
  });

  it("count once for an event that several patterns match", () => {
    assert.equal(
      scoreOn({ metric: metric({ event: { eventTypes: ["*", "goal", "g.*"] } }) }, [{ type: "goal" }]),
      1,
    );
  });

  it("respect the filter", () => {
    const filter = { path: "competition", op: "eq", value: "men" };
    const events = ["men", "women", "men", undefined].map((competition) => ({
      type: "goal",
      properties: { competition },
    }));
    assert.equal(scoreOn({ metric: metric({ event: { eventTypes: ["goal"], filter } }) }, events), 2);
  });

  it("aggregate a property, and ignore events where it is not a finite number", () => {
    const values = [4, "9", null, -1, Number.POSITIVE_INFINITY, 2.5, [7]];
    const events = values.map((n, i) => ({ type: "goal", at: i, properties: { deep: { n } } }));
    const of = (aggregate: string, board: Partial<Board>) =>
      scoreOn({ scoreDecimals: 1, metric: metric({ aggregate, property: "deep.n" }), ...board }, events);
    assert.equal(of("sum", { operator: "SUM" }), 55);
    assert.equal(of("min", { operator: "BEST", sort: "ASC" }), -10);
    assert.equal(of("max", { operator: "BEST", sort: "DESC" }), -40);
    assert.equal(of("latest", { operator: "LATEST" }), 25);
  });

  it("do not reach boards that are not active", () => {
    assert.equal(scoreOn({ status: "PAUSED", metric: metric({}) }, [{ type: "goal" }]), undefined);
  });

  it("stay right for more event types than the index remembers", () => {
    const index = atOnce(boardPieces([aBoard({ metric: metric({ event: { eventTypes: ["a.*"] } }) })]));
    for (let i = 0; i < 3_000; i++) assert.equal(index.forEvent(`a.${i}`).length, 1);
    assert.equal(index.forEvent("a.2999").length, 1);
    assert.equal(index.forEvent("b").length, 0);
  });
});

describe("scores of XP", () => {
  it("are the player's total, gain or loss, and begin with the first XP", () => {
    const boards = [aBoard({ metric: { source: "XP" }, operator: "SUM" })];
    const player = aPlayer();
    const at = (xp: number, ms: number): EntryState | undefined => {
      player.xp = xp;
      const { turn } = aTurn({ player, at: ms, boards });
      scoreXp(turn.project.boardIndex, turn);
      return player.entries.get("w1");
    };
    assert.equal(at(0, 1), undefined);
    assert.deepEqual(at(50, 2), { rankScore: -50, rankTie: 2_000, latestUs: 2_000, version: 1 });
    assert.deepEqual(at(80, 1), { rankScore: -80, rankTie: 2_000, latestUs: 2_000, version: 2 });
    assert.deepEqual(at(0, 5), { rankScore: 0, rankTie: 5_000, latestUs: 5_000, version: 3 });
    player.dirty.entries.clear();
    at(0, 9);
    assert.equal(player.dirty.entries.size, 0);
  });
});

const submitAll = (
  board: Board,
  scores: [score: number, atMs: number][],
): { entry: EntryState | undefined; results: string[] } => {
  const { turn, player } = aTurn();
  const results = scores.map(([score, atMs]) => {
    const { accepted, improved, score: now } = submitScore(turn, board, score, { atMs });
    return `${accepted ? "accepted" : "refused"} ${improved ? "better" : "same"} ${now}`;
  });
  return { entry: player.entries.get("w1"), results };
};

describe("scores", () => {
  it("are whole units of the board's decimals, rounded as written, and read back", () => {
    assert.equal(unitsOf({ scoreDecimals: 2 }, 1.005), 101);
    assert.equal(unitsOf({ scoreDecimals: 2 }, -0.001), 0);
    assert.ok(Object.is(unitsOf({ scoreDecimals: 2 }, -0.001), 0));
    assert.equal(unitsOf({ scoreDecimals: 6 }, 5e-7), 1);
    assert.equal(unitsOf({ scoreDecimals: 0 }, 1e21), 1e21);
    assert.equal(fromRankScore({ scoreDecimals: 3, sort: "ASC" }, 12_345), 12.345);
    const decimals = fc.integer({ min: 0, max: 6 });
    const units = fc.integer({ min: -1e15, max: 1e15 });
    fc.assert(
      fc.property(
        units,
        decimals,
        fc.constantFrom("ASC" as const, "DESC" as const),
        (value, scoreDecimals, sort) => {
          const score = value / 10 ** scoreDecimals;
          const rankScore = toRankScore({ scoreDecimals, sort }, score);
          assert.equal(rankScore, sort === "ASC" ? value : 0 - value);
          assert.equal(fromRankScore({ scoreDecimals, sort }, rankScore), score + 0);
        },
      ),
    );
  });

  it("of a better kind have the smaller rankScore by either sort", () => {
    const scores = fc.integer({ min: -1e9, max: 1e9 });
    fc.assert(
      fc.property(scores, scores, (a, b) => {
        const rank = (sort: "ASC" | "DESC") =>
          Math.sign(toRankScore({ scoreDecimals: 0, sort }, a) - toRankScore({ scoreDecimals: 0, sort }, b));
        assert.equal(rank("ASC"), Math.sign(a - b));
        assert.equal(rank("DESC") + 0, Math.sign(b - a) + 0);
      }),
    );
  });

  it("are clamped to what is exact, with a warning", () => {
    const { turn, player, warnings } = aTurn();
    submitScore(turn, aBoard(), 1e300);
    assert.equal(player.entries.get("w1")?.rankScore, -RANK_MAX);
    assert.match(warnings[0]!, /clamped/);
    const sum = aBoard({ operator: "SUM", sort: "ASC", periodId: "w2" });
    for (let i = 0; i < 3; i++) submitScore(turn, sum, RANK_MAX);
    assert.equal(player.entries.get("w2")?.rankScore, RANK_MAX);
  });

  it("BEST keeps the better by the board's sort", () => {
    const desc = submitAll(aBoard(), [
      [5, 1],
      [3, 2],
      [9, 3],
      [9, 4],
    ]);
    assert.deepEqual(desc.results, [
      "accepted better 5",
      "accepted same 5",
      "accepted better 9",
      "accepted same 9",
    ]);
    const standing = { rankScore: -9, rankTie: 3_000, latestUs: 3_000, version: 2, meta: null };
    assert.deepEqual(desc.entry, standing);
    const asc = submitAll(aBoard({ sort: "ASC" }), [
      [5, 1],
      [7, 2],
      [3, 3],
    ]);
    assert.deepEqual(asc.results, ["accepted better 5", "accepted same 5", "accepted better 3"]);
  });

  it("SUM adds, and a loss is no improvement", () => {
    const { results, entry } = submitAll(aBoard({ operator: "SUM", scoreDecimals: 1 }), [
      [0.1, 1],
      [0.2, 2],
      [-0.4, 3],
      [0, 4],
    ]);
    assert.deepEqual(results, [
      "accepted better 0.1",
      "accepted better 0.3",
      "accepted same -0.1",
      "accepted same -0.1",
    ]);
    assert.equal(entry?.version, 3);
  });

  it("of the best, of sums and of the latest are what they are in order, in any order of arrival", () => {
    const shuffled = fc
      .uniqueArray(fc.nat(1_000), { minLength: 1, maxLength: 12 })
      .chain((times) =>
        fc.tuple(...times.map((at) => fc.tuple(fc.integer({ min: 1, max: 4 }), fc.constant(at)))),
      );
    const operators = fc.constantFrom("BEST" as const, "SUM" as const, "LATEST" as const);
    const ties = fc.constantFrom("EARLIEST" as const, "LATEST" as const);
    fc.assert(
      fc.property(shuffled, operators, ties, (scores, operator, tie) => {
        // The same latest score at another time may be reached anew: here each is another.
        const given = scores.map(([score, at]): [number, number] => [
          operator === "LATEST" ? at + 1 : score,
          at,
        ]);
        const standing = (of: [number, number][]) => {
          const { rankScore, rankTie } = submitAll(aBoard({ operator, ties: tie }), of).entry!;
          return { rankScore, rankTie };
        };
        assert.deepEqual(standing(given), standing(given.toSorted(([, a], [, b]) => a - b)));
      }),
    );
  });

  it("move the tie only with the score, and never back in time", () => {
    const board = aBoard({ operator: "SUM" });
    const { entry } = submitAll(board, [
      [1, 50],
      [1, 20],
      [0, 90],
    ]);
    const standing = { rankScore: -2, rankTie: 50_000, latestUs: 50_000, version: 2, meta: null };
    assert.deepEqual(entry, standing);
    const later = aBoard({ operator: "SUM", ties: "LATEST" });
    const negated = submitAll(later, [
      [1, 50],
      [1, 60],
      [1, 20],
    ]).entry!;
    assert.equal(negated.rankTie, -60_000);
    assert.equal(reachedUs(later, negated.rankTie), 60_000);
    assert.equal(submitAll(board, [[1, -86_400_000]]).entry?.rankTie, -86_400_000_000);
    assert.equal(submitAll(board, [[1, -8.64e15]]).entry?.rankTie, -RANK_MAX);
  });

  it("are refused by boards that are paused or fed by events, and when they are no number", () => {
    const { turn, player, warnings } = aTurn();
    const fed = aBoard({ metric: { source: "XP" }, operator: "SUM" });
    for (const board of [aBoard({ status: "PAUSED" }), fed]) {
      const { refusal, ...standing } = submitScore(turn, board, 5);
      assert.deepEqual(standing, { accepted: false, improved: false, score: null, previous: null });
      assert.ok(refusal);
    }
    submitScore(turn, aBoard(), Number.NaN);
    assert.equal(warnings.length, 3);
    assert.equal(player.dirty.entries.size, 0);
  });
});
