import assert from "node:assert/strict";
import { sql } from "kysely";
import type { App } from "../../../src/app.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { NewLeaderboard } from "../../../src/domain/evaluation/boards/definition.ts";
import type { Leaderboard } from "../../../src/domain/progression/load-plan.ts";
import { createLeaderboard } from "../../../src/domain/leaderboards/leaderboards.ts";
import { periodIdOf } from "../../../src/domain/evaluation/boards/board.ts";
import { createTransact, NO_WAKE_UPS } from "../../../src/domain/kernel/transact.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import { leaderboardPeriods } from "../../../src/jobs/sweeps.ts";
import type { Database } from "../../../src/platform/database.ts";
import { type Domain, memoryDomain, rowsOf } from "../domain/domain.ts";
import { madeOnce } from "../made.ts";

/** Boards whose windows open and close when the test says so. */
export type BoardPeriods = {
  /** At the clock of the test. */
  transact: Transact;
  setNow(iso: string): void;
  /** One sweep of the job; errors of single lists are collected in `errors`. */
  sweep(): Promise<void>;
  errors: unknown[];
  /** Lists whose rank index was dropped, since they are closed or archived. */
  dropped: string[];
  addBoard(projectId: string, definition?: object): Promise<Leaderboard>;
};

/** A day, and when its list is closed. */
export const DAY = { key: "2026-01-10", startsAt: "2026-01-10T00:00:00Z", endsAt: "2026-01-11T00:00:00Z" };
export const AFTER = "2026-01-11T00:01:00Z";

const daily = {
  key: "daily",
  name: "Daily",
  metric: { source: "CUSTOM" },
  operator: "BEST",
  period: { kind: "DAILY" },
};

/** A database of its own, what goes on in it, and its boards; each test ends those that it has made. */
export const boardPeriods = () => {
  const { database, domain } = memoryDomain();
  const boards = madeOnce(() => openBoardPeriods(database));
  afterEach(async () => {
    assert.deepEqual(boards.errors.splice(0), []);
    await endBoards(domain);
  });
  return { database, domain, boards };
};

/** Ends all boards and what is open of them, so that the sweeps of the next test find its own only. */
const endBoards = async (domain: Domain): Promise<void> => {
  await domain.sql`update leaderboards set status = 'ARCHIVED' returning 1`;
  await domain.sql`delete from leaderboard_periods where status in ('OPEN', 'CLOSING') returning 1`;
};

export const openBoardPeriods = ({ em }: Database): BoardPeriods => {
  let now = new Date("2026-01-10T12:00:00Z");
  const errors: unknown[] = [];
  const dropped: string[] = [];
  const transact = createTransact({
    em,
    clock: () => now,
    wakeUps: NO_WAKE_UPS,
    onError: (error) => void errors.push(error),
  });
  const log = {
    error: ({ err }: { err: unknown }) => void errors.push(err),
    warn: ({ err }: { err: unknown }) => void errors.push(err),
  };
  const ranks = { drop: async (_: string, periodId: string) => void dropped.push(periodId) };
  const app = { transact, log, limits: {}, ranks } as unknown as App;
  return {
    transact,
    setNow: (iso) => {
      now = new Date(iso);
    },
    sweep: () => leaderboardPeriods.run(app, "*"),
    errors,
    dropped,
    addBoard: (projectId, definition = {}) =>
      transact((work) =>
        createLeaderboard(work, projectId, NewLeaderboard.parse({ ...daily, ...definition })),
      ),
  };
};

export type TestEntry = { playerId: string; rankScore: number; rankTie?: number };

type TestList = {
  key: string;
  value?: string;
  startsAt: string;
  endsAt: string;
  isLate?: boolean;
  writtenAt?: string;
  entries?: readonly TestEntry[];
};

