import { sql } from "kysely";
import { z } from "zod";
import { invalid, notFound } from "../kernel/errors.ts";
import type { RankedValue } from "../kernel/events/domain-events.ts";
import { offsetOf, PAGE_LIMIT_DEFAULT } from "../kernel/paging.ts";
import type { Work } from "../kernel/work.ts";
import { BREAKDOWN_VALUES_MAX, breakdownNameOf, fromRankScore } from "../evaluation/boards/lists.ts";
import { boardOf, type Leaderboard } from "../progression/load-plan.ts";
import { AROUND_LIMIT_DEFAULT, findWindow, showWindow, WindowBody } from "./board-list.ts";
import { getLeaderboard } from "./leaderboards.ts";
import { windowStart } from "./open-lists.ts";

/** By what the values of a breakdown are ranked. */
export const VALUE_MEASURES = ["total", "average", "best", "players"] as const;
export type ValueMeasure = (typeof VALUE_MEASURES)[number];

/** `period`: a window's key, default the current one. */
export type ValuesQuery = { ref: string; by?: ValueMeasure | undefined; period?: string | undefined };

/** A value of a breakdown, as it is ranked. */
export const ValueBody = z
  .object({
    rank: z.int().meta({ description: "Equal ones share a rank: 1-2-2-4" }),
    value: z.string().meta({ description: "The value of the breakdown", example: "red" }),
    players: z.int().meta({ description: "Players with a score under this value" }),
    total: z.number().meta({ description: "Their scores added up" }),
    average: z.number(),
    best: z.number(),
  })
  .meta({ id: "LeaderboardValue" });

/** All values of one window; a leaderboard has 1,000 of them, and a few more where they came at once. */
export const RankedBody = z.object({
  leaderboardKey: z.string(),
  by: z.enum(VALUE_MEASURES),
  period: WindowBody,
  isFull: z.boolean().meta({
    description: "Whether the period has as many values as it may have: scores under others do not count",
  }),
});
export type RankedValues = z.output<typeof RankedBody> & { values: RankedValue[] };

/** In the order of places: stored scores are better the smaller they are. */
const ORDERS = {
  total: sql`total`,
  average: sql`total / players`,
  best: sql`best`,
  players: sql`players desc`,
} as const satisfies Record<ValueMeasure, unknown>;

/** Scores that add up are compared by their total, others by the best one. */
export const usualMeasure = ({ definition: { operator } }: Leaderboard): "total" | "best" =>
  operator === "SUM" || operator === "DECR" ? "total" : "best";

type ValueRow = { rank: number; value: string; players: number; total: number; best: number };

const AVERAGE_DECIMALS = 6;

const rounded = (value: number): number => Number(value.toFixed(AVERAGE_DECIMALS));

const valueOf = (leaderboard: Leaderboard, row: ValueRow): RankedValue => {
  const board = boardOf(leaderboard);
  const { players, total } = row;
  return {
    rank: row.rank,
    value: row.value,
    players,
    total: fromRankScore(board, total),
    average: rounded(fromRankScore(board, total / players)),
    best: fromRankScore(board, row.best),
  };
};

/** `key`: of the window. */
type Ranking = { key: string; by: ValueMeasure };

/**
 * Ranks the values of a window. Lists that are over have results, whose places stay whatever becomes of the
 * players; who was merged since has several of them, and is one player.
 */
