import { sql } from "kysely";
import type { ListStatus } from "../../evaluation/boards/board.ts";
import type { Definition, Prize } from "../../evaluation/boards/definition.ts";
import { keepPeriodsOf } from "../../evaluation/boards/period.ts";
import type { Ties } from "../../evaluation/boards/ranks.ts";
import { sendMessage } from "../../evaluation/inbox/send.ts";
import { isEmptyBundle, type RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { grantBundle, publishReward } from "../../evaluation/rewards/shared-keys.ts";
import { type Turn, write } from "../../evaluation/turn.ts";
import { newId } from "../../kernel/ids.ts";
import { throwUnlessOwn } from "../../kernel/outages.ts";
import { savepoint, type Work } from "../../kernel/work.ts";
import { changePlayers } from "../../progression/change.ts";
import { Leaderboard } from "../../progression/load-plan.ts";
import { fittingPlayers } from "../../progression/load-states.ts";

/** An entry's position in storage order; the player id is the final tie-breaker. */
export type EntryPosition = { player_id: string; rank_score: number; rank_tie: number };

/** Progress of closing a list: first the final order is written, then prizes are given. */
export type Closing = {
  phase: "RESULTS" | "PRIZES";
  /** As they were when closing began: all chunks must be ranked alike. */
  ties: Ties;
  /** The last entry that was read; null before the first. */
  after: EntryPosition | null;
  /** Number of written places. */
  count: number;
  /** Rank of the last written place. */
  rank: number;
  rankScore: number | null;
  /** The next position that may win. */
  position: number;
  granted: number;
};

/** A list of entries: one window of a board, and one value of its breakdown. */
export type PeriodRow = {
  project_id: string;
  id: string;
  leaderboard_id: string;
  period_key: string;
  board: string;
  starts_at: Date | null;
  ends_at: Date | null;
  close_at: Date | null;
  status: ListStatus;
  is_late: boolean;
  grants_prizes: boolean;
  participants: number;
  leader_id: string | null;
  /** As stored in entries. */
  leader_score: number | null;
  closed_at: Date | null;
  closing: Closing | null;
};

export type PeriodOf = { projectId: string; periodId: string };

/** Stores the progress of closing a list. */
export const keepClosing = async (
  { db }: Work,
  { projectId, periodId }: PeriodOf,
  closing: Closing,
): Promise<void> => {
  await sql`
    update leaderboard_periods set closing = ${JSON.stringify(closing)}::json
    where project_id = ${projectId} and id = ${periodId}`.execute(db);
};

/** Maximum number of entries deleted per step. */
const ARCHIVE_CHUNK = 10_000;

export type BoardOf = { projectId: string; leaderboardId: string };

/**
 * Returns the oldest closed list of a board beyond the windows that it keeps, if there is one: its entries are
 * to be deleted, its results stay.
 */
export const listToArchive = async (
  work: Work,
  { projectId, leaderboardId }: BoardOf,
): Promise<PeriodOf | undefined> => {
  const leaderboard = await work.em.findOneOrFail(Leaderboard, { projectId, id: leaderboardId });
  const kept = keepPeriodsOf(leaderboard.definition.period);
  const found = await sql<{ id: string }>`
    select id from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${leaderboardId} and status = 'CLOSED'
      and starts_at <= (
        select starts_at from leaderboard_periods
        where project_id = ${projectId} and leaderboard_id = ${leaderboardId} and status = 'CLOSED'
        group by starts_at order by starts_at desc nulls last offset ${kept} limit 1)
    order by starts_at limit 1`.execute(work.db);
  const [list] = found.rows;
  return list && { projectId, periodId: list.id };
};

/** Deletes some of a closed list's entries. @returns whether there may be more */
export const deleteChunk = async ({ db }: Work, { projectId, periodId }: PeriodOf): Promise<boolean> => {
  const ofList = sql`project_id = ${projectId} and period_id = ${periodId}`;
  for (const table of ["leaderboard_entries", "leaderboard_notices"]) {
    const gone = await sql`
      delete from ${sql.table(table)} where ctid = any(array(
        select ctid from ${sql.table(table)} where ${ofList} limit ${ARCHIVE_CHUNK}))
      and ${ofList} returning 1`.execute(db);
    if (gone.rows.length === ARCHIVE_CHUNK) return true;
  }
  return false;
};

/** Must be called when none of its entries is left. */
export const markArchived = async ({ db }: Work, { projectId, periodId }: PeriodOf): Promise<void> => {
  await sql`
    update leaderboard_periods set status = 'ARCHIVED'
    where project_id = ${projectId} and id = ${periodId} and status = 'CLOSED'`.execute(db);
};

/** Number of places per step. */
const PRIZES_PAGE = 200;

/** Returns the prize of a place: the first of the list that matches it. Percents are of all places. */
const prizeOf = (prizes: readonly Prize[], rank: number, participants: number): number | undefined => {
  const percent = (100 * rank) / participants;
  const index = prizes.findIndex(({ from, to, by }) =>
    by === "RANK" ? from <= rank && rank <= to : from < percent && percent <= to,
  );
  return index < 0 ? undefined : index;
};

/** Returns the last rank that may win. */
const lastRank = (prizes: readonly Prize[], participants: number): number =>
  Math.max(...prizes.map(({ to, by }) => (by === "RANK" ? to : (to * participants) / 100)));

/** Returns the prizes of a list; empty when it gives none. */
export const prizesOf = (row: PeriodRow, { status, definition }: Leaderboard): readonly Prize[] => {
  const gives = row.grants_prizes && (!row.is_late || definition.prizesForLate) && status !== "ARCHIVED";
  return gives ? (definition.prizes ?? []) : [];
};

type ResultRow = {
  position: number;
  rank: number;
  player_id: string;
  has_prize: boolean;
};

type Winner = { position: number; rank: number; playerId: string; prize: number; rewards: RewardBundle };

/** Status of a prize. CANCELLED: its player is suspended, or has a better place in the same list. */
export const PRIZE_STATUSES = ["GRANTED", "WAITING", "CANCELLED", "FAILED"] as const;
type PrizeStatus = (typeof PRIZE_STATUSES)[number];

export type Prizes = { row: PeriodRow; leaderboard: Leaderboard; prizes: readonly Prize[] };

/**
 * Gives the prizes of the next places, each in one commit with the mark on its place, so that it is given
 * once. A prize that cannot be given is marked so and does not hold up the others.
 */
export const givePrizes = async (
  work: Work,
  { row, leaderboard, prizes }: Prizes,
  closing: Closing,
): Promise<{ closing: Closing; isDone: boolean }> => {
  const places = await readPlaces(work, row, closing.position);
  const cap = lastRank(prizes, closing.count);
  const all = firstPlaces(places).flatMap(({ position, rank, player_id }): Winner[] => {
    const prize = prizeOf(prizes, rank, closing.count);
    if (prize === undefined || isEmptyBundle(prizes[prize]!.rewards)) return [];
    const { rewards } = prizes[prize]!;
    return [{ position, rank, playerId: player_id, prize, rewards }];
  });
  const ids = all.map(({ playerId }) => playerId);
  const { length: fitting } = await fittingPlayers(work, row.project_id, ids);
  const winners = all.slice(0, fitting);
  const upTo = all[fitting]?.position ?? Infinity;
  const page = places.filter(({ position }) => position < upTo);
  const giving = { row, leaderboard };
  const given =
    winners.length === 0
      ? []
      : await savepoint(work, () => giveTo(work, giving, winners)).catch((error: unknown) => {
          throwUnlessOwn(error);
          return giveEach(work, giving, winners);
        });
  await markPlaces(work, row, given);
  const last = page.at(-1);
  return {
    closing: {
      ...closing,
      position: closing.position + page.length,
      granted: closing.granted + given.filter(({ s }) => s === "GRANTED" || s === "WAITING").length,
    },
    isDone: (places.length < PRIZES_PAGE && upTo === Infinity) || last!.rank > cap,
  };
};

/** A player who was merged with another may have two places: the better one wins. */
const firstPlaces = (page: readonly ResultRow[]): ResultRow[] => {
  const seen = new Set<string>();
  return page.filter(({ player_id, has_prize }) => {
    const isFirst = !seen.has(player_id) && !has_prize;
    seen.add(player_id);
    return isFirst;
  });
};

/** Players who were merged while the places were written are replaced by the merged player. */
const readPlaces = async ({ db }: Work, row: PeriodRow, position: number): Promise<ResultRow[]> => {
  const found = await sql<ResultRow>`
    select r.position, r.rank, w.player_id, exists (
      select 1 from leaderboard_results o
      where o.project_id = r.project_id and o.period_id = r.period_id and o.player_id = w.player_id
        and o.prize is not null) as has_prize
    from leaderboard_results r
    join players p on p.project_id = r.project_id and p.id = r.player_id
    cross join lateral (select coalesce(p.merged_into, p.id) as player_id) w
    where r.project_id = ${row.project_id} and r.period_id = ${row.id} and r.position >= ${position}
    order by r.position limit ${PRIZES_PAGE}`.execute(db);
  return found.rows;
};

type Giving = { row: PeriodRow; leaderboard: Leaderboard };
/** The mark on a place: position, index of the prize, status. */
type Mark = { n: number; i: number; s: PrizeStatus };

/** Thrown when a winner was merged since the places were read: the step is repeated. */
class WinnerMerged extends Error {}

/** @throws WinnerMerged */
const giveTo = async (work: Work, giving: Giving, winners: readonly Winner[]): Promise<Mark[]> => {
  const byId = new Map(winners.map((winner) => [winner.playerId, winner]));
  const changed = await changePlayers(work, giving.row.project_id, [...byId.keys()], (turn): Mark => {
    const winner = byId.get(turn.player.id);
    if (!winner) throw new WinnerMerged("a winner was merged meanwhile");
    return { n: winner.position, i: winner.prize, s: giveOne(turn, giving, winner) };
  });
  return changed.map(({ value }) => value);
};

const giveEach = async (work: Work, giving: Giving, winners: readonly Winner[]): Promise<Mark[]> => {
  const marks: Mark[] = [];
  for (const winner of winners) {
    const failed: Mark = { n: winner.position, i: winner.prize, s: "FAILED" };
    try {
      marks.push(...(await savepoint(work, () => giveTo(work, giving, [winner]))));
    } catch (error) {
      if (error instanceof WinnerMerged) throw error;
      throwUnlessOwn(error);
      marks.push(failed);
    }
  }
  return marks;
};

const giveOne = (turn: Turn, { row, leaderboard }: Giving, winner: Winner): PrizeStatus => {
  const { player } = turn;
  if (player.status !== "ACTIVE") return "CANCELLED";
  const cause = { kind: "LEADERBOARD" as const, refKey: leaderboard.key, refId: row.id };
  const key = `lb:${row.id}:${player.id}`;
  const { prizeClaim }: Pick<Definition, "prizeClaim"> = leaderboard.definition;
  if (prizeClaim === "AUTO") {
    grantBundle(turn, { bundle: winner.rewards, cause, key, reason: `leaderboard:${leaderboard.key}` });
    return "GRANTED";
  }
  const grant = {
    id: newId(),
    projectId: player.projectId,
    playerId: player.id,
    // No key of the catalogue contains a colon.
    rewardKey: `leaderboard:${leaderboard.key}`,
    quantity: 1,
    status: "PENDING" as const,
    key,
    contents: winner.rewards,
    cause,
    eventId: null,
    expiresMs: null,
  };
  write(turn, "rewardGrants", grant);
  publishReward(turn, grant, { kind: "BUNDLE", code: null });
  sendMessage(turn, {
    type: "leaderboard.prize",
    title: `${leaderboard.name}: place ${winner.rank}`,
    body: null,
    data: {
      leaderboardKey: leaderboard.key,
      periodKey: row.period_key,
      board: row.board,
      rank: winner.rank,
    },
    rewardGrantId: grant.id,
    expiresMs: null,
  });
  return "WAITING";
};

const markPlaces = async ({ db }: Work, row: PeriodRow, marks: readonly Mark[]): Promise<void> => {
  if (marks.length === 0) return;
  await sql`
    update leaderboard_results t set prize = json_build_object('prize', x.i, 'status', x.s)
    from json_to_recordset(${JSON.stringify(marks)}::json) as x(n bigint, i int, s text)
    where t.project_id = ${row.project_id} and t.period_id = ${row.id} and t.position = x.n`.execute(db);
};
