import assert from "node:assert/strict";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { beginClosing, stepClosing } from "../../src/domain/leaderboards/periods/close.ts";
import {
  addList,
  addPlayers,
  AFTER,
  boardPeriods,
  DAY,
  periodsOf,
  resultsOf,
  scored,
  toldOf,
  xpOfPlayers,
} from "../support/leaderboards/board-periods.ts";
import { makeCrashing } from "../support/domain/crashing.ts";

import { madeOnce } from "../support/made.ts";

describe("prizes of leaderboards", () => {
  const { database, domain, boards } = boardPeriods();
  const crashing = madeOnce(() => makeCrashing(database));
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
    boards.setNow("2026-01-10T12:00:00Z");
  });

  it("history closes when nobody has written for ten minutes, without prizes unless asked", async () => {
    const prizes = [{ from: 1, to: 1, rewards: { xp: 5 } }];
    const players = await addPlayers(domain, projectId, 2);
    const [mean, kind] = [
      await boards.addBoard(projectId, { key: "mean", prizes }),
      await boards.addBoard(projectId, { key: "kind", prizes, prizesForLate: true }),
    ];
    const late = { ...DAY, isLate: true, writtenAt: "2026-02-01T12:00:00Z" };
    await addList(domain, mean, { ...late, entries: scored([players[0]!]) });
    await addList(domain, kind, { ...late, entries: scored([players[1]!]) });
    boards.setNow("2026-02-01T12:09:59Z");
    await boards.sweep();
    assert.equal((await periodsOf(domain, mean))[0], "2026-01-10 OPEN 0");
    boards.setNow("2026-02-01T12:10:00Z");
    await boards.sweep();
    assert.equal((await periodsOf(domain, mean))[0], "2026-01-10 CLOSED 1");
    assert.deepEqual(await xpOfPlayers(domain, players), [0, 5]);
  });

  const PRIZES = [
    { from: 1, to: 1, rewards: { xp: 100 } },
    { from: 2, to: 3, rewards: { xp: 50 } },
    { from: 0, to: 50, by: "PERCENTILE", rewards: { xp: 10 } },
  ];

  it("gives each place the first prize that names it, and none to who is suspended", async () => {
    const players = await addPlayers(domain, projectId, 10);
    const board = await boards.addBoard(projectId, { prizes: PRIZES, ties: "SHARED" });
    const periodId = await addList(domain, board, { ...DAY, entries: scored(players) });
    await domain.sql`update players set status = 'SUSPENDED' where id = ${players[4]!} returning 1`;
    boards.setNow(AFTER);
    await boards.sweep();
    // Ranks are 1 1 3 3 5 5 7 7 9 9: the half ends with the fifth place.
    assert.deepEqual(await xpOfPlayers(domain, players), [100, 100, 50, 50, 0, 10, 0, 0, 0, 0]);
    const prizes = (await resultsOf(domain, periodId)).map(([, , , prize]) => prize);
    assert.deepEqual(prizes.slice(4, 7), [
      { prize: 2, status: "CANCELLED" },
      { prize: 2, status: "GRANTED" },
      null,
    ]);
  });

  it("who was merged while places were written has them, and the prize", async () => {
    const [target, source] = (await addPlayers(domain, projectId, 2)) as [string, string];
    const board = await boards.addBoard(projectId, { prizes: PRIZES });
    const periodId = await addList(domain, board, { ...DAY, entries: scored([source]) });
    boards.setNow(AFTER);
    assert.equal(await boards.transact((work) => beginClosing(work, projectId)), 1);
    const list = { projectId, periodId };
    assert.deepEqual(await boards.transact((work) => stepClosing(work, list)), { step: "MORE" });
    await domain.sql`with p as (update players set status = 'MERGED', merged_into = ${target} where id = ${source})
      insert into player_merges (project_id, id, target_id, source_id, strategy, summary, source_snapshot,
        created_by, created_at)
      values (${projectId}, ${newId()}, ${target}, ${source}, '{}', '{}', '{}', 'test', now()) returning 1`;
    await boards.sweep();
    const prize = { prize: 0, status: "GRANTED" };
    assert.deepEqual(await resultsOf(domain, periodId), [[0, 1, target, prize]]);
    assert.deepEqual(await xpOfPlayers(domain, [target, source]), [100, 0]);
  });

  it("who was merged with another of the same list has the prize of the better place alone", async () => {
    const [first, second] = (await addPlayers(domain, projectId, 2)) as [string, string];
    const board = await boards.addBoard(projectId, { prizes: PRIZES });
    const periodId = await addList(domain, board, { ...DAY, entries: scored([first, second]) });
    boards.setNow(AFTER);
    assert.equal(await boards.transact((work) => beginClosing(work, projectId)), 1);
    assert.deepEqual(await boards.transact((work) => stepClosing(work, { projectId, periodId })), {
      step: "MORE",
    });
    const merge = { projectId, targetId: second, sourceId: first, strategy: DEFAULT_STRATEGY, cause: {} };
    await domain.transact((work) => mergePlayers(work, merge));
    await boards.sweep();
    const prizes = (await resultsOf(domain, periodId)).map(([, , , prize]) => prize);
    assert.deepEqual(prizes, [{ prize: 0, status: "GRANTED" }, null]);
    assert.deepEqual(await xpOfPlayers(domain, [second]), [100]);
  });

  it("CLAIM leaves a reward and a message, once", async () => {
    const players = await addPlayers(domain, projectId, 1);
    const board = await boards.addBoard(projectId, { prizes: PRIZES, prizeClaim: "CLAIM" });
    const periodId = await addList(domain, board, { ...DAY, entries: scored(players) });
    boards.setNow(AFTER);
    await boards.sweep();
    await boards.sweep();
    const grants =
      await domain.sql<object>`select g.reward_key as r, g.status as s, g.idempotency_key as k, g.contents as c,
        m.title as t
      from reward_grants g join inbox_messages m on m.reward_grant_id = g.id
      where g.project_id = ${projectId}`;
    const key = `lb:${periodId}:${players[0]!}`;
    assert.deepEqual(grants, [
      { r: "leaderboard:daily", s: "PENDING", k: key, c: { xp: 100 }, t: "Daily: place 1" },
    ]);
    assert.deepEqual(await xpOfPlayers(domain, players), [0]);
  });

  it("a worker that dies at any statement leaves nothing twice and nothing out", async () => {
    const players = await addPlayers(domain, projectId, 6);
    const board = await boards.addBoard(projectId, { prizes: PRIZES });
    boards.setNow(AFTER);
    const calm = await addList(domain, board, { ...DAY, key: "calm", entries: scored(players) });
    await boards.sweep();
    const expected = await resultsOf(domain, calm);
    assert.deepEqual(await xpOfPlayers(domain, players), [100, 50, 50, 0, 0, 0]);
    let died = 1;
    for (; ; died++) {
      const periodId = await addList(domain, board, { ...DAY, key: `d${died}`, entries: scored(players) });
      const isDead = await crashing.crashAt(died, died % 2 === 0, boards.sweep).catch(() => true);
      boards.errors.splice(0);
      await boards.sweep();
      assert.deepEqual(await resultsOf(domain, periodId), expected);
      if (!isDead) break;
    }
    assert(died > 30, "there is much to die of");
    assert.deepEqual(
      await xpOfPlayers(domain, players),
      [100, 50, 50, 0, 0, 0].map((xp) => (died + 1) * xp),
    );
    const closed = (await toldOf(domain, projectId)).filter((line) => /^closed (calm|d)/.test(line));
    assert.equal(closed.length, died + 1);
    assert.equal(new Set(closed).size, died + 1);
  });
});
