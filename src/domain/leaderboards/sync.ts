import { isDeepStrictEqual } from "node:util";
import { UNKNOWN_REFERENCE } from "../economy/definitions/references.ts";
import { TOO_LARGE } from "../economy/definitions/running.ts";
import { DomainError } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";
import type { Definition } from "../evaluation/boards/definition.ts";
import { Leaderboard } from "../progression/load-plan.ts";
import { windowsOf } from "../evaluation/boards/period.ts";
import {
  archiveLeaderboard,
  createLeaderboard,
  pauseLeaderboard,
  resumeLeaderboard,
} from "./leaderboards.ts";

type Report = { count: number; skipped: { key: string; reason: string }[]; closedPeriodIds: string[] };

/**
 * Copies the leaderboards of one project to another, by key, with entries of its own: an existing board keeps
 * them, a new XP board starts with the XP of its players. A board whose scores have another meaning there is
 * left unchanged. Must be called under the config locks of both.
 * @throws CONFLICT LEADERBOARD_LIMIT
 */
export const syncLeaderboards = async (
  work: Work,
  { from, to }: { from: string; to: string },
): Promise<Report> => {
  const sources = await work.em.find(Leaderboard, { projectId: from }, { orderBy: { id: "asc" } });
  const own = await work.em.find(Leaderboard, { projectId: to });
  const byKey = new Map(own.map((board) => [board.key, board]));
  const report: Report = { count: 0, skipped: [], closedPeriodIds: [] };
  for (const source of sources) {
    const board = byKey.get(source.key);
    if (!board) await addBoard(work, to, { source, report });
    else if (board.status === "ARCHIVED" || source.status === "ARCHIVED")
      await archiveOrSkip(work, board, { source, report });
    else await changeBoard(work, board, { source, report });
  }
  return report;
};

/** Reasons to skip a board: it names something archived, or exceeds the limits for new ones. */
const NOT_COPIED: ReadonlySet<string | undefined> = new Set([UNKNOWN_REFERENCE, TOO_LARGE]);

type Step = { source: Leaderboard; report: Report };

const addBoard = async (work: Work, projectId: string, { source, report }: Step): Promise<void> => {
  const { key, name, status } = source;
  if (status === "ARCHIVED") return;
  const definition = structuredClone(source.definition);
  try {
    const board = await createLeaderboard(work, projectId, { ...definition, key, name, backfill: false });
    board.status = status;
    report.count++;
  } catch (error) {
    if (!(error instanceof DomainError) || !NOT_COPIED.has(error.reason)) throw error;
    report.skipped.push({ key, reason: error.message });
  }
};

/** Handles boards of which one is archived, which is final. */
const archiveOrSkip = async (work: Work, board: Leaderboard, { source, report }: Step): Promise<void> => {
  if (board.status === source.status) return;
  if (board.status === "ARCHIVED") {
    report.skipped.push({ key: board.key, reason: "it is archived in the sandbox" });
    return;
  }
  await archiveLeaderboard(work, board.projectId, board.id);
  report.count++;
};

const changeBoard = async (work: Work, board: Leaderboard, { source, report }: Step): Promise<void> => {
  if (!isDeepStrictEqual(meaningOf(board.definition), meaningOf(source.definition))) {
    const reason = "its scores mean something else in the sandbox; archive it there and use another key";
    report.skipped.push({ key: board.key, reason });
    return;
  }
  const isSame = board.name === source.name && isDeepStrictEqual(board.definition, source.definition);
  if (isSame && board.status === source.status) return;
  report.count++;
  if (!isSame) {
    const definition = structuredClone(source.definition);
    const version = board.version + 1;
    Object.assign(board, { name: source.name, definition, version, updatedAt: work.now });
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
  breakdownProperty: more.breakdownProperty,
  isLatest: ties === "LATEST",
});

const changeStatus = async (work: Work, board: Leaderboard, { source, report }: Step): Promise<void> => {
  if (source.status === "PAUSED") {
    await pauseLeaderboard(work, board.projectId, board.id);
    return;
  }
  const { closedPeriodId } = await resumeLeaderboard(work, board.projectId, board.id);
  if (closedPeriodId !== undefined) report.closedPeriodIds.push(closedPeriodId);
};
