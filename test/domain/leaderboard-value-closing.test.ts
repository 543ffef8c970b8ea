import assert from "node:assert/strict";
import type { EventData } from "../../src/domain/kernel/events/domain-events.ts";
import { addList, addPlayers, boardPeriods, DAY } from "../support/leaderboards/board-periods.ts";

import { beginClosing, closingListsOf, stepClosing } from "../../src/domain/leaderboards/periods/close.ts";
import { stepRanking, windowsToRank } from "../../src/domain/leaderboards/periods/values.ts";
import { rankValues } from "../../src/domain/leaderboards/value-ranks.ts";
import { pluck } from "../support/pluck.ts";

const BY_TEAM = {
  metric: { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" },
  operator: "SUM",
  breakdownProperty: "team",
};

type Ranked = EventData<"leaderboard.values_ranked">;

describe("windows of breakdowns that are over", () => {
  const { domain, boards } = boardPeriods();
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
    boards.setNow("2026-01-10T12:00:00Z");
  });

  const toldValues = async (): Promise<Ranked[]> =>
    (
      await domain.sql<{ data: Ranked }>`
        select data from outbox where project_id = ${projectId} and type = 'leaderboard.values_ranked'
        order by id`
    ).map(({ data }) => data);

  it("tell their values once, in the final order, when the last value has closed", async () => {
    const [first, second] = (await addPlayers(domain, projectId, 2)) as [string, string];
    const board = await boards.addBoard(projectId, BY_TEAM);
    const entry = (playerId: string, score: number) => ({ playerId, rankScore: -score });
    await addList(domain, board, { ...DAY, value: "red", entries: [entry(first, 3), entry(second, 2)] });
    await addList(domain, board, { ...DAY, value: "blue", entries: [entry(first, 4)] });
    await addList(domain, board, {
      ...DAY,
      value: "green",
      isLate: true,
      writtenAt: "2026-01-11T00:00:30Z",
      entries: [entry(second, 5)],
    });
    boards.setNow("2026-01-11T00:01:00Z");
    await boards.sweep();
    assert.deepEqual(await toldValues(), [], "a value that came in the grace is still open");
    boards.setNow("2026-01-11T00:12:00Z");
    await boards.sweep();
    await boards.sweep();
    const [told, ...more] = await toldValues();
    assert.deepEqual(more, []);
    assert.deepEqual(told, {
      leaderboardKey: "daily",
      leaderboardId: board.id,
      periodKey: "2026-01-10",
      by: "total",
      values: 3,
      top: [
        { rank: 1, value: "green", players: 1, total: 5, average: 5, best: 5 },
        { rank: 1, value: "red", players: 2, total: 5, average: 2.5, best: 3 },
        { rank: 3, value: "blue", players: 1, total: 4, average: 4, best: 4 },
      ],
      closedAt: "2026-01-11T00:12:00.000Z",
    });
    boards.setNow("2026-01-12T00:12:00Z");
    await boards.sweep();
    assert.equal((await toldValues()).length, 1, "nothing is told of a day without scores");
  });

  it("have their places added up in pieces, each once although every step is killed once", async () => {
    const players = await addPlayers(domain, projectId, 30);
    const board = await boards.addBoard(projectId, BY_TEAM);
    const sizes = { red: 13, blue: 30, green: 1, pink: 6, white: 7 };
    for (const [value, size] of Object.entries(sizes)) {
      const entries = players.slice(0, size).map((playerId, n) => ({ playerId, rankScore: -1 - (n % 5) }));
      await addList(domain, board, { ...DAY, value, entries });
    }
    boards.setNow("2026-01-11T00:01:00Z");
    const { transact } = boards;
    for (const list of await transact(async (work) => {
      await beginClosing(work, projectId);
      return closingListsOf(work, projectId);
    }))
      while ((await transact((work) => stepClosing(work, list))).step === "MORE");
    // As a merge of two players who are both in the list.
    await domain.sql`update leaderboard_results r set player_id = ${players[3]!} from leaderboard_periods p
      where p.id = r.period_id and p.board = 'blue' and r.player_id = ${players[7]!} returning 1`;
    const [window, ...others] = await transact((work) => windowsToRank(work, projectId));
    assert.deepEqual(others, []);
    const done: string[] = [];
    while (done.at(-1) !== "DONE") {
      const killed = transact(async (work) => {
        await stepRanking(work, window!, 10);
        throw new Error("killed");
      });
      await assert.rejects(killed, /killed/);
      done.push(await transact((work) => stepRanking(work, window!, 10)));
    }
    assert.deepEqual(done, ["MORE", "MORE", "MORE", "MORE", "MORE", "DONE"]);
    const [told, ...more] = await toldValues();
    assert.deepEqual(more, []);
    const key = { key: DAY.key, by: "total" } as const;
    const top = await transact((work) => rankValues(work, board, key));
    assert.deepEqual(told!.top, top);
    assert.equal(top.find(({ value }) => value === "blue")!.players, 29);
    await boards.sweep();
    assert.equal((await toldValues()).length, 1);
  });

  it("take no new values, while windows that were never open take those of imported history", async () => {
    const board = await boards.addBoard(projectId, BY_TEAM);
    const [player] = (await addPlayers(domain, projectId, 1)) as [string];
    await addList(domain, board, { ...DAY, value: "red", entries: [{ playerId: player, rankScore: -1 }] });
    boards.setNow("2026-01-11T00:01:00Z");
    await boards.sweep();
    const goal = (at: string, team: string) => ({ user: "p0", at: new Date(at), properties: { team } });
    await domain.track(projectId, [
      goal("2026-01-10T13:00:00Z", "red"),
      goal("2026-01-10T13:01:00Z", "pink"),
      goal("2026-01-05T13:01:00Z", "pink"),
    ]);
    await domain.process();
    const lists = await domain.sql<{ list: string }>`
      select concat_ws(' ', period_key, board, status, (
        select -sum(rank_score) from leaderboard_entries e where e.period_id = p.id)) as list
      from leaderboard_periods p where project_id = ${projectId} and board <> '' order by list`;
    assert.deepEqual(pluck(lists, "list"), ["2026-01-05 pink OPEN 1", "2026-01-10 red CLOSED 1"]);
  });

  it("of a board that is filled with earlier events have as many values as others", async () => {
    const events = Array.from({ length: 1_003 }, (_, n) => ({
      user: "p0",
      properties: { team: `t${n % 1_002}` },
    }));
    await domain.track(projectId, events);
    await domain.process();
    const board = await boards.addBoard(projectId, {
      ...BY_TEAM,
      key: "filled",
      period: { kind: "ALL_TIME" },
      backfill: true,
    });
    const [found] = await domain.sql<{ lists: string; first: string }>`
      select count(*) as lists, (
        select -e.rank_score from leaderboard_entries e join leaderboard_periods f on f.id = e.period_id
        where f.leaderboard_id = ${board.id} and f.board = 't0') as first
      from leaderboard_periods where leaderboard_id = ${board.id} and board <> ''`;
    assert.deepEqual([Number(found!.lists), Number(found!.first)], [1_000, 2]);
  });
});
