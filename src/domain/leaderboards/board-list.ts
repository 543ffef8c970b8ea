import { sql } from "kysely";
import { invalid, notFound } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";
import type { Leaderboard } from "../progression/leaderboard.ts";
import type { ListStatus } from "../evaluation/boards/list.ts";
import { breakdownNameOf } from "../evaluation/boards/lists.ts";
import { periodIdOf } from "../evaluation/boards/period-ids.ts";
import type { PeriodRef } from "../evaluation/boards/ranks.ts";
import {
  FIXED_KEY,
  keyWithResets,
  type Timed,
  type Window,
  windowAt,
  windowOf,
} from "../evaluation/boards/windows.ts";

export const LIST_STATUSES = [
  "OPEN",
  "CLOSING",
  "CLOSED",
  "ARCHIVED",
] as const satisfies readonly ListStatus[];

/** One ranking of a leaderboard: of one window and, with a breakdown, of one of its values. */
export type BoardList = {
  ref: PeriodRef;
  key: string;
  board: string;
  startsAt: Date;
  endsAt: Date | null;
  status: ListStatus;
  /** Number of participants; known once the period is closed. */
  participants: number;
};

/** `period`: a window's key, default the current one. `board`: the value of the breakdown. */
export type ListQuery = { period?: string | undefined; board?: string | undefined };

/** Whether a list is final and no longer in the rank index. */
export const isOver = ({ status }: BoardList): boolean => status === "CLOSED" || status === "ARCHIVED";

const timedOf = ({ definition, resets }: Leaderboard): Timed => ({ period: definition.period, resets });

/** Returns the requested value of the breakdown. @throws DomainError VALIDATION_ERROR */
const boardIn = ({ definition }: Leaderboard, board: string | undefined): string => {
  const breakdown = breakdownNameOf(definition);
  if (breakdown === undefined) {
    if (board) throw invalid("board", "the leaderboard has no breakdown: omit board");
    return "";
  }
  if (!board) throw invalid("board", `the leaderboard has one for each value of ${breakdown}`);
  return board;
};

/** Returns the key of the default window. */
const currentKey = (leaderboard: Leaderboard, now: Date): string | undefined => {
  const window = windowAt(timedOf(leaderboard), now.getTime());
  if (window) return window.key;
  // Also used before its start and after its end.
  const isFixed = leaderboard.definition.period.kind === "FIXED";
  return isFixed ? keyWithResets(FIXED_KEY, leaderboard.resets) : undefined;
};

/** A list's row; times as the database returns them. */
export type ListRow = {
  id: string;
  starts_at: Date | string | null;
  ends_at: Date | string | null;
  status: ListStatus;
  participants: string | number;
};

/** Returns a window's list before it has a row: nobody has scored in it. */
const emptyRow = (
  leaderboard: Leaderboard,
  { key, startsAtMs, endsAtMs }: Window,
  board: string,
): ListRow => ({
  id: periodIdOf(leaderboard, key, board),
  starts_at: startsAtMs === null ? null : new Date(startsAtMs),
  ends_at: endsAtMs === null ? null : new Date(endsAtMs),
  status: "OPEN",
  participants: 0,
});

const readRow = async (
  { db }: Work,
  { projectId, id }: Leaderboard,
  { key, board }: { key: string; board: string },
): Promise<ListRow | undefined> => {
  const found = await sql<ListRow>`
    select id, starts_at, ends_at, status, participants from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id}
      and period_key = ${key} and board = ${board}`.execute(db);
  return found.rows[0];
};

/** The window that a query names. `window`: only of the current one, which exists without a row. */
type AskedWindow = { key: string; window: Window | undefined };

/** The list that a query names. */
export type AskedList = AskedWindow & { board: string };

/** @param period its key, default the current one. @throws DomainError NOT_FOUND where none is current */
const askedWindow = (leaderboard: Leaderboard, period: string | undefined, now: Date): AskedWindow => {
  const current = currentKey(leaderboard, now);
  const key = period ?? current;
  if (key === undefined) throw notFound("period");
  return { key, window: key === current ? windowOf(timedOf(leaderboard), key) : undefined };
};

/** @throws DomainError NOT_FOUND where no window is the default; VALIDATION_ERROR for a board */
export const askedList = (leaderboard: Leaderboard, query: ListQuery, now: Date): AskedList => {
  const board = boardIn(leaderboard, query.board);
  return { board, ...askedWindow(leaderboard, query.period, now) };
};

/** Returns the list of a row, or one that has no row yet. @throws DomainError NOT_FOUND */
export const listOf = (
  leaderboard: Leaderboard,
  { key, board, window }: AskedList,
  held: ListRow | undefined,
): BoardList => {
  const row = held ?? (window && emptyRow(leaderboard, window, board));
  if (!row) throw notFound("period");
  const { projectId, definition, resetAt, createdAt } = leaderboard;
  return {
    ref: { projectId, periodId: row.id, ties: definition.ties },
    key,
    board,
    startsAt: row.starts_at === null ? (resetAt ?? createdAt) : new Date(row.starts_at),
    endsAt: row.ends_at === null ? null : new Date(row.ends_at),
    status: row.status,
    participants: Number(row.participants),
  };
};

/**
 * Finds a list by its window's key. The current window exists even when nobody has scored in it yet.
 * @throws DomainError NOT_FOUND for an unknown period; VALIDATION_ERROR for a board
 */
export const findList = async (
  work: Work,
  leaderboard: Leaderboard,
  query: ListQuery,
): Promise<BoardList> => {
  const asked = askedList(leaderboard, query, work.now);
  return listOf(leaderboard, asked, await readRow(work, leaderboard, asked));
};

/** A window of a board as it is shown. */
export type ShownWindow = Pick<BoardList, "key" | "startsAt" | "endsAt" | "status">;

/**
 * Finds a window by its key, whatever lists a breakdown has made of it; it is as open as the most open one.
 * @throws DomainError NOT_FOUND for an unknown period
 */
export const findWindow = async (
  work: Work,
  leaderboard: Leaderboard,
  period: string | undefined,
): Promise<ShownWindow> => {
  const asked = askedWindow(leaderboard, period, work.now);
  const { projectId, id } = leaderboard;
  const found = await sql<ListRow>`
    select id, starts_at, ends_at, status, participants from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id} and period_key = ${asked.key}
    order by array_position(${`{${LIST_STATUSES.join(",")}}`}::text[], status) limit 1`.execute(work.db);
  const { key, startsAt, endsAt, status } = listOf(leaderboard, { ...asked, board: "" }, found.rows[0]);
  return { key, startsAt, endsAt, status };
};
