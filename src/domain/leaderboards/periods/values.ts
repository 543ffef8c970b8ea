import { type RawBuilder, sql } from "kysely";
import { breakdownNameOf } from "../../evaluation/boards/lists.ts";
import { shareConfig, type Work } from "../../kernel/work.ts";
import { Leaderboard } from "../../progression/load-plan.ts";
import { rankTallies, usualMeasure, type ValueTally } from "../value-ranks.ts";
import type { PeriodOf } from "./prizes.ts";

/** Number of values named in `leaderboard.values_ranked`. */
const TOP_MAX = 10;
/** Number of places that one step adds up. */
export const TALLIED_PLACES = 20_000;
/** Maximum number of windows per sweep. */
const WINDOWS_MAX = 1_000;

/** Progress of ranking the values of a window: lists are added up by their ids, each by its places. */
type Ranking = {
  /** When the last list of the window was closed. */
  closedAt: string;
  /** The list, and the position in it, from which the next step goes on. */
  next?: { list: string; position: number };
  tallies: ValueTally[];
};

const RANKINGS = sql`from leaderboard_periods where ranking is not null`;

/** Whether the values of a window are being ranked. */
export const areValuesRanked = (): RawBuilder<unknown> => sql`exists (select ${RANKINGS})`;

/** Returns windows whose values are being ranked, of all projects or one. */
export const windowsToRank = async ({ db }: Work, projectId?: string): Promise<PeriodOf[]> => {
  const within = projectId === undefined ? sql`` : sql`and project_id = ${projectId}::uuid`;
  const found = await sql<PeriodOf>`
    select project_id as "projectId", id as "periodId" ${RANKINGS} ${within}
    order by close_at limit ${WINDOWS_MAX}`.execute(db);
  return found.rows;
};

/**
 * Returns the window's own list, which each has that was opened on time, if all lists of the window are over.
 * It is locked: of two lists that close at once, the later one sees the other. No value is added to a window
 * that is over.
 */
const findOver = async (
  { db }: Work,
  { projectId, id }: Leaderboard,
  key: string,
): Promise<string | undefined> => {
  const own = await sql<{ id: string }>`
    select id from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id} and period_key = ${key} and board = ''
    for update`.execute(db);
  if (!own.rows[0]) return undefined;
  const open = await sql`
    select 1 from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id} and period_key = ${key}
      and status in ('OPEN', 'CLOSING') limit 1`.execute(db);
  return open.rows.length === 0 ? own.rows[0].id : undefined;
};

const keep = async (
  { db }: Work,
  { projectId, periodId }: PeriodOf,
  ranking: Ranking | null,
): Promise<void> => {
  await sql`
    update leaderboard_periods set ranking = ${ranking && JSON.stringify(ranking)}::jsonb
    where project_id = ${projectId} and id = ${periodId}`.execute(db);
};

/**
 * Has the values of a breakdown ranked once the last list of the window is closed; nothing for imported
 * windows. To be called when a list was closed.
 */
export const rankIfOver = async (work: Work, leaderboard: Leaderboard, key: string): Promise<void> => {
  if (breakdownNameOf(leaderboard.definition) === undefined) return;
  const periodId = await findOver(work, leaderboard, key);
  if (periodId === undefined) return;
  const { projectId } = leaderboard;
  await keep(work, { projectId, periodId }, { closedAt: work.now.toISOString(), tallies: [] });
};

type List = { id: string; board: string; places: number };

/** Reads the lists of a window from one on, by id, which are as many as a breakdown may have. */
const readLists = async (
  { db }: Work,
  { project_id, leaderboard_id, period_key }: Window,
  from: string | undefined,
): Promise<List[]> => {
  const found = await sql<List>`
    select id, board, participants as places from leaderboard_periods
    where project_id = ${project_id} and leaderboard_id = ${leaderboard_id} and period_key = ${period_key}
      and board <> '' and participants > 0 and (${from ?? null}::uuid is null or id >= ${from ?? null}::uuid)
    order by id`.execute(db);
  return found.rows;
};

/** Places of a list: positions from `f` on and before `u`. */
type Piece = { l: string; b: string; f: number; u: number };

