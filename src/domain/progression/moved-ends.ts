import { type RawBuilder, sql } from "kysely";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import { NIL_ID } from "../kernel/ids.ts";
import { throwUnlessOwn } from "../kernel/outages.ts";
import { savepoint, shareConfig, type Work } from "../kernel/work.ts";
import { changePlayers } from "./change.ts";
import { planOf } from "./plan.ts";

export type PlayersOf = { projectId: string; playerIds: readonly string[] };

/**
 * Changes those of a project's players that no other transaction has locked, as a sweep does for all players
 * with something due. Players passed over are found by the next sweep.
 * @param prepare runs once the players are locked, before they are read
 */
export const changeFreePlayers = async <P = undefined>(
  work: Work,
  { projectId, playerIds }: PlayersOf,
  change: (turn: PlanTurn, prepared: P) => void,
  prepare?: (playerIds: readonly string[]) => Promise<P>,
): Promise<void> => {
  // In the lock order of batches.
  await shareConfig(work, [projectId]);
  const free = await lockFree(work, projectId, playerIds);
  if (free.length === 0) return;
  const prepared = (await prepare?.(free)) as P;
  await changePlayers(work, projectId, free, (turn) => change(turn, prepared));
};

/** Locks players by id, skipping those locked by other transactions. */
const lockFree = async ({ db }: Work, projectId: string, playerIds: readonly string[]): Promise<string[]> => {
  const locked = await sql<{ id: string }>`
    select id from players
    where project_id = ${projectId} and id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and merged_into is null
    order by id for update skip locked`.execute(db);
  return locked.rows.map(({ id }) => id);
};

/** A player with something due, and its position in the page order. */
export type Due = { at: string; projectId: string; playerId: string };

/** Players per page. */
export const DUE_PAGE = 200;

const BEGINNING: Due = {
  at: "-infinity",
  projectId: NIL_ID,
  playerId: NIL_ID,
};

/**
 * Rows of players in `table` are due when `column` (default `expires_at`) has passed; it has an index on
 * (column, project_id, player_id). `where`: the predicate of that index.
 */
export type DueRows = { table: string; column?: string; where?: RawBuilder<unknown> };

const columnOf = ({ column = "expires_at" }: DueRows): RawBuilder<unknown> => sql.ref(column);

const fromDue = (due: DueRows, now: Date): RawBuilder<unknown> => sql`
  from ${sql.ref(due.table)}
  where ${due.where ?? sql`true`} and ${columnOf(due)} <= ${now.toISOString()}::timestamptz`;

/** Returns the condition that a player of any project has such a row. */
export const arePlayersDue =
  (due: DueRows) =>
  (now: Date): RawBuilder<unknown> =>
    sql`exists (select ${fromDue(due, now)})`;

/** Finds the next players, of any project, with such a row. */
export const findDue = async ({ db, now }: Work, due: DueRows, after: Due = BEGINNING): Promise<Due[]> => {
  const at = columnOf(due);
  const { rows } = await sql<Due>`
    select ${at}::text as at, project_id as "projectId", player_id as "playerId" ${fromDue(due, now)}
      and (${at}, project_id, player_id)
        > (${after.at}::timestamptz, ${after.projectId}::uuid, ${after.playerId}::uuid)
    group by ${at}, project_id, player_id
    order by ${at}, project_id, player_id limit ${DUE_PAGE}`.execute(db);
  return rows;
};

const ofProject = (due: DueRows, projectId: string, now: Date): RawBuilder<unknown> =>
  sql`${fromDue(due, now)} and project_id = ${projectId}::uuid`;

/** Finds the first players of one project with such a row. */
export const findDueOf = async (
  { db, now }: Work,
  due: DueRows,
  projectId: string,
): Promise<{ playerIds: string[]; rows: number }> => {
  const { rows } = await sql<{ id: string; n: number }>`
    select player_id as id, count(*) as n ${ofProject(due, projectId, now)}
    group by player_id order by min(${columnOf(due)}), player_id limit ${DUE_PAGE}`.execute(db);
  return { playerIds: rows.map(({ id }) => id), rows: rows.reduce((sum, { n }) => sum + n, 0) };
};

