import { type RawBuilder, sql } from "kysely";
import { inProjectTime } from "../../accounts/projects/project.ts";
import { fromRankScore } from "../../evaluation/boards/lists.ts";
import type { Ties } from "../../evaluation/boards/ranks.ts";
import type { FinalRank } from "../../kernel/events/domain-events.ts";
import { idFloor, timeOfId } from "../../kernel/ids.ts";
import { changeConfig, shareConfig, type Work } from "../../kernel/work.ts";
import {
  type Closing,
  type EntryPosition,
  givePrizes,
  keepClosing,
  type PeriodOf,
  type PeriodRow,
  type Prizes,
  prizesOf,
} from "./prizes.ts";
import { areValuesRanked, rankIfOver } from "./values.ts";
import { boardOf, Leaderboard } from "../../progression/load-plan.ts";

/** Entries of the first step. */
const RESULTS_CHUNK = 10_000;
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
  read: number;
  kept: number;
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
    phase: read < chunk ? "PRIZES" : "RESULTS",
    after: last ?? after,
    count: count + kept,
    rank: tail?.rank ?? closing.rank,
    rankScore: tail?.rank_score ?? closing.rankScore,
  };
};

/** Maximum number of projects, and of closing lists, per sweep. */
const DUE_MAX = 1_000;
/** Time without writes, in ms, after which a window closes that was already over at its first score. */
const LATE_QUIET_MS = 600_000;
/** Maximum difference between the clocks of processes, in ms. */
const CLOCKS_MS = 60_000;
/** Number of places named in `leaderboard.period_closed`. */
const TOP_MAX = 10;

const at = (ms: number): RawBuilder<unknown> => sql`${new Date(ms).toISOString()}::timestamptz`;

const openLists = (ms: number): RawBuilder<unknown> =>
  sql`from leaderboard_periods where status = 'OPEN' and close_at <= ${at(ms)}`;
const CLOSING_LISTS = sql`from leaderboard_periods where status = 'CLOSING'`;

/** Selects the times at which a project's lists close, those included of which something is still to do. */
export const closeTimesOf = (projectId: string): RawBuilder<unknown> => sql`
  select case when ranking is null then close_at else coalesce(close_at, 'epoch') end as due_at
  from leaderboard_periods
  where project_id = ${projectId}::uuid
    and (status in ('OPEN', 'CLOSING') and close_at is not null or ranking is not null)`;

/** Whether a list is over, or is being closed, or values of a window are being ranked. */
export const areListsDue = (time: Date): RawBuilder<unknown> => sql`
  (exists (select ${openLists(time.getTime())}) or exists (select ${CLOSING_LISTS}) or ${areValuesRanked()})`;

/**
 * Returns projects with a list that is over. Windows of imported history are postponed first until there have
 * been no writes for a while, so that not every sweep examines them.
 */
export const projectsToClose = async (work: Work): Promise<string[]> => {
  const { db, now } = work;
  await postponeLate(work, sql``);
  const found = await sql<{ project_id: string }>`
    select project_id ${openLists(now.getTime())}
    group by project_id order by min(close_at) limit ${DUE_MAX}`.execute(db);
  return found.rows.map(({ project_id }) => project_id);
};

const postponeLate = ({ db, now }: Work, within: RawBuilder<unknown>): Promise<unknown> =>
  sql`
    update leaderboard_periods set close_at = written_at + ${LATE_QUIET_MS} * interval '1 millisecond'
    where status = 'OPEN' and close_at <= ${at(now.getTime())} and is_late ${within}
      and written_at > ${at(now.getTime() - LATE_QUIET_MS)}`.execute(db);

/** As `closingLists`, of one project; windows of imported history are postponed as by `projectsToClose`. */
export const closingListsOf = async (work: Work, projectId: string): Promise<PeriodOf[]> => {
  const within = sql`and project_id = ${projectId}::uuid`;
  await postponeLate(work, within);
  const found = await sql<{ id: string }>`
    select id ${CLOSING_LISTS} ${within} order by close_at limit ${DUE_MAX}`.execute(work.db);
  return found.rows.map(({ id }) => ({ projectId, periodId: id }));
};

/**
 * Returns when the oldest event arrived that a project has still to process, in ms; without delayed events of
 * rules.
 */
const oldestWaiting = async ({ db }: Work, projectId: string): Promise<number> => {
  const found = await sql<{ id: string | null }>`
    select least(
      (select event_id::text from event_q where project_id = ${projectId} order by event_id limit 1),
      (select event_id::text from event_due where project_id = ${projectId} and attempts > 0
        order by event_id limit 1)) as id`.execute(db);
  const id = found.rows[0]!.id;
  return id === null ? Infinity : timeOfId(id);
};

/** Lists that are over, with no pending event that could belong to them. */
const isRipe = (nowMs: number, oldestMs: number): RawBuilder<unknown> => {
  const isQuiet = oldestMs >= nowMs - LATE_QUIET_MS;
  return sql`status = 'OPEN' and close_at <= ${at(nowMs)} and case when is_late
    then ${isQuiet} and written_at <= ${at(nowMs - LATE_QUIET_MS)}
    else close_at <= ${at(Math.min(oldestMs, nowMs))} end`;
};

/**
 * Stops accepting scores in a project's lists that are over. A list stays open while events from before its
 * end (and its grace) are pending: everything acknowledged in time counts. No batch evaluates meanwhile, and
 * later ones see that the lists are closing.
 * @returns how many
 */