/** Divides what is left of the lists into the pieces of this step, and where the next one begins. */
const piecesOf = (
  lists: readonly List[],
  { next }: Ranking,
  max: number,
): { pieces: Piece[]; next: Ranking["next"] } => {
  const pieces: Piece[] = [];
  let left = max;
  for (const { id, board, places } of lists) {
    const from = id === next?.list ? next.position : 0;
    if (left === 0) return { pieces, next: { list: id, position: from } };
    const until = Math.min(places, from + left);
    pieces.push({ l: id, b: board, f: from, u: until });
    left -= until - from;
    if (until < places) return { pieces, next: { list: id, position: until } };
  }
  return { pieces, next: undefined };
};

/** A place of a player who was merged, and has a better one in the same list, is no other player's. */
const IS_AGAIN = sql`exists (
  select from leaderboard_results o
  where o.project_id = r.project_id and o.player_id = r.player_id and o.period_id = r.period_id
    and o.position < r.position)`;

/** Adds up places of lists. */
const tally = async ({ db }: Work, projectId: string, pieces: readonly Piece[]): Promise<ValueTally[]> => {
  const found = await sql<ValueTally>`
    select x.b as value, count(*) filter (where not ${IS_AGAIN})::text as players,
      sum(r.rank_score)::text as total, min(r.rank_score)::text as best
    from json_to_recordset(${JSON.stringify(pieces)}::json) as x(l uuid, b text, f bigint, u bigint)
    join leaderboard_results r on r.project_id = ${projectId} and r.period_id = x.l
      and r.position >= x.f and r.position < x.u
    group by x.b`.execute(db);
  return found.rows;
};

const added = (one: ValueTally, other: ValueTally): ValueTally => {
  const [best, more] = [BigInt(one.best), BigInt(other.best)];
  return {
    value: one.value,
    players: String(BigInt(one.players) + BigInt(other.players)),
    total: String(BigInt(one.total) + BigInt(other.total)),
    best: String(best < more ? best : more),
  };
};

/** Adds the tallies of a step; its first list may be one of which the last step had a part. */
const withTallies = (before: readonly ValueTally[], more: readonly ValueTally[]): ValueTally[] => {
  const all = new Map(before.map((one) => [one.value, one]));
  for (const one of more) {
    const known = all.get(one.value);
    all.set(one.value, known ? added(known, one) : one);
  }
  return [...all.values()];
};

type Window = { project_id: string; leaderboard_id: string; period_key: string; ranking: Ranking };

/**
 * Does the next step of ranking the values of a window, and stores the progress in the same transaction: adds
 * up some places, or emits `leaderboard.values_ranked` with the values in their final order; nothing where
 * nobody has scored.
 * @returns whether there is more to do; BUSY where another worker does it
 */
export const stepRanking = async (
  work: Work,
  of: PeriodOf,
  places = TALLIED_PLACES,
): Promise<"MORE" | "DONE" | "BUSY"> => {
  const { projectId, periodId } = of;
  await shareConfig(work, [projectId]);
  const found = await sql<Window>`
    select project_id, leaderboard_id, period_key, ranking from leaderboard_periods
    where project_id = ${projectId} and id = ${periodId} and ranking is not null
    for update skip locked`.execute(work.db);
  const window = found.rows[0];
  if (!window) return "BUSY";
  const { ranking } = window;
  const lists = await readLists(work, window, ranking.next?.list);
  const { pieces, next } = piecesOf(lists, ranking, places);
  const tallies = withTallies(
    ranking.tallies,
    pieces.length === 0 ? [] : await tally(work, projectId, pieces),
  );
  if (next) {
    await keep(work, of, { ...ranking, next, tallies });
    return "MORE";
  }
  await keep(work, of, null);
  if (tallies.length > 0) await tell(work, window, { ...ranking, tallies });
  return "DONE";
};

const tell = async (
  work: Work,
  { project_id: projectId, leaderboard_id: id, period_key: periodKey }: Window,
  { tallies, closedAt }: Ranking,
): Promise<void> => {
  const leaderboard = await work.em.findOneOrFail(Leaderboard, { projectId, id });
  const by = usualMeasure(leaderboard);
  const values = await rankTallies(work, leaderboard, { by, tallies });
  work.emit(projectId, "leaderboard.values_ranked", {
    leaderboardKey: leaderboard.key,
    leaderboardId: id,
    periodKey,
    by,
    values: values.length,
    top: values.slice(0, TOP_MAX),
    closedAt,
  });
};
