import { sql } from "kysely";
import type { LoadedList } from "../../evaluation/boards/list.ts";
import { graceMsOf } from "../../evaluation/boards/period.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { Arm } from "./part.ts";

/** Maximum age of the recorded time of the last write, in ms; it decides when a late period is closed. */
const WRITTEN_EVERY_MS = 60_000;

const endsOf = ({ board, window: { endsAtMs } }: LoadedList): [ends: number | null, close: number | null] =>
  endsAtMs === null ? [null, null] : [endsAtMs, endsAtMs + graceMsOf(board.period)];

const rowOf = (projectId: string, list: LoadedList) => {
  const { id, board, window, value, status, writtenMs } = list;
  const [e, c] = endsOf(list);
  const times = { s: window.startsAtMs, e, c };
  return {
    p: projectId,
    i: id,
    b: board.id,
    k: window.key,
    v: value,
    ...times,
    // Late periods give prizes according to the board; whether one is late is decided when it is written.
    g: board.prizesForLate,
    isNew: status === null,
    writtenMs,
  };
};

/**
 * Returns the lists that players have changed, by id: batches that create the same ones run one after the
 * other.
 */
const writtenLists = (players: readonly PlayerState[]) => {
  const written = new Map<string, ReturnType<typeof rowOf>>();
  for (const { projectId, lists, dirty } of players) {
    for (const id of dirty.entries) {
      const list = lists.get(id);
      if (!list || written.has(id)) continue;
      if (!list.isLoaded) throw new Error(`scores on ${list.board.key} in a period that was not loaded`);
      if (list.status === null || list.isLate) written.set(id, rowOf(projectId, list));
    }
  }
  return [...written.values()].toSorted((a, b) => (a.i < b.i ? -1 : 1));
};

/**
 * Creates the periods of lists that are written for the first time, and marks late ones as still being
 * written. Others are not touched, so batches need not wait for one another.
 */
export const periodArm = (players: readonly PlayerState[]): Arm => ({
  name: "lp",
  rows: writtenLists(players),
  write: (rows, now) => sql`
    insert into leaderboard_periods as t (project_id, id, leaderboard_id, period_key, board, starts_at,
      ends_at, close_at, is_late, grants_prizes, created_at, written_at)
    select p, i, b, k, v, to_timestamp(s / 1000), to_timestamp(e / 1000), to_timestamp(c / 1000),
      x.is_late, not x.is_late or g, ${now}, ${now}
    from (
      select *, coalesce(to_timestamp(e / 1000) <= ${now}, false) as is_late
      from json_to_recordset(${rows}::json) as y(p uuid, i uuid, b uuid, k text, v text, s float8, e float8,
        c float8, g boolean, "isNew" boolean, "writtenMs" float8)
      where "isNew" or to_timestamp(("writtenMs" + ${sql.lit(WRITTEN_EVERY_MS)}) / 1000) < ${now}) x
    order by i
    on conflict (project_id, id) do update set written_at = excluded.written_at where t.is_late`,
});
