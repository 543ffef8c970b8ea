import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { sql } from "kysely";
import { shareConfig } from "../../src/domain/kernel/work.ts";
import { idFor, newId, partitionOf, PARTITIONS } from "../../src/domain/kernel/ids.ts";
import { LONG, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { beginClosing } from "../../src/domain/leaderboards/periods/close.ts";
import { resetLeaderboard } from "../../src/domain/leaderboards/periods/list.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { storeEvents } from "../../src/domain/tracking/event-input.ts";
import type { Database } from "../../src/platform/database.ts";
import {
  addList,
  addPlayers,
  type BoardPeriods,
  openBoardPeriods,
  toldOf,
} from "../support/leaderboards/board-periods.ts";
import { eventually } from "../support/eventually.ts";
import { type Domain, processParts, rowsOf } from "../support/domain/domain.ts";
import { startDatabase } from "../support/processes/services.ts";

const WORKERS = 6;
const outside = AsyncLocalStorage.snapshot();
const DAY = { key: "2026-01-10", startsAt: "2026-01-10T00:00:00Z", endsAt: "2026-01-11T00:00:00Z" };

describe("periods of leaderboards, with workers that race", () => {
  let database: Database;
  let domain: Domain;
  let remove: () => Promise<void>;
  let boards: BoardPeriods;
  before(async () => {
    ({ database, domain, remove } = await startDatabase(3 * WORKERS));
    boards = openBoardPeriods(database);
  });
  beforeEach(() => boards.setNow("2026-01-10T12:00:00Z"));
  after(() => remove());

  const sweepAtOnce = async (): Promise<void> => {
    await Promise.all(Array.from({ length: WORKERS }, boards.sweep));
    assert.deepEqual(boards.errors.splice(0), []);
  };

  it("opens a window once and closes it once, with one prize for each winner", async () => {
    const projectId = await domain.addProject();
    const players = await addPlayers(domain, projectId, 300);
    const prizes = [{ from: 1, to: 250, rewards: { xp: 7 } }];
    const board = await boards.addBoard(projectId, { prizes });
    const entries = players.map((playerId, n) => ({ playerId, rankScore: n }));
    await addList(domain, board, { ...DAY, entries });
    boards.setNow("2026-01-11T00:05:00Z");
    for (let round = 0; round < 4; round++) await sweepAtOnce();
    assert.deepEqual((await toldOf(domain, projectId)).toSorted(), [
      "closed 2026-01-10",
      "started 2026-01-10",
      "started 2026-01-11",
    ]);
    const [xp] = await domain.sql<{
      n: string;
      players: string;
    }>`select sum(xp) as n, count(*) filter (where xp = 7) as players
      from players where project_id = ${projectId}`;
    assert.deepEqual([Number(xp!.n), Number(xp!.players)], [1_750, 250]);
  });

  const NOON_MS = Date.parse("2026-01-10T12:00:00Z");
  const track = async (projectId: string, count: number, receivedMs: number): Promise<void> => {
    const events = Array.from({ length: count }, (_, n) => ({
      id: idFor(receivedMs, newId()),
      p: projectId,
      u: `u${n % 40}`,
      t: "goal",
      d: "{}",
      k: null,
      x: null,
      ts: NOON_MS,
      at: receivedMs,
      h: partitionOf(projectId, `u${n % 40}`),
    }));
    await boards.transact((work) => storeEvents(work, events));
  };
  /** Does a pass over all partitions in small claims. */
  const process = async (first: number): Promise<void> => {
    const onError = (error: unknown): void => void boards.errors.push(error);
    const options = { transact: boards.transact, plans: createPlanCache(), claimLimit: 5, onError };
    const inTurn = Array.from({ length: PARTITIONS }, (_, i) => (first + i) % PARTITIONS);
    await processParts(options, inTurn);
  };
  const goals = {
    metric: { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" },
    operator: undefined,
  };
  const countOf = async (projectId: string, table: "leaderboard_entries" | "leaderboard_results") => {
    const [found] = await domain.sql<{ n: string | null }>`
      select -sum(rank_score) as n from ${sql.table(table)}
      where project_id = ${projectId}`;
    return Number(found!.n ?? 0);
  };
  const raceToTheEnd = async (projectId: string): Promise<void> => {
    const isOver = async () => (await toldOf(domain, projectId)).includes("closed 2026-01-10");
    for (let round = 0; round < 50 && !(await isOver()); round++) {
      await Promise.all([
        ...Array.from({ length: WORKERS }, (_, i) => process(i * 5)),
        boards.sweep(),
        boards.sweep(),
      ]);
    }
    await process(0);
    assert.deepEqual(boards.errors.splice(0), []);
  };

  it("what was received in time counts, however late it is processed", async () => {
    const projectId = await domain.addProject();
    await boards.addBoard(projectId, goals);
    await boards.sweep();
    await track(projectId, 800, Date.parse("2026-01-11T00:00:59Z"));
    boards.setNow("2026-01-11T00:30:00Z");
    await raceToTheEnd(projectId);
    assert.equal(await countOf(projectId, "leaderboard_results"), 800);
  });

  it("a score that races the close is in the results, or in nothing", async () => {
    const projectId = await domain.addProject();
    await boards.addBoard(projectId, goals);
    await boards.sweep();
    await track(projectId, 400, Date.parse("2026-01-10T12:00:00Z"));
    await process(0);
    await track(projectId, 800, Date.parse("2026-01-11T00:05:00Z"));
    boards.setNow("2026-01-11T00:05:01Z");
    await raceToTheEnd(projectId);
    const counted = await countOf(projectId, "leaderboard_results");
    assert(counted >= 400 && counted <= 1_200);
    assert.equal(await countOf(projectId, "leaderboard_entries"), counted);
  });

  it("a list begins to close behind the batches that may write to it", async () => {
    const projectId = await domain.addProject();
    const board = await boards.addBoard(projectId);
    await addList(domain, board, DAY);
    boards.setNow("2026-01-11T00:05:00Z");
    const isWaitedFor = async (): Promise<boolean> => {
      const waiting = sql<object>`select 1 from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`;
      return (await rowsOf(domain, waiting)).length > 0;
    };
    let closing: Promise<number> | undefined;
    // A busy machine may look later than a wait for a lock usually ends.
    await withTimeouts(LONG, () =>
      boards.transact(async (batch) => {
        await shareConfig(batch, [projectId]);
        // Outside of this transaction's context: one within another is a bug.
        closing = outside(() =>
          withTimeouts(LONG, () => boards.transact((work) => beginClosing(work, projectId))),
        );
        await outside(() => eventually(isWaitedFor));
      }),
    );
    assert.equal(await closing, 1);
  });

  it("resets at once come one after another, and each is a whole one", async () => {
    const projectId = await domain.addProject();
    const [playerId] = await addPlayers(domain, projectId, 1);
    const board = await boards.addBoard(projectId, { prizes: [{ from: 1, to: 1, rewards: { xp: 3 } }] });
    await addList(domain, board, { ...DAY, entries: [{ playerId: playerId!, rankScore: 1 }] });
    const options = { ref: board.id, awardPrizes: true };
    await Promise.all(
      Array.from({ length: 4 }, () => boards.transact((work) => resetLeaderboard(work, projectId, options))),
    );
    for (let round = 0; round < 6; round++) await sweepAtOnce();
    const rows = await domain.sql<{ key: string; status: string; participants: string }>`
      select period_key as key, status, participants from leaderboard_periods
      where project_id = ${projectId} order by period_key`;
    assert.deepEqual(
      rows.map(({ key, status, participants }) => `${key} ${status} ${participants}`),
      [
        "2026-01-10 CLOSED 1",
        "2026-01-10.2 CLOSED 0",
        "2026-01-10.3 CLOSED 0",
        "2026-01-10.4 CLOSED 0",
        "2026-01-10.5 OPEN 0",
      ],
    );
    const [xp] = await domain.sql<{ xp: string }>`select xp from players where id = ${playerId!}`;
    assert.equal(Number(xp!.xp), 3);
  });
});