/** Puts a list and its entries into the database, as batches leave it. Answers its id. */
export const addList = async (domain: Domain, board: Leaderboard, list: TestList): Promise<string> => {
  const { key, value = "", startsAt, endsAt, isLate = false, writtenAt = startsAt, entries = [] } = list;
  const id = periodIdOf(board, key, value);
  await domain.sql`insert into leaderboard_periods (project_id, id, leaderboard_id, period_key, board, starts_at,
      ends_at, close_at, is_late, created_at, written_at)
    values (${board.projectId}, ${id}, ${board.id}, ${key}, ${value}, ${startsAt}::timestamptz,
      ${endsAt}::timestamptz, ${endsAt}::timestamptz + interval '1 minute', ${isLate},
      ${writtenAt}::timestamptz, ${writtenAt}::timestamptz)
    on conflict (project_id, id) do update set is_late = excluded.is_late,
      written_at = excluded.written_at
    returning 1`;
  const rows = entries.map(({ playerId, rankScore, rankTie = 0 }) => ({
    i: playerId,
    s: rankScore,
    t: rankTie,
  }));
  await domain.sql`insert into leaderboard_entries (project_id, period_id, player_id, rank_score, rank_tie, latest_us,
      version, updated_at)
    select ${board.projectId}::uuid, ${id}::uuid, i, s, t, 0, 1, now()
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(i uuid, s bigint, t bigint) returning 1`;
  return id;
};

/** Makes players; answers their ids. */
export const addPlayers = async (domain: Domain, projectId: string, count: number): Promise<string[]> => {
  const players = Array.from({ length: count }, (_, n) => ({ i: newId(), u: `p${n}` }));
  await domain.sql`insert into players (project_id, id, external_user_id, created_at, updated_at)
    select ${projectId}::uuid, i, u, now(), now()
    from json_to_recordset(${JSON.stringify(players)}::json) as x(i uuid, u text) returning 1`;
  return players.map(({ i }) => i);
};

/** What was told of a project's boards: type, key and value of the list. */
export const toldOf = async (domain: Domain, projectId: string): Promise<string[]> => {
  const rows = await domain.sql<{ type: string; key: string; board: string }>`
    select type, data->>'periodKey' as key, data->>'board' as board from outbox
    where project_id = ${projectId} and type like 'leaderboard.period%' order by id`;
  return rows.map(({ type, key, board }) => `${type.slice(19)} ${key}${board && ` ${board}`}`);
};

type PlaceRow = { position: number; rank: number; player_id: string; prize: object | null };
export type Place = [position: number, rank: number, playerId: string, prize: object | null];

/** The final order of a list. */
export const resultsOf = async (domain: Domain, periodId: string): Promise<Place[]> => {
  const query = sql<PlaceRow>`
    select * from leaderboard_results where period_id = ${periodId} order by position`;
  const rows = await rowsOf(domain, query);
  return rows.map(({ position, rank, player_id, prize }) => [position, rank, player_id, prize]);
};

/** Key, status and participants of a board's lists. */
export const periodsOf = async (domain: Domain, { projectId, id }: Leaderboard): Promise<string[]> => {
  const rows = await domain.sql<{ key: string; status: string; participants: string }>`
    select period_key as key, status, participants from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id} order by starts_at, period_key`;
  return rows.map(({ key, status, participants }) => `${key} ${status} ${participants}`);
};

/** What players have, in the order they are named in. */
export const xpOfPlayers = async (domain: Domain, playerIds: readonly string[]): Promise<number[]> => {
  const ids = `{${playerIds.join(",")}}`;
  const rows = await domain.sql<{ xp: number }>`
    select p.xp from unnest(${ids}::uuid[]) with ordinality as x(id, n)
    join players p on p.id = x.id order by x.n`;
  return rows.map(({ xp }) => xp);
};

/** Scores of 100 and less in the order of the players, two of each. */
export const scored = (playerIds: readonly string[]): TestEntry[] =>
  playerIds.map((playerId, n) => ({ playerId, rankScore: -100 + Math.floor(n / 2), rankTie: n }));
