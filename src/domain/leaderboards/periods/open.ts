import { type RawBuilder, sql } from "kysely";
import { isoOf } from "../../kernel/iso-time.ts";
import { shareConfig, type Work } from "../../kernel/work.ts";
import { boardOf, Leaderboard } from "../../progression/load-plan.ts";
import { isPlain, listOf } from "../../evaluation/boards/lists.ts";
import { graceMsOf } from "../../evaluation/boards/period.ts";
import { type List, nextStart, windowAt } from "../../evaluation/boards/board.ts";

/** Maximum number of projects per sweep. */
const PROJECTS_MAX = 1_000;

const boardsToOpen = (at: Date): RawBuilder<unknown> =>
  sql`from leaderboards where status = 'ACTIVE' and opens_at <= ${at.toISOString()}::timestamptz`;

/** Whether the next window of a board has begun. */
export const areWindowsDue = (at: Date): RawBuilder<unknown> => sql`exists (select ${boardsToOpen(at)})`;

/** Selects the times at which the next windows of a project's boards begin. */
export const windowTimesOf = (projectId: string): RawBuilder<unknown> => sql`
  select opens_at as due_at from leaderboards
  where project_id = ${projectId}::uuid and status = 'ACTIVE' and opens_at is not null`;

/** Returns projects with a board whose next window has begun. A new board has one at once. */
export const projectsToOpen = async ({ db, now }: Work): Promise<string[]> => {
  const found = await sql<{ project_id: string }>`
    select project_id ${boardsToOpen(now)}
    group by project_id order by min(opens_at) limit ${PROJECTS_MAX}`.execute(db);
  return found.rows.map(({ project_id }) => project_id);
};

/** A row of a list as it is created: `l`, its window was over already; `g`, it gives prizes. */
type NewList = {
  id: string;
  b: string;
  k: string;
  v: string;
  s: string | null;
  e: string | null;
  c: string | null;
  l: boolean;
  g: boolean;
};

const newList = (
  { id, board, window: { key, startsAtMs, endsAtMs }, value }: List,
  nowMs: number,
): NewList => {
  const isLate = endsAtMs !== null && endsAtMs <= nowMs;
  return {
    id,
    b: board.id,
    k: key,
    v: value,
    s: isoOf(startsAtMs),
    e: isoOf(endsAtMs),
    c: isoOf(endsAtMs === null ? null : endsAtMs + graceMsOf(board.period)),
    l: isLate,
    g: !isLate || board.prizesForLate,
  };
};

/**
 * Creates the rows of lists that have none. Ordered as in the batches that create such rows, to avoid
 * deadlocks. Without a target: of two inserts at once, the one whose target is the primary key fails at the
 * other unique key.
 */
const insertLists = async (
  { db, now }: Work,
  projectId: string,
  lists: readonly NewList[],
): Promise<void> => {
  const time = sql`${now.toISOString()}::timestamptz`;
  await sql`
    insert into leaderboard_periods (project_id, id, leaderboard_id, period_key, board, starts_at, ends_at,
      close_at, is_late, grants_prizes, created_at, written_at)
    select ${projectId}::uuid, id, b, k, v, s, e, c, l, g, ${time}, ${time}
    from json_to_recordset(${JSON.stringify(lists)}::json) as x(id uuid, b uuid, k text, v text,
      s timestamptz, e timestamptz, c timestamptz, l boolean, g boolean)
    order by id
    on conflict do nothing`.execute(db);
};

/** Creates the periods of lists that are filled with their board; a board with one ranking needs none. */
export const makePeriods = async (work: Work, projectId: string, filled: readonly List[]): Promise<void> => {
  const lists = filled.filter(({ board }) => !isPlain(board));
  const rows = lists.map((list) => newList(list, work.now.getTime()));
  if (rows.length > 0) await insertLists(work, projectId, rows);
};

/**
 * Creates the rows of lists, or finds those that a score has created. @returns ids of those not announced
 * before
 */
const openLists = async (work: Work, projectId: string, lists: readonly NewList[]): Promise<Set<string>> => {
  if (lists.length === 0) return new Set();
  await insertLists(work, projectId, lists);
  const announced = await sql<{ id: string }>`
    update leaderboard_periods set is_told = true
    where project_id = ${projectId} and not is_told
      and id in (select id from json_to_recordset(${JSON.stringify(lists)}::json) as x(id uuid))
    returning id`.execute(work.db);
  return new Set(announced.rows.map(({ id }) => id));
};

/**
 * Opens the current window of a board, whether or not anybody scores in it, and emits
 * `leaderboard.period_started`. The window of a paused board opens when it is resumed.
 */
export const openBoard = async (work: Work, leaderboard: Leaderboard): Promise<void> => {
  if (leaderboard.status === "ACTIVE") await openBoards(work, leaderboard.projectId, [leaderboard]);
};

const openBoards = async (work: Work, projectId: string, boards: readonly Leaderboard[]): Promise<void> => {
  const nowMs = work.now.getTime();
  const opened = boards.flatMap((board) => {
    const scored = boardOf(board);
    const next = nextStart(scored, nowMs);
    board.opensAt = next === undefined ? null : new Date(next);
    const window = windowAt(scored, nowMs);
    return window ? [{ board, list: newList(listOf(scored, window, ""), nowMs) }] : [];
  });
  const announced = await openLists(
    work,
    projectId,
    opened.map(({ list }) => list),
  );
  for (const { board, list } of opened) if (announced.has(list.id)) emitStart(work, board, list);
};

/** The first list of a board without periods is as old as the board, and starts nothing. */
const emitStart = (work: Work, { projectId, id, key, resets }: Leaderboard, list: NewList): void => {
  if (list.e === null && resets === 0) return;
  work.emit(projectId, "leaderboard.period_started", {
    leaderboardKey: key,
    leaderboardId: id,
    periodKey: list.k,
    board: "",
    startsAt: list.s,
    endsAt: list.e,
  });
};

/**
 * Opens the windows of a project's active boards that have begun, and announces each start once. Windows that
 * passed while no worker ran are not opened: those with scores have rows of their own.
 * @returns the number of boards
 */
export const openWindows = async (work: Work, projectId: string): Promise<number> => {
  // A reset waits meanwhile, or is finished: boards are read after it.
  await shareConfig(work, [projectId]);
  const due = { projectId, status: "ACTIVE" as const, opensAt: { $lte: work.now } };
  const boards = await work.em.find(Leaderboard, due, { orderBy: { id: "asc" } });
  await openBoards(work, projectId, boards);
  return boards.length;
};
