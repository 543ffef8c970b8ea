import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import type { Ties } from "../../evaluation/boards/ranks.ts";
import type { Closing, PeriodOf, EntryPosition } from "./period-row.ts";

/** Entries of the first step. */
export const RESULTS_CHUNK = 10_000;
/** Maximum entries of a later step, in those of the first. */
const CHUNKS_MAX = 10;

/**
 * Returns the entries of the next step: as many as have been written, since each step reads all remaining
 * entries of the list to find the first of them.
 */
const nextChunk = ({ count }: Closing, first: number): number =>
  Math.min(CHUNKS_MAX * first, Math.max(first, count));

export const closingOf = (ties: Ties): Closing => ({
  phase: "RESULTS",
  ties,
  after: null,
  count: 0,
  rank: 0,
  rankScore: null,
  position: 0,
  granted: 0,
});

/** The displayed rank, as `numberStandings` counts it; the chunk continues after `closing`. */
const rankBy = ({ ties, count, rank, rankScore }: Closing): RawBuilder<unknown> => {
  if (ties === "EARLIEST" || ties === "LATEST") return sql`${count}::bigint + n`;
  const last = sql`${rankScore}::bigint`;
  if (ties === "SHARED")
    return sql`case when rank_score = ${last} then ${rank}::bigint else ${count}::bigint + shared end`;
  return sql`${rank}::bigint + dense
    - case when exists (select 1 from shown where rank_score = ${last}) then 1 else 0 end`;
};

type Written = {
  read: string | number;
  kept: string | number;
  last: EntryPosition | null;
  tail: { rank: number; rank_score: number } | null;
};

/**
 * Writes the next places of a list into its results, in storage order and without banned, deleted or erased
 * players. Players merged since the list began to close are replaced by the merged player. The list's entries
 * are not written any more.
 */
export const writeResults = async (
  { db }: Work,
  { projectId, periodId }: PeriodOf,
  closing: Closing,
  first = RESULTS_CHUNK,
): Promise<Closing> => {
  const { after, count } = closing;
  const chunk = nextChunk(closing, first);
  const behind = after
    ? sql`and (rank_score, rank_tie, player_id) >
        (${after.rank_score}::bigint, ${after.rank_tie}::bigint, ${after.player_id}::uuid)`
    : sql``;
  const found = await sql<Written>`
    with page as materialized (
      select player_id, rank_score, rank_tie from leaderboard_entries
      where project_id = ${projectId} and period_id = ${periodId} ${behind}
      order by rank_score, rank_tie, player_id limit ${chunk}),
    shown as (
      select t.id, e.* from page e
      join players s on s.project_id = ${projectId} and s.id = e.player_id
      join players t on t.project_id = ${projectId} and t.id = coalesce(s.merged_into, s.id)
      where t.status not in ('BANNED', 'MERGED', 'ERASED') and t.deleted_at is null),
    numbered as (
      select id, rank_score, rank_tie,
        row_number() over (order by rank_score, rank_tie, player_id) as n,
        rank() over (order by rank_score) as shared, dense_rank() over (order by rank_score) as dense
      from shown),
    ranked as (select id, rank_score, rank_tie, n, ${rankBy(closing)} as rank from numbered),
    written as (
      insert into leaderboard_results
        (project_id, period_id, position, rank, player_id, rank_score, rank_tie)
      select ${projectId}::uuid, ${periodId}::uuid, ${count}::bigint + n - 1, rank, id, rank_score, rank_tie
      from ranked)
    select (select count(*) from page) as read, (select count(*) from ranked) as kept,
      (select row_to_json(l) from (
        select * from page order by rank_score desc, rank_tie desc, player_id desc limit 1) as l) as last,
      (select row_to_json(r) from (
        select rank, rank_score from ranked order by n desc limit 1) as r) as tail`.execute(db);
  const { read, kept, last, tail } = found.rows[0]!;
  return {
    ...closing,
    phase: Number(read) < chunk ? "PRIZES" : "RESULTS",
    after: last ?? after,
    count: count + Number(kept),
    rank: tail?.rank ?? closing.rank,
    rankScore: tail?.rank_score ?? closing.rankScore,
  };
};
