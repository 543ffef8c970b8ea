import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { kept } from "../../kernel/statements.ts";
import type { Board } from "../../evaluation/boards/board.ts";
import { DEFAULT_RANK_CHANGE, type RankChange } from "../../evaluation/boards/definition-parts.ts";
import type { PeriodRef, Ties } from "../../evaluation/boards/ranks.ts";
import { ALL_TIME_KEY, keyWithResets } from "../../evaluation/boards/windows.ts";
import type { Lead } from "./significance.ts";

/** Players of a list whose entries have changed. */
export type ChangedList = { projectId: string; periodId: string; playerIds: ReadonlySet<string> };

/** An open list with rank notices. */
export type NoticeList = {
  ref: PeriodRef;
  leaderboardId: string;
  leaderboardKey: string;
  periodKey: string;
  board: string;
  scoring: Pick<Board, "sort" | "scoreDecimals">;
  rule: RankChange;
  /** Increases with every notice of the list: data read in an earlier round may be stale. */
  round: number;
  /** The last announced leader. */
  named: Lead | undefined;
  /** The only list of a board without periods may have entries before it has its row. */
  hasRow: boolean;
};

type Row = {
  project_id: string;
  id: string;
  leaderboard_id: string;
  key: string;
  period_key: string | null;
  board: string | null;
  resets: number;
  notice_round: string | number | null;
  leader_id: string | null;
  leader_score: string | number | null;
  ties: Ties;
  sort: Board["sort"];
  decimals: string | number;
  rank_change: RankChange | null;
};

const listOf = (row: Row): NoticeList => ({
  ref: { projectId: row.project_id, periodId: row.id, ties: row.ties },
  leaderboardId: row.leaderboard_id,
  leaderboardKey: row.key,
  periodKey: row.period_key ?? keyWithResets(ALL_TIME_KEY, row.resets),
  board: row.board ?? "",
  scoring: { sort: row.sort, scoreDecimals: Number(row.decimals) },
  rule: row.rank_change ?? DEFAULT_RANK_CHANGE,
  round: Number(row.notice_round ?? 0),
  hasRow: row.period_key !== null,
  named:
    row.leader_id === null ? undefined : { playerId: row.leader_id, rankScore: Number(row.leader_score) },
});

/**
 * Returns those of the lists that are open and have rank notices, in locking order. A window that was over
 * when its first score came has none: nobody waits for the ranks of imported history.
 */
export const readNoticeLists = async (
  { db }: Work,
  lists: readonly Pick<ChangedList, "projectId" | "periodId">[],
): Promise<NoticeList[]> => {
  if (lists.length === 0) return [];
  const keys = lists.map(({ projectId, periodId }) => ({ p: projectId, w: periodId }));
  const found = await kept(
    db,
    sql<Row>`
    select r.p as project_id, r.w as id, b.id as leaderboard_id, b.key, w.period_key,
      w.board, b.resets, w.notice_round, w.leader_id, w.leader_score, b.definition->>'ties' as ties,
      b.definition->>'sort' as sort,
      b.definition->>'scoreDecimals' as decimals, b.definition->'rankChange' as rank_change
    from json_to_recordset(${JSON.stringify(keys)}::json) as r(p uuid, w uuid)
    left join leaderboard_periods w on w.project_id = r.p and w.id = r.w
    join leaderboards b on b.project_id = r.p and b.status <> 'ARCHIVED'
      and b.id = coalesce(w.leaderboard_id,
        (select o.id from leaderboards o where o.project_id = r.p and o.period_id = r.w limit 1))
    where coalesce(w.status, 'OPEN') = 'OPEN' and w.is_late is not true order by r.p, r.w`,
  );
  return found.rows.map(listOf).filter(({ rule }) => rule.enabled);
};

/** Creates missing rows of lists, unless they were reset meanwhile. */
const makeRows = async ({ db, now }: Work, lists: readonly NoticeList[]): Promise<void> => {
  const rows = lists
    .filter(({ hasRow }) => !hasRow)
    .map(({ ref, leaderboardId, periodKey }) => ({
      p: ref.projectId,
      w: ref.periodId,
      l: leaderboardId,
      k: periodKey,
    }));
  if (rows.length === 0) return;
  const at = sql`${now.toISOString()}::timestamptz`;
  await sql`
    insert into leaderboard_periods (project_id, id, leaderboard_id, period_key, created_at, written_at)
    select x.p, x.w, x.l, x.k, ${at}, ${at}
    from (
      select x.* from json_to_recordset(${JSON.stringify(rows)}::json) as x(p uuid, w uuid, l uuid, k text)
      join leaderboards b on b.project_id = x.p and b.id = x.l and b.period_id = x.w
      order by x.w for share of b) x
    on conflict do nothing`.execute(db);
};

/**
 * Locks the lists for sending notices. @returns those that are still open, and whether one of them has sent a
 * notice since it was read
 */
export const lockNoticeLists = async (
  work: Work,
  lists: readonly NoticeList[],
): Promise<{ open: ReadonlySet<string>; isOld: boolean }> => {
  await makeRows(work, lists);
  const keys = lists.map(({ ref }) => ({ p: ref.projectId, w: ref.periodId }));
  const found = await kept(
    work.db,
    sql<{ id: string; notice_round: string | number }>`
    select w.id, w.notice_round from leaderboard_periods w
    join json_to_recordset(${JSON.stringify(keys)}::json) as r(p uuid, w uuid)
      on w.project_id = r.p and w.id = r.w
    where w.status = 'OPEN' order by w.project_id, w.id for update of w`,
  );
  const rounds = new Map(found.rows.map((row) => [row.id, Number(row.notice_round)]));
  const isOld = lists.some(({ ref, round }) => (rounds.get(ref.periodId) ?? round) !== round);
  return { open: new Set(rounds.keys()), isOld };
};
