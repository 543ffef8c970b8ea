import { type RawBuilder, sql } from "kysely";
import { columnsOf, type FileColumn, type Row } from "./columns.ts";
import { checkFormat, type ExportFields, type ExportPlan, type Put, slugOf, writePages } from "./reports.ts";
import { fromRankScore, reachedUs } from "../../evaluation/boards/lists.ts";
import type { Ties } from "../../evaluation/boards/ranks.ts";
import { type CursorParts, readPages } from "../../kernel/cursor.ts";
import type { Work } from "../../kernel/work.ts";
import { type BoardList, findList, isOver, type ListQuery } from "../../leaderboards/board-list.ts";
import { getLeaderboard } from "../../leaderboards/leaderboards.ts";
import type { Leaderboard } from "../../progression/load-plan.ts";

/** The columns of a board's file, which are the fields of its lines. */
const COLUMNS = [
  { name: "rank", type: "number" },
  { name: "playerId", type: "text" },
  { name: "externalUserId", type: "text" },
  { name: "displayName", type: "text" },
  { name: "score", type: "number" },
  { name: "reachedAt", type: "time" },
  { name: "meta", type: "json" },
  { name: "avatarUrl", type: "text", isExtra: true },
] as const;

/** How a file of a board is written. */
export type BoardFields = Omit<ExportFields, "report">;

type BoardPlan = Pick<ExportPlan, "flatten" | "style" | "fileName"> & {
  leaderboard: Leaderboard;
  list: BoardList;
  columns: readonly FileColumn[];
};

/** @throws DomainError NOT_FOUND for an unknown leaderboard or period; VALIDATION_ERROR */
export const planBoardExport = async (
  work: Work,
  { projectId, ref }: { projectId: string; ref: string },
  { fields, list: asked }: { fields: BoardFields; list: ListQuery },
): Promise<BoardPlan> => {
  checkFormat(fields);
  const leaderboard = await getLeaderboard(work, projectId, ref);
  const list = await findList(work, leaderboard, asked);
  const { format, flatten, bom, raw } = fields;
  const columns = columnsOf(COLUMNS, fields.columns);
  const name = [leaderboard.key, list.key, list.board].map(slugOf).filter((part) => part !== "");
  const fileName = `laurel-${name.join("-")}.${format}`;
  return { leaderboard, list, columns, flatten, style: { format, bom, raw }, fileName };
};

/** The displayed rank of all who are shown, as `numberStandings` counts it. */
const RANKS: Readonly<Record<Ties, RawBuilder<unknown>>> = {
  EARLIEST: sql`row_number() over w`,
  LATEST: sql`row_number() over w`,
  SHARED: sql`rank() over (order by e.rank_score)`,
  DENSE: sql`dense_rank() over (order by e.rank_score)`,
};

/** Selects the lines of a list in their order: of open ones their entries, of closed ones their results. */
const linesOf = ({ leaderboard, list }: BoardPlan): RawBuilder<unknown> => {
  const { projectId, periodId, ties } = list.ref;
  const isClosed = isOver(list);
  const from = isClosed
    ? sql`leaderboard_results e left join leaderboard_entries k
        on k.project_id = e.project_id and k.period_id = e.period_id and k.player_id = e.player_id`
    : sql`leaderboard_entries e`;
  const limit = leaderboard.definition.displayLimit;
  return sql`
    select ${isClosed ? sql`e.rank` : RANKS[ties]}::float8 as rank, p.id::text as "playerId",
      p.external_user_id as "externalUserId", p.display_name as "displayName", p.avatar_url as "avatarUrl",
      e.rank_score::float8 as rank_score, e.rank_tie::float8 as rank_tie,
      ${isClosed ? sql`k.meta` : sql`e.meta`}::text as meta
    from ${from} join players p on p.project_id = e.project_id and p.id = e.player_id
    where e.project_id = ${projectId}::uuid and e.period_id = ${periodId}::uuid
      and p.status not in ('BANNED', 'MERGED', 'ERASED') and p.deleted_at is null
      ${isClosed && limit !== undefined ? sql`and e.position < ${limit}` : sql``}
    window w as (order by e.rank_score, e.rank_tie, e.player_id)
    order by e.rank_score, e.rank_tie, e.player_id
    ${isClosed || limit === undefined ? sql`` : sql`limit ${limit}`}`;
};

type Line = Row & { rank_score: number; rank_tie: number };

/**
 * Writes all lines of a list that are shown, from one snapshot: operators who work on a whole season would
 * otherwise have to join pages between which places move.
 * @returns their number
 */
export const writeBoard = (
  parts: CursorParts,
  plan: BoardPlan,
  { put, signal }: { put: Put; signal: AbortSignal },
): Promise<number> => {
  const { definition } = plan.leaderboard;
  const shown = ({ rank_score, rank_tie, ...line }: Line): Row => ({
    ...line,
    score: fromRankScore(definition, rank_score),
    reachedAt: Math.floor(reachedUs(definition, rank_tie) / 1_000),
  });
  return readPages<Line, number>(parts, linesOf(plan), (pages) =>
    writePages(plan, { ...pages, next: async () => (await pages.next()).map(shown) }, { put, signal }),
  );
};
