import assert from "node:assert/strict";
import { changeLives } from "../../src/domain/economy/lives/operations.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import type { Leaderboard } from "../../src/domain/progression/load-plan.ts";
import { createMemoryRanks } from "../../src/domain/leaderboards/rank-index.ts";
import { entrySource } from "../../src/domain/leaderboards/leaderboards.ts";
import { define, findingsOf, memoryDomain } from "../support/domain/domain.ts";
import { pluck } from "../support/pluck.ts";

const TOTAL = { key: "total", name: "Total", metric: { source: "XP" } };
const WEEKLY = { ...TOTAL, key: "weekly", period: { kind: "WEEKLY" } };

describe("who is on an XP board", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  /** Ada has XP, Bob has lost all of it, Cid had a part taken, and Dan has never had any. */
  const play = async (): Promise<void> => {
    for (const [name, ...amounts] of [
      ["ada", 30],
      ["bob", 20, -20],
      ["cid", 25, -5],
      ["dan", -5],
    ] as const) {
      const player = await domain.addPlayer(projectId, name);
      for (const amount of amounts) await domain.grant(projectId, player, amount);
    }
  };
  const scoresOn = async (board: Leaderboard) =>
    Object.fromEntries((await domain.entries(board)).map(([user, score]) => [user, 0 - score]));
  const ranksOf = async (board: Leaderboard) => {
    const ranks = createMemoryRanks(entrySource(domain.transact));
    const list = { projectId, periodId: board.periodId, ties: "EARLIEST" as const };
    return (await ranks.page(list, 0, 10)).standings.map(({ rankScore }) => 0 - rankScore);
  };

  it("is whoever has ever had XP, on a board of before, a later one, and when built anew", async () => {
    const early = await domain.addBoard(projectId, TOTAL);
    await play();
    const late = await domain.addBoard(projectId, { ...TOTAL, key: "late" });
    const expected = { ada: 30, bob: 0, cid: 20 };
    assert.deepEqual(await scoresOn(early), expected);
    assert.deepEqual(await scoresOn(late), expected);
    assert.deepEqual(
      [await ranksOf(early), await ranksOf(late)],
      [
        [30, 20, 0],
        [30, 20, 0],
      ],
    );
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("is on one with periods whoever has gained some in the period", async () => {
    const board = await domain.addBoard(projectId, WEEKLY);
    await play();
    const rows = await domain.sql<{ user: string; score: number }>`
      select p.external_user_id as user, -e.rank_score as score from leaderboard_entries e
      join leaderboard_periods w on w.project_id = e.project_id and w.id = e.period_id
      join players p on p.project_id = e.project_id and p.id = e.player_id
      where w.leaderboard_id = ${board.id} order by 1`;
    assert.deepEqual(pluck(rows, "user", "score"), [
      ["ada", 30],
      ["bob", 20],
      ["cid", 25],
    ]);
  });

  it("counts what was gained, and neither lives nor what a merge brings along", async () => {
    await domain.sql`update projects set settings = '{"lives": {"enabled": true}}' where id = ${projectId}`;
    const board = await domain.addBoard(projectId, WEEKLY);
    const [id, sourceId] = [
      await domain.addPlayer(projectId, "eve"),
      await domain.addPlayer(projectId, "fay"),
    ];
    for (const [player, amount] of [
      [id, 10],
      [sourceId, 15],
    ] as const)
      await domain.grant(projectId, player, amount);
    for (const amount of [-2, 1]) {
      const change = { amount, reason: "test", cause: { kind: "API" } } as const;
      await domain.transact((work) => changeLives(work, { projectId, id }, change));
    }
    const merge = { projectId, targetId: id, sourceId, strategy: DEFAULT_STRATEGY, cause: {} };
    await domain.transact((work) => mergePlayers(work, merge));
    const rows = await domain.sql<{ score: number }>`
      select -e.rank_score as score from leaderboard_entries e
      join leaderboard_periods w on w.project_id = e.project_id and w.id = e.period_id
      where w.leaderboard_id = ${board.id}`;
    assert.deepEqual(pluck(rows, "score"), [25]);
  });

  it("is whoever is in all, some or none of the board's segments", async () => {
    await play();
    for (const key of ["vip", "new"]) await define(domain, projectId, "segment", { key, name: key });
    const join = (name: string, key: string) =>
      domain.sql`insert into player_segments (project_id, player_id, segment_key, entered_at)
        select project_id, id, ${key}, now() from players
        where project_id = ${projectId} and external_user_id = ${name}`;
    await join("ada", "vip");
    await join("ada", "new");
    await join("bob", "vip");
    for (const [match, users] of [
      ["ALL", ["ada"]],
      ["ANY", ["ada", "bob"]],
      ["NONE", ["cid"]],
    ] as const) {
      const audience = { segmentKeys: ["vip", "new"], match };
      const board = await domain.addBoard(projectId, { ...TOTAL, key: match.toLowerCase(), audience });
      assert.deepEqual(Object.keys(await scoresOn(board)).toSorted(), users, match);
    }
  });

  it("is never a player who was merged into another", async () => {
    await play();
    await domain.sql`update players set status = 'MERGED' where external_user_id = 'bob'`;
    const board = await domain.addBoard(projectId, TOTAL);
    assert.deepEqual(await scoresOn(board), { ada: 30, cid: 20 });
  });
});