/** Counts such rows of some players of one project. */
export const countDueOf = async (
  { db, now }: Work,
  due: DueRows,
  { projectId, playerIds }: { projectId: string; playerIds: readonly string[] },
): Promise<number> => {
  const { rows } = await sql<{ n: number }>`
    select count(*) as n ${ofProject(due, projectId, now)}
      and player_id = any(${`{${playerIds.join(",")}}`}::uuid[])`.execute(db);
  return rows[0]!.n;
};

/** Selects the times at which such rows of one project are due. */
export const dueTimesOf = (due: DueRows, projectId: string): RawBuilder<unknown> => sql`
  select ${columnOf(due)} as due_at from ${sql.ref(due.table)}
  where ${due.where ?? sql`true`} and project_id = ${projectId}::uuid`;

/** Groups a page by project: the players of one project are changed in one transaction. */
export const byProject = (page: readonly Due[]): Map<string, string[]> => {
  const groups = Map.groupBy(page, ({ projectId }) => projectId);
  return new Map([...groups].map(([id, own]) => [id, [...new Set(own.map(({ playerId }) => playerId))]]));
};

/** The rows of a table with a time at which something is due. */
export const dueIn = (table: "player_quests" | "player_adventures" | "player_streaks") =>
  ({ table, column: "due_at", where: sql`due_at is not null` }) as const;

/**
 * Changes players of whom such rows are due, and clears what is due of those who were merged into another, or
 * erased: they are not changed any more.
 */
export const settleDueRows = async (
  work: Work,
  { table }: ReturnType<typeof dueIn>,
  players: PlayersOf,
  change: (turn: PlanTurn) => void,
): Promise<void> => {
  await changeFreePlayers(work, players, change);
  const { projectId, playerIds } = players;
  await sql`
    update ${sql.table(table)} s set due_at = null from players p
    where s.project_id = ${projectId} and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and s.due_at is not null and p.project_id = s.project_id and p.id = s.player_id
      and (p.merged_into is not null or p.status = 'ERASED')`.execute(work.db);
};

/** Rows looked at in one transaction. */
export const ENDS_PAGE = 1_000;
/** Maximum number of definitions that one sweep follows. */
const DEFINITIONS_MAX = 1_000;

/**
 * When what players do of a definition, and what waits to be claimed, is over, in ms; Infinity for never.
 * `kept`: versions by which players may go on; who has another adopts the current one. Of badges and streaks,
 * which have no versions for players: a number for what players are measured by.
 */
export type Ends = { openMs: number; claimMs: number; kept: readonly number[] };

/** Players of a page whose rows may be due too late, and the place after it; undefined behind the last. */
type EndsPage = { playerIds: readonly string[]; after: string | undefined };

/** What of a definition's players falls due with its end, or with a change of it. */
export type EndingRows = {
  kind: "quest" | "adventure" | "badge" | "streak";
  /** Returns when a definition ends; undefined for one that is archived. */
  endsOf(plan: ProjectPlan, key: string): Ends | undefined;
  readPage(
    work: Work,
    of: { projectId: string; key: string; after: string; ends: Ends; plan: ProjectPlan },
  ): Promise<EndsPage>;
  /** Updates rows of locked players that are due later than `ends`, or are to adopt another version now. */
  moveDue(
    work: Work,
    of: { projectId: string; key: string; playerIds: readonly string[]; ends: Ends },
  ): Promise<void>;
};

/**
 * Changes the locked players of a page. One who cannot be changed keeps none of the others from it, and is
 * followed with the next progress.
 */
export const changePage = async (
  work: Work,
  playerIds: readonly string[],
  change: (playerIds: readonly string[]) => Promise<unknown>,
): Promise<void> => {
  try {
    await savepoint(work, () => change(playerIds));
  } catch (error) {
    throwUnlessOwn(error);
    if (playerIds.length > 1) for (const id of playerIds) await changePage(work, [id], change);
  }
};

/** A moment as timestamptz. */
export const endAt = (ms: number): RawBuilder<unknown> =>
  sql`${Number.isFinite(ms) ? new Date(ms).toISOString() : "infinity"}::timestamptz`;

/** As stored: null stands for never, and `after` for the place of a walk through the rows. */
type StoredEnds = { openMs: number | null; claimMs: number | null; kept?: readonly number[]; after?: string };

const storedOf = ({ openMs, claimMs, kept }: Ends): StoredEnds => ({
  kept,
  openMs: Number.isFinite(openMs) ? openMs : null,
  claimMs: Number.isFinite(claimMs) ? claimMs : null,
});

