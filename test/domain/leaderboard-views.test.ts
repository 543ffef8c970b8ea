import assert from "node:assert/strict";
import * as fc from "fast-check";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { findList, readPlaces } from "../../src/domain/leaderboards/board-list.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { type EntriesQuery, readEntries, readEntry } from "../../src/domain/leaderboards/entries.ts";
import type { Leaderboard } from "../../src/domain/progression/load-plan.ts";
import { periodIdOf } from "../../src/domain/evaluation/boards/board.ts";
import { TIES, type Ties } from "../../src/domain/evaluation/boards/ranks.ts";
import { identifyPlayer } from "../../src/domain/progression/players/players.ts";
import { createBoardReader, placeKey } from "../../src/rooms/leaderboard-room.ts";
import { openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

let time = new Date("2026-01-10T18:00:00Z");
const USERS = 40;
const code = (expected: string) => (error: unknown) =>
  error instanceof DomainError && error.code === expected;

/** The rank that is shown, as SQL counts it. */
const RANK: Record<Ties, string> = {
  EARLIEST: "row_number() over (order by rank_score, rank_tie, player_id)",
  LATEST: "row_number() over (order by rank_score, rank_tie, player_id)",
  SHARED: "rank() over (order by rank_score)",
  DENSE: "dense_rank() over (order by rank_score)",
};

describe("views of leaderboards", () => {
  let projectId: string;
  const players: string[] = [];

  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  const domain = madeOnce(() => openDomain(database, () => time));
  before(async () => {
    projectId = await domain.addProject();
    await domain.transact(async (work) => {
      for (let i = 0; i < USERS; i++) {
        const { player } = await identifyPlayer(work, projectId, { externalUserId: `u${i}` });
        players.push(player.id);
      }
    });
  });

  const aBoard = (definition: object): Promise<Leaderboard> => {
    const custom = { metric: { source: "CUSTOM" }, operator: "LATEST", name: "Board" };
    return domain.addBoard(projectId, { key: newId(), ...custom, ...definition });
  };
  const read = (board: Leaderboard, query: EntriesQuery = {}) =>
    readEntries(domain, projectId, board.key, query).then(({ value }) => value);

  /** A window of a board with entries: [index of a player, score, tie]. */
  const fill = async (
    board: Leaderboard,
    entries: readonly (readonly [number, number, number])[],
    { key = "all-time", value = "", status = "OPEN" } = {},
  ): Promise<string> => {
    const id = periodIdOf(board, key, value);
    const rows = entries.map(([i, s, t]) => ({ i: players[i], s, t }));
    await domain.transact(async ({ db }) => {
      await sql`
        insert into leaderboard_periods (project_id, id, leaderboard_id, period_key, board, status,
          participants, starts_at, ends_at, created_at, written_at)
        values (${projectId}, ${id}, ${board.id}, ${key}, ${value}, ${status}, ${rows.length},
          '2026-01-09', '2026-01-10', now(), now())
        on conflict do nothing`.execute(db);
      await sql`
        insert into leaderboard_entries
          (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
        select ${projectId}::uuid, ${id}::uuid, i, s, t, 0, 1, now()
        from json_to_recordset(${JSON.stringify(rows)}::json) as x(i uuid, s bigint, t bigint)`.execute(db);
    });
    return id;
  };
  const bySql = async (id: string, ties: Ties): Promise<[string, number][]> => {
    const found = await domain.sql<{ player_id: string; rank: number }>`
      select player_id, ${sql.raw(RANK[ties])} as rank from leaderboard_entries
      where project_id = ${projectId} and period_id = ${id}
      order by rank_score, rank_tie, player_id`;
    return found.map((row) => [row.player_id, row.rank]);
  };
  const shown = (data: readonly { playerId: string; rank: number }[]): [string, number][] =>
    data.map(({ playerId, rank }) => [playerId, rank]);

  for (const ties of TIES) {
    it(`show the ranks of SQL with ties ${ties}, however they are read`, async () => {
      const entries = fc.uniqueArray(
        fc.tuple(fc.nat(USERS - 1), fc.integer({ min: -4, max: 4 }), fc.nat(3)),
        { selector: ([i]) => i, minLength: 1, maxLength: USERS },
      );
      await fc.assert(
        fc.asyncProperty(entries, fc.integer({ min: 1, max: 9 }), async (all, limit) => {
          const board = await aBoard({ ties, period: { kind: "DAILY" }, breakdownAttribute: "city" });
          const where = { key: "2026-01-10", value: "Rome" };
          const expected = await bySql(await fill(board, all, where), ties);
          await fill(board, all.slice(0, 1), { ...where, value: "Oslo" });
          const [byPage, byCursor, byCopy]: [string, number][][] = [[], [], []];
          let cursor: string | undefined;
          let asOf = "now";
          for (let page = 1; page <= Math.ceil(all.length / limit); page++) {
            byPage!.push(...shown((await read(board, { board: "Rome", page, limit })).data));
            const next = await read(board, { board: "Rome", limit, cursor });
            byCursor!.push(...shown(next.data));
            cursor = next.pagination.nextCursor ?? undefined;
            const copy = await read(board, { board: "Rome", page, limit, asOf });
            byCopy!.push(...shown(copy.data));
            asOf = copy.asOf!;
          }
          assert.deepEqual([byPage, byCursor, byCopy], [expected, expected, expected]);
          assert.equal(cursor, undefined);
          const [playerId, rank] = expected.at(-1)!;
          const around = await read(board, { board: "Rome", around: playerId, limit: 3 });
          assert.deepEqual(shown(around.data), expected.slice(-3));
          const own = { playerId, board: "Rome" };
          assert.equal((await readEntry(domain, projectId, board.key, own)).value.rank, rank);
          assert.equal((await read(board, { board: "Oslo" })).pagination.total, 1);
        }),
        { numRuns: 6, endOnFailure: true },
      );
    });
  }

  it("as of a moment are disjoint and complete while scores change", async () => {
    const board = await aBoard({});
    const id = await fill(
      board,
      players.map((_, i) => [i, i, 0] as const),
    );
    const before = await bySql(id, "EARLIEST");
    const seen: [string, number][] = [];
    let asOf = "now";
    for (let page = 1; page <= 8; page++) {
      const view = await read(board, { page, limit: 5, asOf });
      assert.equal(view.isLive, false);
      asOf = view.asOf!;
      seen.push(...shown(view.data));
      // Whoever was last is first now.
      const change: EntryChange = [players[USERS - page]!, -page, 0, 2];
      await domain.ranks.apply(projectId, id, [change]);
    }
    assert.deepEqual(seen, before);
    assert.notDeepEqual(shown((await read(board, { limit: 40 })).data), before);
    await assert.rejects(read(board, { asOf: newId() }), code("GONE"));
    const other = await aBoard({});
    await assert.rejects(read(other, { asOf }), code("GONE"));
  });

  it("of a copy go on live where the copy ends", async () => {
    const board = await aBoard({});
    const ref = { projectId, periodId: board.periodId, ties: "EARLIEST" as const };
    await domain.ranks.page(ref, 0, 1);
    const many = Array.from({ length: 10_050 }, (_, i): EntryChange => [newId(), i, 0, 1]);
    await domain.ranks.apply(projectId, board.periodId, many);
    const list = await domain.transact((work) => findList(work, board, {}));
    const source = { ...domain, list, shown: Infinity, now: time };
    const positions = async (page: number, limit: number, asOf: string) => {
      const places = await readPlaces(source, { page, limit, asOf });
      return { ...places, from: places.standings[0]?.position, to: places.standings.at(-1)?.position };
    };
    const first = await positions(250, 40, "now");
    assert.deepEqual([first.isLive, first.from, first.to, first.total], [false, 9_960, 9_999, 10_050]);
    const token = first.asOf!;
    const straddling = await positions(112, 90, token);
    assert.deepEqual([straddling.isLive, straddling.from, straddling.to], [true, 9_990, 10_049]);
    const beyond = await positions(1_002, 10, token);
    assert.deepEqual([beyond.isLive, beyond.from, beyond.to], [true, 10_010, 10_019]);
    const after = await readPlaces(source, { limit: 3, cursor: first.nextCursor! });
    assert.deepEqual(pluck(after.standings, "position"), [10_000, 10_001, 10_002]);
  });

  it("of a segment hold its players only, with their ranks of the board", async () => {
    const board = await aBoard({});
    await fill(
      board,
      players.map((_, i) => [i, i, 0] as const),
    );
    await domain.transact(async ({ db, now }) => {
      await sql`
        insert into definitions (id, project_id, kind, key, name, status, version, definition, created_by,
          created_at, updated_at)
        values (${newId()}, ${projectId}, 'segment', 'vip', 'VIP', 'ACTIVE', 1, '{"kind":"STATIC"}', 'test',
          ${now.toISOString()}, ${now.toISOString()})`.execute(db);
      await sql`
        insert into player_segments (project_id, player_id, segment_key, entered_at)
        select ${projectId}::uuid, id, 'vip', now() from json_to_recordset(
          ${JSON.stringify([3, 9, 30].map((i) => ({ id: players[i] })))}::json) as x(id uuid)`.execute(db);
    });
    const view = await read(board, { scope: "segment:vip", limit: 2 });
    assert.deepEqual(shown(view.data), [
      [players[3], 4],
      [players[9], 10],
    ]);
    assert.partialDeepStrictEqual(view.pagination, { total: 3, totalPages: 2, isEstimated: false });
    const second = await read(board, { scope: "segment:vip", limit: 2, page: 2 });
    assert.deepEqual(shown(second.data), [[players[30], 31]]);
    await assert.rejects(read(board, { scope: "segment:none" }), code("NOT_FOUND"));
    for (const scope of ["friends", "group:1", "league", "else"])
      await assert.rejects(read(board, { scope }), code("VALIDATION_ERROR"));
  });

  it("of a closed period show what it ended with, and of an unknown one nothing", async () => {
    const board = await aBoard({ period: { kind: "DAILY" } });
    const id = await fill(board, [], { key: "2026-01-09", status: "CLOSED" });
    await domain.transact(async ({ db }) => {
      const rows = players.map((player, i) => ({ i: player, n: i }));
      await sql`
        insert into leaderboard_results
          (project_id, period_id, position, rank, player_id, rank_score, rank_tie)
        select ${projectId}::uuid, ${id}::uuid, n, n + 1, i, -100 + n, 0
        from json_to_recordset(${JSON.stringify(rows)}::json) as x(i uuid, n int)`.execute(db);
      await sql`
        update leaderboard_periods set participants = ${USERS}
        where project_id = ${projectId} and id = ${id}`.execute(db);
    });
    const period = "2026-01-09";
    const view = await read(board, { period, page: 2, limit: 3, playerId: "ext:u39", asOf: "now" });
    assert.deepEqual(shown(view.data), [
      [players[3], 4],
      [players[4], 5],
      [players[5], 6],
    ]);
    assert.deepEqual([view.period.status, view.isLive, view.asOf], ["CLOSED", false, null]);
    assert.deepEqual(
      [view.period.startsAt, view.period.endsAt].map((at) => at?.slice(0, 10)),
      ["2026-01-09", "2026-01-10"],
    );
    assert.deepEqual([view.me!.rank, view.me!.score, view.pagination.total], [40, 61, USERS]);
    const around = await read(board, { period, around: "ext:u20", limit: 3 });
    assert.deepEqual(shown(around.data)[1], [players[20], 21]);
    const current = await read(board);
    assert.deepEqual([current.period.key, current.data, current.pagination.total], ["2026-01-10", [], 0]);
    await assert.rejects(read(board, { period: "2026-01-01" }), code("NOT_FOUND"));
    await assert.rejects(read(board, { period, cursor: "x" }), code("VALIDATION_ERROR"));
    await assert.rejects(read(board, { board: "Rome" }), code("VALIDATION_ERROR"));
  });

  it("of a room turn with the window: another list, another end, and everybody's place gone", async () => {
    const board = await aBoard({ period: { kind: "DAILY" } });
    await fill(board, [[3, -50, 0]], { key: "2026-01-10" });
    const app = { ...domain, transactAs: () => domain.transact, clock: () => time } as unknown as App;
    const look = createBoardReader(app, { projectId, leaderboardKey: board.key, board: "" });
    const watcher = { playerId: players[3]!, around: 0 };
    const key = placeKey(watcher);
    const watchers = new Map([[key, watcher]]);
    const today = await look({ top: 10, watchers });
    assert.deepEqual(
      [today.list.key, today.list.endsAt?.toISOString(), today.size, today.top[0]!.score],
      ["2026-01-10", "2026-01-11T00:00:00.000Z", 1, 50],
    );
    assert.partialDeepStrictEqual(today.places.get(key), { rank: 1, score: 50 });
    await domain.sql`update players set display_name = 'Renamed' where id = ${players[3]!}`;
    assert.equal((await look({ top: 10, watchers })).top[0]!.displayName, "Renamed");
    time = new Date("2026-01-11T00:00:00Z");
    // Also where the last window may be kept: it is over.
    const next = await look({ top: 10, watchers, mayKeep: true });
    time = new Date("2026-01-10T18:00:00Z");
    assert.deepEqual(
      [next.list.key, next.list.endsAt?.toISOString(), next.size, next.top],
      ["2026-01-11", "2026-01-12T00:00:00.000Z", 0, []],
    );
    assert.deepEqual(next.places.get(key), { rank: 0, score: 0, rankScore: undefined, rows: [] });
    assert.notEqual(next.list.ref.periodId, today.list.ref.periodId);
  });
});