export const beginClosing = async (work: Work, projectId: string): Promise<number> => {
  const nowMs = work.now.getTime();
  const ripe = async () => isRipe(nowMs, await oldestWaiting(work, projectId));
  // Checked first without the lock: otherwise a long queue would block every batch once a second.
  const some = await sql`
    select 1 from leaderboard_periods where project_id = ${projectId} and ${await ripe()}
    limit 1`.execute(work.db);
  if (some.rows.length === 0) return 0;
  await changeConfig(work, projectId);
  const closing = await sql`
    update leaderboard_periods set status = 'CLOSING'
    where project_id = ${projectId} and ${await ripe()} returning 1`.execute(work.db);
  return closing.rows.length;
};

/** Returns lists whose final order and prizes are in progress. */
export const closingLists = async ({ db }: Work): Promise<PeriodOf[]> => {
  const found = await sql<{ project_id: string; id: string }>`
    select project_id, id ${CLOSING_LISTS}
    order by close_at limit ${DUE_MAX}`.execute(db);
  return found.rows.map(({ project_id, id }) => ({ projectId: project_id, periodId: id }));
};

/** Outcome of a step. NONE: another worker is processing the list, or it is closed. */
export type ClosingStep = { step: "MORE" | "NONE" } | { step: "CLOSED"; leaderboardId: string };

/**
 * Performs the next step of closing a list, and stores the progress in the same transaction: a chunk of the
 * final order, a page of prizes, or the end, which emits `leaderboard.period_closed` and, with the last list
 * of a breakdown's window, has its values ranked: see `stepRanking`.
 */
export const stepClosing = async (outer: Work, list: PeriodOf): Promise<ClosingStep> => {
  const { projectId, periodId } = list;
  // Before the list's row, as prizes need it: a change of definitions never waits for a list.
  await shareConfig(outer, [projectId]);
  const work = await inProjectTime(outer, projectId);
  const found = await sql<PeriodRow>`
    select * from leaderboard_periods
    where project_id = ${projectId} and id = ${periodId} and status = 'CLOSING'
    for update skip locked`.execute(work.db);
  const row = found.rows[0];
  if (!row) return { step: "NONE" };
  const leaderboard = await work.em.findOneOrFail(Leaderboard, { projectId, id: row.leaderboard_id });
  const closing = row.closing ?? closingOf(leaderboard.definition.ties);
  const prizes = prizesOf(row, leaderboard);
  const next = await advance(work, { row, leaderboard, prizes }, closing);
  if (!next.isDone) {
    await keepClosing(work, list, next.closing);
    return { step: "MORE" };
  }
  await finish(work, { row, leaderboard }, next.closing);
  return { step: "CLOSED", leaderboardId: leaderboard.id };
};

const advance = async (
  work: Work,
  given: Prizes,
  closing: Closing,
): Promise<{ closing: Closing; isDone: boolean }> => {
  if (closing.phase === "PRIZES") return givePrizes(work, given, closing);
  const { project_id: projectId, id: periodId } = given.row;
  const next = await writeResults(work, { projectId, periodId }, closing);
  const hasPrizes = given.prizes.length > 0 && next.count > 0;
  return { closing: next, isDone: next.phase === "PRIZES" && !hasPrizes };
};

const readTop = async ({ db }: Work, { project_id, id }: PeriodRow): Promise<FinalRank[]> => {
  const found = await sql<FinalRank>`
    select r.player_id as "playerId", p.external_user_id as "externalUserId",
      p.display_name as "displayName", r.rank, r.rank_score as score
    from leaderboard_results r join players p on p.project_id = r.project_id and p.id = r.player_id
    where r.project_id = ${project_id} and r.period_id = ${id} and r.position < ${TOP_MAX}
    order by r.position`.execute(db);
  return found.rows;
};

/** A merge moves places; one that was in progress while they were written could not see them. */
const followMerges = async (work: Work, { project_id, id, close_at }: PeriodRow): Promise<void> => {
  const { db, now, serverNow } = work;
  // Ids are of the server's time.
  const aheadMs = now.getTime() - serverNow.getTime();
  const sinceMs = close_at === null ? 0 : close_at.getTime() - aheadMs - CLOCKS_MS;
  await sql`
    update leaderboard_results r set player_id = p.merged_into
    from player_merges m join players p on p.project_id = m.project_id and p.id = m.source_id
    where m.project_id = ${project_id} and m.id >= ${idFloor(sinceMs)}::uuid
      and r.project_id = m.project_id and r.period_id = ${id} and r.player_id = p.id
      and p.merged_into is not null`.execute(db);
};

type Ended = { row: PeriodRow; leaderboard: Leaderboard };

const finish = async (work: Work, { row, leaderboard }: Ended, closing: Closing): Promise<void> => {
  await followMerges(work, row);
  const top = await readTop(work, row);
  const closedAt = work.now.toISOString();
  const [first] = top;
  await sql`
    update leaderboard_periods set status = 'CLOSED', closing = null, closed_at = ${closedAt}::timestamptz,
      participants = ${closing.count}, leader_id = ${first?.playerId ?? null}::uuid,
      leader_score = ${first?.score ?? null}::bigint
    where project_id = ${row.project_id} and id = ${row.id}`.execute(work.db);
  const board = boardOf(leaderboard);
  work.emit(row.project_id, "leaderboard.period_closed", {
    leaderboardKey: leaderboard.key,
    leaderboardId: leaderboard.id,
    periodKey: row.period_key,
    board: row.board,
    participants: closing.count,
    top: top.map((place): FinalRank => ({ ...place, score: fromRankScore(board, place.score) })),
    prizesGranted: closing.granted,
    promoted: 0,
    relegated: 0,
    closedAt,
  });
  await rankIfOver(work, leaderboard, row.period_key);
};
