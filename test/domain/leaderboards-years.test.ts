import assert from "node:assert/strict";
import {
  addList,
  addPlayers,
  boardPeriods,
  periodsOf,
  scored,
  toldOf,
  xpOfPlayers,
} from "../support/leaderboards/board-periods.ts";

describe("quarters and years of leaderboards", () => {
  const { domain, boards } = boardPeriods();
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  const PRIZES = [{ from: 1, to: 1, rewards: { xp: 40 } }];
  const ENDS = [
    {
      kind: "QUARTERLY",
      timezone: "America/New_York",
      key: "2026-Q1",
      next: "2026-Q2",
      startsAt: "2026-01-01T05:00:00Z",
      // Daylight saving began in between.
      endsAt: "2026-04-01T04:00:00Z",
    },
    {
      kind: "YEARLY",
      timezone: "Asia/Tokyo",
      key: "2026",
      next: "2027",
      startsAt: "2025-12-31T15:00:00Z",
      endsAt: "2026-12-31T15:00:00Z",
    },
  ];

  for (const { kind, timezone, key, next, startsAt, endsAt } of ENDS)
    it(`${kind}: open at local midnight, close after their grace with prizes, and are told`, async () => {
      const after = (seconds: number) => new Date(Date.parse(endsAt) + seconds * 1_000).toISOString();
      boards.setNow(startsAt);
      const players = await addPlayers(domain, projectId, 2);
      const board = await boards.addBoard(projectId, { period: { kind, timezone }, prizes: PRIZES });
      await boards.sweep();
      assert.deepEqual(await periodsOf(domain, board), [`${key} OPEN 0`]);
      await addList(domain, board, { key, startsAt, endsAt, entries: scored(players) });
      boards.setNow(after(-1));
      await boards.sweep();
      assert.deepEqual(await periodsOf(domain, board), [`${key} OPEN 0`]);
      boards.setNow(after(59));
      await boards.sweep();
      assert.deepEqual(await periodsOf(domain, board), [`${key} OPEN 0`, `${next} OPEN 0`]);
      boards.setNow(after(60));
      await boards.sweep();
      assert.deepEqual(await periodsOf(domain, board), [`${key} CLOSED 2`, `${next} OPEN 0`]);
      assert.deepEqual(await toldOf(domain, projectId), [
        `started ${key}`,
        `started ${next}`,
        `closed ${key}`,
      ]);
      assert.deepEqual(await xpOfPlayers(domain, players), [40, 0]);
    });
});
