import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import { UNKNOWN_REFERENCE } from "../economy/definitions/references.ts";
import { TOO_LARGE } from "../economy/definitions/size.ts";
import { DomainError } from "../kernel/errors.ts";
import { nextSlice } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import type { BoardStatus } from "../evaluation/boards/board.ts";
import type { Definition } from "../evaluation/boards/definition.ts";
import type { Leaderboard } from "../progression/leaderboard.ts";
import { windowsOf } from "../evaluation/boards/period.ts";
import {
  archiveLeaderboard,
  createLeaderboard,
  getLeaderboard,
  pauseLeaderboard,
  resumeLeaderboard,
} from "./leaderboards.ts";

type Report = { count: number; skipped: { key: string; reason: string }[]; closedPeriodIds: string[] };

/**
 * Copies the leaderboards of one project to another, by key, with entries of its own: an existing board keeps
 * them, a new XP board starts with the XP of its players. A board whose scores have another meaning there is
 * left unchanged. Reads only boards that differ, one by one. Must be called under the config locks of both.
 * @throws CONFLICT LEADERBOARD_LIMIT
 */
export const syncLeaderboards = async (
  work: Work,
  { from, to }: { from: string; to: string },
): Promise<Report> => {
  const pairs = await readPairs(work, { from, to });
  const report: Report = { count: 0, skipped: [], closedPeriodIds: [] };
  // Nothing of before is compared at each flush.
  if (pairs.length > 0) await forget(work);
  for (const pair of pairs) {
    const step = { pair, report, from, to };
    if (pair.ownId === null) await addBoard(work, step);
    else if (pair.ownStatus === "ARCHIVED" || pair.status === "ARCHIVED") await archiveOrSkip(work, step);
    else await changeBoard(work, step);
    await forget(work);
    await nextSlice();
  }
  return report;
};

/** A board that is not the same in both projects. */
type Pair = {
  key: string;
  sourceId: string;
  status: BoardStatus;
  ownId: string | null;
  ownStatus: BoardStatus | null;
};
type Step = { pair: Pair; report: Report; from: string; to: string };

const readPairs = async ({ db }: Work, { from, to }: { from: string; to: string }): Promise<Pair[]> => {
  const { rows } = await sql<Pair>`
    select s.key, s.id as "sourceId", s.status, o.id as "ownId", o.status as "ownStatus"
    from leaderboards s left join leaderboards o on o.project_id = ${to} and o.key = s.key
    where s.project_id = ${from} and case when o.id is null then s.status <> 'ARCHIVED'
      else s.status <> o.status or (s.status <> 'ARCHIVED' and (s.name <> o.name or s.digest <> o.digest)) end
    order by s.id`.execute(db);
  return rows;
};

/** A unit of work compares all its entities at each flush. */
const forget = async ({ em }: Work): Promise<void> => {
  await em.flush();
  em.clear();
};

type Source = Pick<Leaderboard, "key" | "name" | "status" | "definition">;

const readSource = async ({ db }: Work, { from, pair: { sourceId } }: Step): Promise<Source> => {
  const { rows } = await sql<Source>`
    select key, name, status, definition from leaderboards
    where project_id = ${from} and id = ${sourceId}`.execute(db);
  return rows[0]!;
};

/** Reasons to skip a board: it names something archived, or exceeds the limits for new ones. */
const NOT_COPIED: ReadonlySet<string | undefined> = new Set([UNKNOWN_REFERENCE, TOO_LARGE]);

const addBoard = async (work: Work, step: Step): Promise<void> => {
  const { key, name, status, definition } = await readSource(work, step);
  try {
    const board = await createLeaderboard(work, step.to, { ...definition, key, name, backfill: false });
    board.status = status;
    step.report.count++;
  } catch (error) {
    if (!(error instanceof DomainError) || !NOT_COPIED.has(error.reason)) throw error;
    step.report.skipped.push({ key, reason: error.message });
  }
};

/** Handles boards of which one is archived, which is final. */
const archiveOrSkip = async (work: Work, { pair, report, to }: Step): Promise<void> => {
  if (pair.ownStatus === "ARCHIVED") {
    report.skipped.push({ key: pair.key, reason: "it is archived in the sandbox" });
    return;
  }
  await archiveLeaderboard(work, to, pair.ownId!);
  report.count++;
};

const changeBoard = async (work: Work, step: Step): Promise<void> => {
  const source = await readSource(work, step);
  const board = await getLeaderboard(work, step.to, step.pair.ownId!);
  const { report } = step;
  if (!isDeepStrictEqual(meaningOf(board.definition), meaningOf(source.definition))) {
    const reason = "its scores mean something else in the sandbox; archive it there and use another key";
    report.skipped.push({ key: board.key, reason });
    return;
  }
  const { name, definition } = source;
  const isSame = board.name === name && isDeepStrictEqual(board.definition, definition);
  if (isSame && board.status === source.status) return;
  report.count++;
  if (!isSame) {
    const version = board.version + 1;
    Object.assign(board, { name, definition, version, updatedAt: work.now });
  }
  if (board.status !== source.status) await changeStatus(work, board, { source, report });
};

/** The properties that entries depend on; a board with others is a different board. */
const meaningOf = ({ metric, sort, operator, scoreDecimals, period, ties, ...more }: Definition) => ({
  metric,
  sort,
  operator,
  scoreDecimals,
  period: windowsOf(period),
  breakdownAttribute: more.breakdownAttribute,
  isLatest: ties === "LATEST",
});

type Changed = { source: Source; report: Report };

const changeStatus = async (work: Work, board: Leaderboard, { source, report }: Changed): Promise<void> => {
  if (source.status === "PAUSED") {
    await pauseLeaderboard(work, board.projectId, board.id);
    return;
  }
  const { closedPeriodId } = await resumeLeaderboard(work, board.projectId, board.id);
  if (closedPeriodId !== undefined) report.closedPeriodIds.push(closedPeriodId);
};
