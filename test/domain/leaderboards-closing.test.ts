import assert from "node:assert/strict";
import * as fc from "fast-check";
import { sql } from "kysely";
import { idFor, newId } from "../../src/domain/kernel/ids.ts";
import { pauseLeaderboard } from "../../src/domain/leaderboards/leaderboards.ts";
import { closingOf, writeResults } from "../../src/domain/leaderboards/periods/close.ts";
import type { Finding } from "../../src/domain/registries/reconcile/finding.ts";
import { reconcile } from "../../src/domain/registries/reconcile/reconcile.ts";
import { TIES } from "../../src/domain/evaluation/boards/ranks.ts";
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
} from "../support/leaderboards/board-periods.ts";

import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

describe("closing periods of leaderboards", () => {
  const { domain, boards } = boardPeriods();
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
    boards.setNow("2026-01-10T12:00:00Z");
  });

  it("ranks as SQL does under all ties, over the borders of chunks, without hidden players", async () => {
    const players = await addPlayers(domain, projectId, 24);
    const board = await boards.addBoard(projectId);
    await domain.sql`update players set status = 'BANNED' where id = ${players[3]!} or id = ${players[7]!} returning 1`;
    const sizes = fc.integer({ min: 1, max: 8 });
    const scores = fc.array(fc.tuple(fc.nat(3), fc.nat(2)), { maxLength: players.length });
    let day = 0;
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...TIES), sizes, scores, async (ties, size, given) => {
        const entries = given.map(([rankScore, rankTie], n) => ({
          playerId: players[n]!,
          rankScore,
          rankTie,
        }));
        const periodId = await addList(domain, board, { ...DAY, key: `d${day++}`, entries });
        let closing = closingOf(ties);
        let steps = 0;
        while (closing.phase === "RESULTS") {
          steps++;
          const before = closing;
          const list = { projectId, periodId };
          closing = await boards.transact((work) => writeResults(work, list, before, size));
        }
        const shown = { EARLIEST: "n", LATEST: "n", SHARED: "shared", DENSE: "dense" }[ties];
        const expected = await domain.sql<{ n: string; rank: string; id: string }>`
          select n, ${sql.raw(shown)} as rank, player_id as id from (
            select e.player_id, row_number() over (order by rank_score, rank_tie, e.player_id) as n,
              rank() over (order by rank_score) as shared, dense_rank() over (order by rank_score) as dense
            from leaderboard_entries e join players p on p.id = e.player_id
            where e.project_id = ${projectId} and period_id = ${periodId} and p.status <> 'BANNED') x
          order by n`;
        assert.deepEqual(
          await resultsOf(domain, periodId),
          expected.map(({ n, rank, id }) => [Number(n) - 1, Number(rank), id, null]),
        );
        assert.equal(closing.count, expected.length);
        // Each reads all that is left.
        assert.ok(steps <= 8 + entries.length / (10 * size), `${steps} steps of ${entries.length}`);
      }),
      { numRuns: cases(30), examples: [["SHARED", 1, players.map((): [number, number] => [1, 1])]] },
    );
    await domain.sql`delete from leaderboard_periods where project_id = ${projectId} returning 1`;
  });

  it("opens the current window, tells it once, closes it after its grace and tells the top", async () => {
    const players = await addPlayers(domain, projectId, 3);
    const board = await boards.addBoard(projectId);
    assert.deepEqual(await periodsOf(domain, board), ["2026-01-10 OPEN 0"]);
    await boards.sweep();
    const periodId = await addList(domain, board, { ...DAY, entries: scored(players) });
    boards.setNow("2026-01-11T00:00:59Z");
    await boards.sweep();
    assert.deepEqual(await periodsOf(domain, board), ["2026-01-10 OPEN 0", "2026-01-11 OPEN 0"]);
    boards.setNow(AFTER);
    await boards.sweep();
    assert.deepEqual(await periodsOf(domain, board), ["2026-01-10 CLOSED 3", "2026-01-11 OPEN 0"]);
    assert.deepEqual(await toldOf(domain, projectId), [
      "started 2026-01-10",
      "started 2026-01-11",
      "closed 2026-01-10",
    ]);
    assert.deepEqual(
      (await resultsOf(domain, periodId)).map(([, rank, id]) => [rank, id]),
      players.map((id, n) => [n + 1, id]),
    );
    const [told] = await domain.sql<{
      data: { participants: number; top: { rank: number; score: number; externalUserId: string }[] };
    }>`
      select data from outbox where project_id = ${projectId} and type = 'leaderboard.period_closed'`;
    assert.equal(told!.data.participants, 3);
    assert.deepEqual(pluck(told!.data.top, "rank", "score", "externalUserId"), [
      [1, 100, "p0"],
      [2, 100, "p1"],
      [3, 99, "p2"],
    ]);
  });

  it("after a downtime only the current window opens, and those with scores close", async () => {
    const players = await addPlayers(domain, projectId, 1);
    const board = await boards.addBoard(projectId);
    await boards.sweep();
    boards.setNow("2026-01-13T08:00:00Z");
    const entries = scored(players);
    await addList(domain, board, {
      key: "2026-01-12",
      startsAt: "2026-01-12T00:00:00Z",
      endsAt: "2026-01-13T00:00:00Z",
      entries,
    });
    await boards.sweep();
    assert.deepEqual(await periodsOf(domain, board), [
      "2026-01-10 CLOSED 0",
      "2026-01-12 CLOSED 1",
      "2026-01-13 OPEN 0",
    ]);
    assert.deepEqual(
      (await toldOf(domain, projectId)).filter((line) => line.startsWith("started")),
      ["started 2026-01-10", "started 2026-01-13"],
    );
  });

  it("a paused board's window closes, none opens; FIXED opens once, with its start", async () => {
    const paused = await boards.addBoard(projectId);
    const fixed = await boards.addBoard(projectId, {
      key: "cup",
      period: { kind: "FIXED", startsAt: "2026-01-12T00:00:00Z", endsAt: "2026-01-13T00:00:00Z" },
    });
    await boards.sweep();
    await boards.transact((work) => pauseLeaderboard(work, projectId, paused.key));
    boards.setNow("2026-01-12T12:00:00Z");
    await boards.sweep();
    boards.setNow("2026-01-14T12:00:00Z");
    await boards.sweep();
    assert.deepEqual(await periodsOf(domain, paused), ["2026-01-10 CLOSED 0"]);
    assert.deepEqual(await periodsOf(domain, fixed), ["fixed CLOSED 0"]);
  });

  it("stays open while an event of before its end waits or is retried, not for delayed ones", async () => {
    const board = await boards.addBoard(projectId);
    await addList(domain, board, DAY);
    const came = (iso: string): string => idFor(Date.parse(iso), newId());
    const queue = (id: string) =>
      domain.sql`insert into event_q (project_id, part, event_id) values (${projectId}, 0, ${id}) returning 1`;
    const due = (id: string, attempts: number) =>
      domain.sql`insert into event_due (project_id, part, event_id, attempts, due_at)
        values (${projectId}, 0, ${id}, ${attempts}, now() + interval '1 day') returning 1`;
    const gone = (table: string) => domain.sql`delete from ${sql.table(table)} returning 1`;
    const statusAfterSweep = async () => {
      await boards.sweep();
      return (await periodsOf(domain, board))[0];
    };
    boards.setNow("2026-01-11T06:00:00Z");
    await queue(came("2026-01-11T00:00:59Z"));
    assert.equal(await statusAfterSweep(), "2026-01-10 OPEN 0");
    await gone("event_q");
    await due(came("2026-01-10T12:00:00Z"), 1);
    assert.equal(await statusAfterSweep(), "2026-01-10 OPEN 0");
    await gone("event_due");
    await due(came("2026-01-10T12:00:00Z"), 0);
    await queue(came("2026-01-11T00:01:01Z"));
    assert.equal(await statusAfterSweep(), "2026-01-10 CLOSED 0");
    await gone("event_q");
    await gone("event_due");
  });

  it("beyond keepPeriods entries go and results stay; what is kept of both agrees", async () => {
    const players = await addPlayers(domain, projectId, 3);
    const board = await boards.addBoard(projectId, { period: { kind: "DAILY", keepPeriods: 2 } });
    const ids: string[] = [];
    for (const day of ["07", "08", "09", "10"]) {
      const startsAt = `2026-01-${day}T00:00:00Z`;
      const endsAt = `2026-01-${String(Number(day) + 1).padStart(2, "0")}T00:00:00Z`;
      const list = { key: `2026-01-${day}`, startsAt, endsAt, entries: scored(players) };
      ids.push(await addList(domain, board, list));
    }
    boards.setNow(AFTER);
    await boards.sweep();
    assert.deepEqual(await periodsOf(domain, board), [
      "2026-01-07 ARCHIVED 3",
      "2026-01-08 ARCHIVED 3",
      "2026-01-09 CLOSED 3",
      "2026-01-10 CLOSED 3",
      "2026-01-11 OPEN 0",
    ]);
    const left = await domain.sql<{
      period_id: string;
      n: string;
    }>`select period_id, count(*) as n from leaderboard_entries
      where project_id = ${projectId} group by period_id`;
    assert.deepEqual(left.map((row) => row.period_id).toSorted(), ids.slice(2).toSorted());
    assert.equal((await resultsOf(domain, ids[0]!)).length, 3);

    const check = async (): Promise<Finding[]> => {
      const found: Finding[] = [];
      const onFinding = (one: Finding): void => void found.push(one);
      await reconcile(boards.transact, { projectId, repair: false, onFinding });
      return found;
    };
    assert.deepEqual(await check(), []);
    await domain.sql`update leaderboard_results set rank_score = rank_score + 1
      where player_id = ${players[1]!} returning 1`;
    const found = (await check()).map(({ invariant, playerId }) => [invariant, playerId]);
    assert.deepEqual(found, [
      ["I13", players[1]!],
      ["I13", players[1]!],
    ]);
  });
});
