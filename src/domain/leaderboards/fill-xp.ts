import { type RawBuilder, sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { lineCause } from "../progression/ledger-line.ts";
import type { List } from "../evaluation/boards/list.ts";
import { BREAKDOWN_VALUE_MAX, BREAKDOWN_VALUES_MAX, listOf } from "../evaluation/boards/lists.ts";
import { makePeriods } from "./make-periods.ts";
import { windowAt } from "../evaluation/boards/windows.ts";

/**
 * Fills a board of total XP with every eligible player who has ever had XP, as if it had been there from the
 * beginning: whoever has lost all of it stands at 0. A score was reached with the player's last
 * ledger entry: at the time of its event, otherwise when it was written. Must be called under the project's
 * config lock.
 */
export const fillFromXp = async (work: Work, projectId: string, board: Board): Promise<void> => {
  const lists = await listsOf(work, projectId, board);
  await makePeriods(work, projectId, lists);
  const { db, now } = work;
  const scoreSign = board.sort === "DESC" ? -1 : 1;
  const tieSign = board.ties === "LATEST" ? -1 : 1;
  const rows = JSON.stringify(lists.map(({ id, value }) => ({ id, v: value })));
  const score = sql`${scoreSign}::bigint * p.xp`;
  await sql`
    insert into leaderboard_entries
      (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
    select p.project_id, w.id, p.id, ${score}, ${tieSign}::bigint * r.us, r.us, 1,
      ${now.toISOString()}::timestamptz
    from players p
    join json_to_recordset(${rows}::json) as w(id uuid, v text) on w.v = ${valueOf(board)}
    left join lateral (
      select (${lineCause("x")})->>'eventId' as event_id, x.created_at from ledger_entries x
      where x.project_id = p.project_id and x.player_id = p.id and x.asset = 'XP'
      order by x.seq desc limit 1) l on true
    left join tracked_events e on e.project_id = p.project_id and e.id = l.event_id::uuid
    cross join lateral (
      select coalesce(least(e.occurred_at, l.created_at), p.created_at) as at) t
    cross join lateral (select (extract(epoch from t.at) * 1000000)::bigint as us) r
    where p.project_id = ${projectId} and ${IS_SHOWN} and (p.xp > 0 or l.created_at is not null)
      and ${audienceOf(board)}
      and ${board.minRankScore === undefined ? sql`true` : sql`${score} <= ${board.minRankScore}::bigint`}
      and not exists (select 1 from player_states s where s.project_id = p.project_id
        and s.player_id = p.id and s.doc -> 'b' @> to_jsonb(${board.id}::text))`.execute(db);
};

/** Merged and erased players are on no board. */
const IS_SHOWN = sql`p.status not in ('MERGED', 'ERASED')`;

/** The player's value of the breakdown as text; "" without one. */
const valueOf = ({ breakdownAttribute }: Board): RawBuilder<unknown> => {
  if (breakdownAttribute === undefined) return sql`''`;
  const path = `{${breakdownAttribute.split(".").join(",")}}`;
  return sql`case when jsonb_typeof(p.attributes #> ${path}) in ('string', 'number', 'boolean')
    then p.attributes #>> ${path} end`;
};

const audienceOf = ({ audience }: Board): RawBuilder<unknown> => {
  if (!audience) return sql`true`;
  const { segmentKeys, match } = audience;
  const keys = JSON.stringify(segmentKeys);
  const found = sql`(select count(*) from player_segments s
    where s.project_id = p.project_id and s.player_id = p.id
      and s.segment_key in (select json_array_elements_text(${keys}::json)))`;
  if (match === "ALL") return sql`${found} = ${new Set(segmentKeys).size}`;
  return match === "ANY" ? sql`${found} > 0` : sql`${found} = 0`;
};

/** Returns the lists of the single window: one for each value among players who have had XP. */
const listsOf = async ({ db, now }: Work, projectId: string, board: Board): Promise<List[]> => {
  const window = windowAt(board, now.getTime());
  if (!window) return [];
  if (board.breakdownAttribute === undefined) return [listOf(board, window, "")];
  const found = await sql<{ value: string }>`
    select distinct ${valueOf(board)} as value from players p
    where p.project_id = ${projectId} and ${IS_SHOWN}
      and (p.xp > 0 or exists (select from ledger_entries l
        where l.project_id = p.project_id and l.player_id = p.id and l.asset = 'XP'))
      and length(${valueOf(board)}) between 1 and ${BREAKDOWN_VALUE_MAX}
    limit ${BREAKDOWN_VALUES_MAX}`.execute(db);
  return found.rows.map(({ value }) => listOf(board, window, value));
};