export const rankValues = async (
  { db }: Work,
  leaderboard: Leaderboard,
  { key, by }: Ranking,
): Promise<RankedValue[]> => {
  const { projectId, id } = leaderboard;
  const isOver = sql`l.status in ('CLOSED', 'ARCHIVED')`;
  const found = await sql<ValueRow>`
    with lists as (
      select id, board, status from leaderboard_periods
      where project_id = ${projectId} and leaderboard_id = ${id} and period_key = ${key}),
    added as (
      select l.board as value, count(*) as players, sum(e.rank_score) as total, min(e.rank_score) as best
      from lists l
      join leaderboard_entries e on e.project_id = ${projectId} and e.period_id = l.id
      join players p on p.project_id = ${projectId} and p.id = e.player_id
      where not ${isOver} and p.status not in ('BANNED', 'MERGED', 'ERASED') and p.deleted_at is null
      group by l.board
      union all
      select l.board, count(distinct r.player_id), sum(r.rank_score), min(r.rank_score)
      from lists l join leaderboard_results r on r.project_id = ${projectId} and r.period_id = l.id
      where ${isOver} group by l.board)
    select *, rank() over (order by ${ORDERS[by]}) as rank
    from added order by rank, value`.execute(db);
  return found.rows.map((row) => valueOf(leaderboard, row));
};

/** What the players of a value have together, as text of whole numbers: scores as they are stored. */
export type ValueTally = { value: string; players: string; total: string; best: string };

/** Ranks values by what their players have. */
export const rankTallies = async (
  { db }: Work,
  leaderboard: Leaderboard,
  { by, tallies }: { by: ValueMeasure; tallies: readonly ValueTally[] },
): Promise<RankedValue[]> => {
  const found = await sql<ValueRow>`
    select *, rank() over (order by ${ORDERS[by]}) as rank
    from json_to_recordset(${JSON.stringify(tallies)}::json)
      as x(value text, players bigint, total numeric, best bigint)
    order by rank, value`.execute(db);
  return found.rows.map((row) => valueOf(leaderboard, row));
};

const isFullAt = async ({ db }: Work, { projectId, id }: Leaderboard, key: string): Promise<boolean> => {
  const found = await sql<{ n: number }>`
    select count(*) as n from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id} and period_key = ${key}
      and board <> ''`.execute(db);
  return found.rows[0]!.n >= BREAKDOWN_VALUES_MAX;
};

/**
 * Ranks the values of a board's breakdown, such as teams or countries, by the scores of their players in one
 * window. Reads all entries of the window. Players who are banned, deleted or erased count only where the
 * window is over.
 * @throws DomainError NOT_FOUND for an unknown leaderboard or period; VALIDATION_ERROR for a leaderboard
 * without a breakdown
 */
export const readRankedValues = async (
  work: Work,
  projectId: string,
  query: ValuesQuery,
): Promise<RankedValues> => {
  const leaderboard = await getLeaderboard(work, projectId, query.ref);
  if (breakdownNameOf(leaderboard.definition) === undefined)
    throw invalid("leaderboardId", "the leaderboard has no breakdown, whose values could be ranked");
  const by = query.by ?? usualMeasure(leaderboard);
  const period = await findWindow(work, leaderboard, query.period);
  return {
    leaderboardKey: leaderboard.key,
    by,
    period: showWindow(period),
    isFull: await isFullAt(work, leaderboard, period.key),
    values: await rankValues(work, leaderboard, { key: period.key, by }),
  };
};

/** `around`: the places around this value, which is in the middle if possible, in place of a page. */
export type ValuesPage = { page: number; limit?: number | undefined; around?: string | undefined };

/**
 * Returns the part of a ranking that a query asks for, and the page that it begins on.
 * @throws DomainError NOT_FOUND where the value of `around` has no score; VALIDATION_ERROR
 */
export const pageOfValues = (
  values: readonly RankedValue[],
  { page, limit, around }: ValuesPage,
): { values: RankedValue[]; page: number; limit: number } => {
  if (around === undefined) {
    const size = limit ?? PAGE_LIMIT_DEFAULT;
    const first = offsetOf({ page, limit: size });
    return { values: values.slice(first, first + size), page, limit: size };
  }
  if (page > 1) throw invalid("page", "cannot be combined with around");
  const position = values.findIndex(({ value }) => value === around);
  if (position < 0) throw notFound("score under this value");
  const size = limit ?? AROUND_LIMIT_DEFAULT;
  const first = windowStart(position, values.length, size);
  return { values: values.slice(first, first + size), page: Math.floor(first / size) + 1, limit: size };
};