/** Whether everything that was due by earlier ends is due in time by these, and nobody has to go on by others. */
const isNoSooner = (ends: Ends, before: StoredEnds): boolean =>
  before.kept?.every((version) => ends.kept.includes(version)) === true &&
  ends.openMs >= (before.openMs ?? Infinity) &&
  ends.claimMs >= (before.claimMs ?? Infinity);

const changed = ({ kind }: EndingRows): RawBuilder<unknown> =>
  sql`from definitions where ends_changed and kind = ${sql.lit(kind)}`;

/** Whether the version of a row `s` is one that `ends` does not keep. */
export const isOtherVersion = (column: string, { kept }: Ends): RawBuilder<unknown> =>
  sql`s.${sql.ref(column)} <> all(${`{${kept.join(",")}}`}::int[])`;

/** Whether the end of a definition of the kind may have been moved. */
export const areEndsMoved = (rows: EndingRows): RawBuilder<unknown> => sql`exists (select ${changed(rows)})`;

/** Selects as `due_at` a time that has passed for each definition of a project whose end may have moved. */
export const movedEndsOf = (rows: EndingRows, projectId: string): RawBuilder<unknown> =>
  sql`select 'epoch'::timestamptz as due_at ${changed(rows)} and project_id = ${projectId}::uuid`;

type MovedEnd = { projectId: string; id: string };

/** Returns definitions whose ends may have been moved, of all projects or one. */
export const movedEnds = async ({ db }: Work, rows: EndingRows, projectId?: string): Promise<MovedEnd[]> => {
  const within = projectId === undefined ? sql`` : sql`and project_id = ${projectId}::uuid`;
  const found = await sql<MovedEnd>`
    select project_id as "projectId", id ${changed(rows)} ${within}
    order by updated_at, id limit ${DEFINITIONS_MAX}`.execute(db);
  return found.rows;
};

type Row = { key: string; ends: StoredEnds | null };

const store = async ({ db }: Work, { id }: MovedEnd, ends: StoredEnds | null): Promise<void> => {
  await sql`
    update definitions set ends = ${JSON.stringify(ends)}::jsonb,
      ends_changed = ${ends?.after !== undefined}::boolean
    where id = ${id}::uuid`.execute(db);
};

/** Locks players in the order of batches: a batch that has them may be about to write their rows. */
const lockPlayers = async ({ db }: Work, projectId: string, playerIds: readonly string[]): Promise<void> => {
  await sql`
    select 1 from players
    where project_id = ${projectId}::uuid and id = any(${`{${playerIds.join(",")}}`}::uuid[])
    order by id for update`.execute(db);
};

/**
 * Makes due by the end of a definition what was to be due after it, and now what is to adopt its version, a
 * page of its players: the sweep of what is due then settles them. The place is stored in the same
 * transaction. An end that was put off needs nothing: what is due too early is given its new time then.
 * @returns whether there is more to do; BUSY where another worker does it
 */
export const followEnd = async (
  work: Work,
  rows: EndingRows,
  moved: MovedEnd,
): Promise<"MORE" | "DONE" | "BUSY"> => {
  const { projectId, id } = moved;
  // No end moves meanwhile, and batches evaluate by the new one.
  const plan = await planOf(work, projectId);
  const found = await sql<Row>`
    select key, ends from definitions where id = ${id}::uuid and ends_changed
    for update skip locked`.execute(work.db);
  const row = found.rows[0];
  if (!row) return "BUSY";
  const { key, ends: before } = row;
  const ends = rows.endsOf(plan, key);
  if (!ends) {
    await store(work, moved, null);
    return "DONE";
  }
  const isBehind = before !== null && isNoSooner(ends, before);
  if (isBehind && before.after === undefined) {
    await store(work, moved, storedOf(ends));
    return "DONE";
  }
  const page = await rows.readPage(work, {
    projectId,
    key,
    after: isBehind ? before.after! : NIL_ID,
    ends,
    plan,
  });
  if (page.playerIds.length > 0) {
    await lockPlayers(work, projectId, page.playerIds);
    await rows.moveDue(work, { projectId, key, playerIds: page.playerIds, ends });
  }
  const { after } = page;
  await store(work, moved, { ...storedOf(ends), ...(after === undefined ? {} : { after }) });
  return after === undefined ? "DONE" : "MORE";
};
