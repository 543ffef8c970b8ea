import { sql } from "kysely";
import { z } from "zod";
import { Person } from "../../kernel/events/shapes.ts";
import { isOver, LIST_STATUSES } from "../board-list.ts";
import { audit } from "../../accounts/audit/audit.ts";
import { type ListStatus, windowAt } from "../../evaluation/boards/board.ts";
import { fromRankScore, isPlain, reachedUs } from "../../evaluation/boards/lists.ts";
import type { PeriodRef, RankStore } from "../../evaluation/boards/ranks.ts";
import { tenantOf } from "../../kernel/caller.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { offsetOf, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { changeConfig, countRows, type Total, type Transact, type Work } from "../../kernel/work.ts";
import { getLeaderboard, isFilled } from "../leaderboards.ts";
import { type Name, readNames } from "../live-list.ts";
import { openBoard } from "./open.ts";
import { type PeriodRow, PRIZE_STATUSES } from "./prizes.ts";
import { boardOf, type Leaderboard } from "../../progression/load-plan.ts";

type Reset = {
  leaderboard: Leaderboard;
  /** Number of lists that it closes, one for each value of the breakdown. */
  closing: number;
};

/**
 * Closes a board's open lists and starts over at once: the previous lists close with their final order, with
 * prizes on request, and scores from before count as late from now on. No batch evaluates meanwhile, and
 * resets run one after another, each completely.
 * @throws DomainError NOT_FOUND; CONFLICT: LEADERBOARD_ARCHIVED, SHOWS_TOTALS
 */
export const resetLeaderboard = async (
  work: Work,
  projectId: string,
  { ref, awardPrizes, reason }: { ref: string; awardPrizes: boolean; reason?: string | undefined },
): Promise<Reset> => {
  await changeConfig(work, projectId);
  const leaderboard = await getLeaderboard(work, projectId, ref);
  if (leaderboard.status === "ARCHIVED")
    throw conflict("LEADERBOARD_ARCHIVED", "the leaderboard is archived");
  // Its scores are the players' XP, before a reset as after it.
  if (isFilled(leaderboard.definition))
    throw conflict(
      "SHOWS_TOTALS",
      "it shows the XP that players have in total, which a reset would not change",
    );
  const closing = await endLists(work, leaderboard, awardPrizes);
  leaderboard.periodId = newId();
  leaderboard.resets++;
  leaderboard.resetAt = work.now;
  leaderboard.version++;
  leaderboard.updatedAt = work.now;
  await openBoard(work, leaderboard);
  await auditReset(work, leaderboard, { awardPrizes, ...(reason === undefined ? {} : { reason }) });
  return { leaderboard, closing };
};

const auditReset = async (work: Work, { projectId, id, key }: Leaderboard, data: Json): Promise<void> => {
  // The server's own actions have no actor.
  if (!work.by) return;
  await audit(work, {
    action: "leaderboard.reset",
    target: { type: "leaderboard", id },
    tenantId: tenantOf(work.by.caller),
    data: { projectId, key, ...data },
  });
};

/** The only list of an ALL_TIME board has no row before it closes, unless the sweep has created one. */
const endLists = async (
  { db, now }: Work,
  { projectId, id, definition, periodId, resets, resetAt, createdAt }: Leaderboard,
  awardPrizes: boolean,
): Promise<number> => {
  const time = sql`${now.toISOString()}::timestamptz`;
  const since = sql`${(resetAt ?? createdAt).toISOString()}::timestamptz`;
  const { key } = windowAt({ period: definition.period, resets }, now.getTime()) ?? {};
  if (isPlain(definition))
    await sql`
      insert into leaderboard_periods
        (project_id, id, leaderboard_id, period_key, is_told, created_at, written_at)
      values (${projectId}, ${periodId}, ${id}, ${key!}, true, ${time}, ${time})
      on conflict (project_id, leaderboard_id, period_key, board) do update set id = excluded.id`.execute(db);
  const closed = await sql`
    update leaderboard_periods set status = 'CLOSING', close_at = ${time},
      starts_at = coalesce(starts_at, ${since}), ends_at = least(coalesce(ends_at, ${time}), ${time}),
      grants_prizes = grants_prizes and ${awardPrizes}
    where project_id = ${projectId} and leaderboard_id = ${id} and status = 'OPEN' returning 1`.execute(db);
  return closed.rows.length;
};

