import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { List } from "../evaluation/boards/list.ts";
import { isPlain } from "../evaluation/boards/lists.ts";
import { graceMsOf } from "../evaluation/boards/period.ts";

const isoOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

/** Creates the periods of lists that are filled with their board; a board with one ranking needs none. */
export const makePeriods = async (
  { db, now }: Work,
  projectId: string,
  filled: readonly List[],
): Promise<void> => {
  const lists = filled.filter(({ board }) => !isPlain(board));
  if (lists.length === 0) return;
  const rows = lists.map(({ id, board, value, window: { key, startsAtMs, endsAtMs } }) => {
    const isLate = endsAtMs !== null && endsAtMs <= now.getTime();
    const window = { k: key, s: isoOf(startsAtMs), e: isoOf(endsAtMs) };
    return {
      id,
      b: board.id,
      v: value,
      ...window,
      c: isoOf(endsAtMs === null ? null : endsAtMs + graceMsOf(board.period)),
      l: isLate,
      g: !isLate || board.prizesForLate,
    };
  });
  const at = sql`${now.toISOString()}::timestamptz`;
  await sql`
    insert into leaderboard_periods (project_id, id, leaderboard_id, period_key, board, starts_at, ends_at,
      close_at, is_late, grants_prizes, created_at, written_at)
    select ${projectId}::uuid, id, b, k, v, s, e, c, l, g, ${at}, ${at}
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(id uuid, b uuid, k text, v text,
      s timestamptz, e timestamptz, c timestamptz, l boolean, g boolean)
    order by id
    on conflict do nothing`.execute(db);
};
