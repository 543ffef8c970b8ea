import assert from "node:assert/strict";
import { changeBalance, listBalances } from "../../src/domain/economy/currencies/holds.ts";
import type { Leaderboard } from "../../src/domain/progression/load-plan.ts";
import { recordScores } from "../../src/domain/leaderboards/record-scores.ts";
import { decideReview } from "../../src/domain/leaderboards/reviews.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { makeCrashing } from "../support/domain/crashing.ts";
import { define, memoryDomain, publish } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

/** More than a submission has. */
const STATEMENTS_MAX = 20;

describe("a submitted score", () => {
  let projectId: string;
  let board: Leaderboard;

  const { database, domain } = memoryDomain();
  const crashing = madeOnce(() => makeCrashing(database));
  before(async () => {
    projectId = await domain.addProject();
    await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
    board = await domain.addBoard(projectId, {
      key: "b",
      name: "B",
      metric: { source: "CUSTOM" },
      operator: "SUM",
      period: { kind: "DAILY" },
      entryCost: { currencyKey: "coins", amount: 10 },
      bounds: { max: 10, onViolation: "HOLD" },
    });
  });

  const aRichPlayer = async (name: string): Promise<string> => {
    const id = await domain.addPlayer(projectId, name);
    const change = { currencyKey: "coins", amount: 25, reason: "t", cause: { kind: "API" as const } };
    await domain.transact((work) => changeBalance(work, { projectId, id }, change));
    return id;
  };

  /** What the player has: coins, score, scores that wait. */
  const standing = async (playerId: string): Promise<(number | undefined)[]> => {
    const balances = await domain.transact(async (work) =>
      listBalances(work, await getPlayer(work, projectId, playerId)),
    );
    const [entry] = await domain.sql<{ score: number }>`
      select -e.rank_score as score from leaderboard_entries e
      join leaderboard_periods s on s.project_id = e.project_id and s.id = e.period_id
      where s.leaderboard_id = ${board.id} and e.player_id = ${playerId}`;
    const held =
      await domain.sql`select 1 from score_reviews where player_id = ${playerId} and status = 'OPEN'`;
    return [balances[0]!.balance, entry && entry.score, held.length];
  };

  /** Does it again and again, dying at a later statement each time. @returns how often it died */
  const survive = async (
    run: (work: Work) => Promise<unknown>,
    check: (isDone: boolean) => Promise<void>,
  ): Promise<number> => {
    for (let at = 1; at < STATEMENTS_MAX; at++) {
      const died = await crashing.crashAt(at, at % 2 === 0, () => domain.transact(run));
      await check(!died);
      if (!died) return at - 1;
    }
    return assert.fail("it has more statements than that");
  };

  it("costs what entering costs exactly when it counts, wherever it dies", async () => {
    const playerId = await aRichPlayer("ann");
    const submit = (score: number) => (work: Work) =>
      recordScores(work, { projectId, leaderboardKey: "b" }, [{ playerId, score }]);
    const died = await survive(submit(4), async (isDone) =>
      assert.deepEqual(await standing(playerId), isDone ? [15, 4, 0] : [25, undefined, 0]),
    );
    assert.ok(died > 4);
    await survive(submit(3), async (isDone) =>
      assert.deepEqual(await standing(playerId), [15, isDone ? 7 : 4, 0]),
    );
  });

  it("is decided on once, and counts and costs with the decision, wherever it dies", async () => {
    const playerId = await aRichPlayer("bob");
    const [outcome] = await domain.transact((work) =>
      recordScores(work, { projectId, leaderboardKey: "b" }, [{ playerId, score: 40 }]),
    );
    const { reviewId } = (outcome as { scored: { held: { reviewId: string } } }).scored.held;
    assert.deepEqual(await standing(playerId), [25, undefined, 1]);
    await survive(
      (work) => decideReview(work, projectId, { reviewId, decision: "ACCEPT" }),
      async (isDone) => assert.deepEqual(await standing(playerId), isDone ? [15, 40, 0] : [25, undefined, 1]),
    );
  });

  it("of a rule keeps to the bounds and the cost, and brings its meta", async () => {
    const conditions = { all: [{ type: "event_property", path: "points", op: "gt", value: 0 }] };
    const [points, note] = ["points", "note"].map((name) => ({ $ref: `event.properties.${name}` }));
    await publish(domain, projectId, {
      key: "scores",
      conditions,
      actions: [{ type: "submit_score", leaderboardKey: "b", score: points, meta: { note } }],
    });
    const playerId = await aRichPlayer("cy");
    const poor = await domain.addPlayer(projectId, "dee");
    const goal = (user: string, value: number) => ({
      user,
      properties: { points: value, note: `of ${value}` },
    });
    await domain.track(projectId, [goal("cy", 6), goal("cy", 11), goal("cy", 2), goal("dee", 5)]);
    await domain.process();
    assert.deepEqual(await standing(playerId), [15, 8, 1]);
    assert.deepEqual(await standing(poor), [0, undefined, 0]);
    const metas = await domain.sql<{ meta: unknown }>`
      select meta::jsonb as meta from leaderboard_entries where player_id = ${playerId}
      union all select meta::jsonb from score_reviews where player_id = ${playerId}`;
    assert.deepEqual(pluck(metas, "meta"), [{ note: "of 2" }, { note: "of 11" }]);
  });
});