const RankedPlayerBody = Person.extend({
  avatarUrl: z.string().nullable(),
})
  .nullable()
  .meta({ description: "null for players who are banned, deleted or erased by now" });
type RankedPlayer = z.output<typeof RankedPlayerBody>;

export const WindowKey = z.string().min(1).max(64).meta({ example: "2026-W02" });
export const BOARD = "The value of the breakdown; empty without one";

/** A list of a board: one window, and one value of its breakdown. */
export const PeriodBody = z
  .object({
    id: z.uuid(),
    key: WindowKey,
    board: z.string().meta({ description: BOARD }),
    status: z.enum(LIST_STATUSES),
    startsAt: z.iso.datetime().nullable().meta({ description: "null: as old as the leaderboard" }),
    endsAt: z.iso.datetime().nullable(),
    closedAt: z.iso.datetime().nullable(),
    participants: z.int(),
    leader: z.object({ player: RankedPlayerBody, score: z.number() }).nullable(),
  })
  .meta({ id: "LeaderboardPeriod" });
type BoardPeriod = z.output<typeof PeriodBody>;

const rankedPlayerOf = (names: ReadonlyMap<string, Name>, playerId: string): RankedPlayer => {
  const name = names.get(playerId);
  return name ? { playerId, ...name } : null;
};

/** Number of a list's participants, and its leader with the score as in entries. */
type Head = { participants: number; leader: { playerId: string; rankScore: number } | null };

const closedHead = ({ participants, leader_id, leader_score }: PeriodRow): Head => ({
  participants,
  leader:
    leader_id === null || leader_score === null ? null : { playerId: leader_id, rankScore: leader_score },
});

type Shown = { head: Head; names: ReadonlyMap<string, Name> };

const show = (leaderboard: Leaderboard, row: PeriodRow, { head, names }: Shown): BoardPeriod => ({
  id: row.id,
  key: row.period_key,
  board: row.board,
  status: row.status,
  startsAt: isoOf(row.starts_at),
  endsAt: isoOf(row.ends_at),
  closedAt: isoOf(row.closed_at),
  participants: head.participants,
  leader: head.leader && {
    player: rankedPlayerOf(names, head.leader.playerId),
    score: fromRankScore(boardOf(leaderboard), head.leader.rankScore),
  },
});

/** Orders of the list. */
export const PERIOD_ORDERS = { by: { startsAt: "startsAt" }, usual: "desc" } as const;

/** By the start; ALL_TIME periods, which have none, are the newest. */
const PERIOD_ORDER = {
  asc: sql`starts_at asc nulls last, period_key asc, board desc, id desc`,
  desc: sql`starts_at desc nulls first, period_key desc, board, id`,
};

type ListPeriods = PageQuery &
  Ordered<SortOf<typeof PERIOD_ORDERS>> & { status?: ListStatus | undefined; board?: string | undefined };

