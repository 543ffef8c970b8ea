import { sql } from "kysely";
import { type ListStatus, type LoadedList, periodIdOf } from "../../evaluation/boards/board.ts";
import { BREAKDOWN_VALUES_MAX, breakdownNameOf, isPlain } from "../../evaluation/boards/lists.ts";
import { graceMsOf } from "../../evaluation/boards/period.ts";
import type { EntryState, PlayerState } from "../../evaluation/player-state.ts";
import { type Arm, deleteFrom, msOf, type PlayerPart } from "./part.ts";

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
const periodArm = (players: readonly PlayerState[]): Arm => ({
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

const rowsOf = ({ projectId, id, entries, dirty }: PlayerState) =>
  [...dirty.entries].flatMap((periodId) => {
    const entry = entries.get(periodId);
    if (!entry) return [];
    const { rankScore, rankTie, latestUs, version, submissions = 0, recorded = null, meta } = entry;
    const place = { p: projectId, w: periodId, i: id };
    const values = { s: rankScore, t: rankTie, l: latestUs, v: version, n: submissions, r: recorded };
    // A JSON null clears the value; an absent one keeps it.
    return [{ ...place, ...values, m: meta === undefined ? null : JSON.stringify(meta) }];
  });

const deleteLeft = deleteFrom("leaderboard_entries", "project_id uuid p, period_id uuid w, player_id uuid i");

/** Places that players have left. */
const leftRowsOf = ({ projectId, id, entries, dirty }: PlayerState) =>
  [...dirty.entries]
    .filter((periodId) => !entries.has(periodId))
    .map((periodId) => ({ p: projectId, w: periodId, i: id }));

/** An entry (null without one), and its period for lists other than those of boards with one ranking. */
type Loaded = [
  entry:
    | [
        rankScore: number,
        rankTie: number,
        latestUs: number,
        version: number,
        submissions: number,
        recorded: number | null,
      ]
    | null,
  period?: [status: ListStatus, isLate: boolean, writtenMs: number] | null,
  isFull?: boolean,
  isWindowOver?: boolean,
];

const entryOf = ([rankScore, rankTie, latestUs, version, submissions, recorded]: NonNullable<
  Loaded[0]
>): EntryState => ({
  rankScore,
  rankTie,
  latestUs,
  version,
  ...(submissions === 0 ? {} : { submissions }),
  ...(recorded === null ? {} : { recorded }),
});

const ENTRY = sql.raw(
  "json_build_array(e.rank_score, e.rank_tie, e.latest_us, e.version, e.submissions, e.recorded)",
);

/** One page of the lists of a window: enough to decide whether it is full. */
const VALUES = sql`
  select count(*) as n from (
    select 1 from leaderboard_periods v
    where v.project_id = x.p and v.leaderboard_id = x.b and v.period_key = x.k and v.board <> ''
    limit ${sql.lit(BREAKDOWN_VALUES_MAX)}) v`;

/** Entries of boards with one ranking: the same lists for all players. */
const plainEntries = (periodIds: readonly string[]) => sql`
  select 'e', r.n, e.period_id::text, json_build_array(${ENTRY})
  from r cross join unnest(${`{${periodIds.join(",")}}`}::uuid[]) as w(period_id)
  cross join lateral (
    select * from leaderboard_entries e
    where e.project_id = r.p and e.period_id = w.period_id and e.player_id = r.i limit 1) e`;

/** Entries of other lists, each with its period. */
const listedEntries = (players: readonly PlayerState[]) => {
  const rows = players.flatMap(({ projectId, id, lists }, n) =>
    [...lists.values()].map(({ id: listId, board, window, status }) => ({
      n,
      p: projectId,
      i: id,
      w: listId,
      // Only for breakdowns, and only once: whether there is room for another value.
      ...(breakdownNameOf(board) === undefined || status !== null
        ? {}
        : { b: board.id, k: window.key, o: periodIdOf(board, window.key, "") }),
    })),
  );
  return sql`
    select 'e', x.n, x.w::text, json_build_array(
      case when e.player_id is not null then ${ENTRY} end,
      case when s.id is not null then json_build_array(s.status, s.is_late,
        ${msOf("s.written_at")}) end,
      case when x.b is not null and s.id is null
        then (${VALUES}) >= ${sql.lit(BREAKDOWN_VALUES_MAX)} else false end,
      x.o is not null and s.id is null and exists (
        select 1 from leaderboard_periods o
        where o.project_id = x.p and o.id = x.o and o.status <> 'OPEN'))
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(
      n int, p uuid, i uuid, w uuid, b uuid, k text, o uuid)
    left join lateral (
      select * from leaderboard_periods s where s.project_id = x.p and s.id = x.w limit 1) s on true
    left join lateral (
      select * from leaderboard_entries e
      where e.project_id = x.p and e.period_id = x.w and e.player_id = x.i limit 1) e on true`;
};

/** Leaderboard entries, and their periods, of the lists that a batch may touch. */
export const entries: PlayerPart = {
  tag: "e",
  isNeeded: ({ boards }) => boards.length > 0,
  load: (plans, players) => {
    const plain = plans.flatMap(({ boards }) => boards.filter(isPlain).map(({ periodId }) => periodId));
    const isListed = players.some(({ lists }) => lists.size > 0);
    if (!isListed) return plainEntries(plain);
    return sql`${plainEntries(plain)} union all ${listedEntries(players)}`;
  },
  read: (player, periodId, value) => {
    const [entry, period, isFull = false, isWindowOver = false] = value as Loaded;
    if (entry) player.entries.set(periodId, entryOf(entry));
    const list = player.lists.get(periodId);
    if (!list) return;
    const [status, isLate, writtenMs] = period ?? [null, false, null];
    const room = { isFull, isWindowOver };
    player.lists.set(periodId, { ...list, status, isLate, writtenMs, ...room, isLoaded: true });
  },
  arms: (players) => [
    periodArm(players),
    {
      name: "e",
      rows: players.flatMap(rowsOf),
      write: (rows, now) => sql`
        insert into leaderboard_entries as t (project_id, period_id, player_id, rank_score, rank_tie,
          latest_us, version, submissions, recorded, meta, updated_at)
        select p, w, i, s, t, l, v, n, r, m::json, ${now} from json_to_recordset(${rows}::json) as x(
          p uuid, w uuid, i uuid, s bigint, t bigint, l bigint, v int, n int, r int, m text)
        on conflict (project_id, period_id, player_id) do update set rank_score = excluded.rank_score,
          rank_tie = excluded.rank_tie, latest_us = excluded.latest_us, version = excluded.version,
          submissions = excluded.submissions, recorded = excluded.recorded, updated_at = excluded.updated_at,
          meta = coalesce(excluded.meta, t.meta)`,
    },
    { name: "el", rows: players.flatMap(leftRowsOf), write: deleteLeft },
  ],
};
