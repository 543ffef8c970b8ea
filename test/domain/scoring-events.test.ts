import assert from "node:assert/strict";
import { indexBoards, scoreEvent, scoreXp } from "../../src/domain/evaluation/boards/holdings.ts";
import type { Board } from "../../src/domain/evaluation/boards/board.ts";
import type { EntryState } from "../../src/domain/evaluation/player-state.ts";
import { aBoard, aPlayer, aTurn, type TurnOptions } from "../support/rules/turn.ts";

describe("scores of events", () => {
  const metric = (part: object) =>
    ({ source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count", ...part }) as Board["metric"];

  const scoreOn = (board: Partial<Board>, events: TurnOptions[]): number | undefined => {
    const full = aBoard({ operator: "SUM", sort: "ASC", ...board });
    const index = indexBoards([full]);
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
    const index = indexBoards([aBoard({ metric: metric({ event: { eventTypes: ["a.*"] } }) })]);
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