const findRows = async (
  work: Work,
  { projectId, id }: Leaderboard,
  query: ListPeriods,
): Promise<Total & { rows: PeriodRow[] }> => {
  const { status = null, board = null } = query;
  const source = sql`leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id}
      and (${status}::text is null or status = ${status}) and (${board}::text is null or board = ${board})`;
  const page = await sql<PeriodRow>`
    select * from ${source} order by ${PERIOD_ORDER[query.order ?? PERIOD_ORDERS.usual]}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { rows: page.rows, ...(await countRows(work, source)) };
};

const refOf = ({ projectId, definition: { ties } }: Leaderboard, periodId: string): PeriodRef => ({
  projectId,
  periodId,
  ties,
});

type PeriodParts = { transact: Transact; ranks: RankStore };

/**
 * Lists a board's periods by their start, newest first. Open ones are counted in the rank index.
 * @throws DomainError NOT_FOUND; SERVICE_UNAVAILABLE while the index is being built
 */
export const readPeriods = async (
  { transact, ranks }: PeriodParts,
  projectId: string,
  { ref, ...query }: ListPeriods & { ref: string },
): Promise<Total & { periods: BoardPeriod[] }> => {
  const { leaderboard, rows, ...total } = await transact(async (work) => {
    const found = await getLeaderboard(work, projectId, ref);
    return { leaderboard: found, ...(await findRows(work, found, query)) };
  });
  const heads: Head[] = [];
  for (const row of rows) {
    if (isOver(row)) heads.push(closedHead(row));
    else {
      const page = await ranks.page(refOf(leaderboard, row.id), 0, 1);
      heads.push({ participants: page.total, leader: page.standings[0] ?? null });
    }
  }
  const leaders = heads.flatMap(({ leader }) => leader ?? []);
  const names = await transact((work) => readNames(work, projectId, leaders));
  return {
    periods: rows.map((row, i) => show(leaderboard, row, { head: heads[i]!, names })),
    ...total,
  };
};

/** A place of a closed list. */
export const PlaceBody = z
  .object({
    rank: z.int(),
    player: RankedPlayerBody,
    score: z.number(),
    reachedAt: z.iso.datetime(),
    prize: z
      .object({
        prize: z.int().meta({ description: "Which of the leaderboard's prizes, from 0" }),
        status: z.enum(PRIZE_STATUSES).meta({
          description: "WAITING: to be claimed; CANCELLED: the player was suspended",
        }),
      })
      .nullable(),
  })
  .meta({ id: "LeaderboardResult" });
type FinalEntry = z.output<typeof PlaceBody>;

type PlaceRow = {
  player_id: string;
  rank: number;
  rank_score: number;
  rank_tie: number;
  prize: FinalEntry["prize"];
};

type ResultsQuery = PageQuery & { ref: string; periodKey: string; board: string };
type Results = { leaderboardKey: string; period: BoardPeriod; places: FinalEntry[] };

/**
 * Reads a page of a closed list's final order. Places of hidden players stay, without a name.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE before it is closed
 */
export const readResults = async (work: Work, projectId: string, query: ResultsQuery): Promise<Results> => {
  const leaderboard = await getLeaderboard(work, projectId, query.ref);
  const found = await sql<PeriodRow>`
    select * from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${leaderboard.id}
      and period_key = ${query.periodKey} and board = ${query.board}`.execute(work.db);
  const row = found.rows[0];
  if (!row) throw notFound("period");
  if (!isOver(row)) throw conflict("INVALID_STATE", `the period is ${row.status} and has no results yet`);
  const first = offsetOf(query);
  const { rows } = await sql<PlaceRow>`
    select player_id, rank, rank_score, rank_tie, prize from leaderboard_results
    where project_id = ${projectId} and period_id = ${row.id}
      and position >= ${first} and position < ${first + query.limit}
    order by position`.execute(work.db);
  const head = closedHead(row);
  const shown = [...rows.map((place) => place.player_id), ...(head.leader ? [head.leader.playerId] : [])];
  const names = await readNames(
    work,
    projectId,
    shown.map((playerId) => ({ playerId })),
  );
  const board = boardOf(leaderboard);
  const places = rows.map((place): FinalEntry => ({
    rank: place.rank,
    player: rankedPlayerOf(names, place.player_id),
    score: fromRankScore(board, place.rank_score),
    reachedAt: new Date(Math.floor(reachedUs(board, place.rank_tie) / 1_000)).toISOString(),
    prize: place.prize,
  }));
  return { leaderboardKey: leaderboard.key, period: show(leaderboard, row, { head, names }), places };
};

/** Maximum number of open lists of a board that one rebuild reads again. */
export const REBUILD_LISTS_MAX = 1_000;

/**
 * Returns the lists of a board whose rankings are read from the index, because they are not closed. @throws
 * DomainError NOT_FOUND
 */
export const openListsOf = async (work: Work, projectId: string, ref: string): Promise<PeriodRef[]> => {
  const leaderboard = await getLeaderboard(work, projectId, ref);
  const { id, definition, periodId } = leaderboard;
  const found = await sql<{ id: string }>`
    select id from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id} and status in ('OPEN', 'CLOSING')
    order by written_at desc limit ${REBUILD_LISTS_MAX}`.execute(work.db);
  // That of an ALL_TIME board may have no row yet.
  const ids = new Set([...(isPlain(definition) ? [periodId] : []), ...found.rows.map((row) => row.id)]);
  return [...ids].map((one) => refOf(leaderboard, one));
};
