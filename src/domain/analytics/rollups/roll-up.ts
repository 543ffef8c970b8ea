import { sql } from "kysely";
import { lockRollups, tryLockRollups } from "../../kernel/events/uncounted.ts";
import type { Work } from "../../kernel/work.ts";
import { idFloor, NIL_ID } from "../../kernel/ids.ts";
import { tableTexts } from "../../kernel/json.ts";
import { asOneMessage } from "../../kernel/statements.ts";
import { Edits, findHolders, type FirstChange, writeDocuments, writeFirstTimes } from "./holders.ts";
import { STATEMENT_LENGTH } from "./documents.ts";
import { COUNTS, readSettledId } from "../events.ts";
import { closeSome, reopenDays } from "./closed-days.ts";
import { rollUpGains } from "./roll-up-gains.ts";

/**
 * Rollups: what players did, by UTC day, in few bytes. They hold all events that count up to an id, the
 * watermark, which a job moves on; what came behind it is read from the events, and so is what stopped to
 * count since. Whoever reads both in one snapshot knows the same as from events alone.
 */

/** Ids are stamped before their transaction commits: after so long none comes before the watermark, in ms. */
export const COMMIT_MS = 120_000;
/** Events that one step adds, and that one step takes away. */
const EVENTS_AT_ONCE = 20_000;
const OTHERS_AT_ONCE = 2_000;

/** A late event opens all days since; questions read few of those faster than they are closed again. */
const CLOSING_REST_MS = 15 * 60_000;

type RollupState = { watermark: string; players: number };

type EventRow = {
  id: string;
  type: string;
  ms: number;
  player_id: string | null;
  counts: boolean;
};

/** Reads how far a project's rollups have come; undefined before they have begun. */
const readState = async ({ db }: Work, projectId: string): Promise<RollupState | undefined> => {
  const { rows } = await sql<RollupState>`
    select watermark::text, players from analytics_rollups
    where project_id = ${projectId}::uuid and halted_at is null`.execute(db);
  return rows[0];
};

const COLUMNS = sql`e.id::text as id, e.event_type as type,
  round(extract(epoch from e.occurred_at) * 1000)::float8 as ms, p.id::text as player_id,
  ${COUNTS} as counts`;
const EVENTS = sql`tracked_events e
  left join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id`;

const readNew = async (
  { db }: Work,
  projectId: string,
  after: string,
  until: string,
): Promise<EventRow[]> => {
  const { rows } = await sql<EventRow>`
    select ${COLUMNS} from ${EVENTS}
    where e.project_id = ${projectId}::uuid and e.id > ${after}::uuid and e.id < ${until}::uuid
    order by e.id limit ${sql.lit(EVENTS_AT_ONCE)}`.execute(db);
  return rows;
};

/** Takes events whose player was not known when they were added, of those who are known by now. */
const takeUnknown = async ({ db }: Work, projectId: string): Promise<EventRow[]> => {
  const { rows } = await sql<EventRow>`
    with oldest as (
      select event_id from analytics_unknown where project_id = ${projectId}::uuid
      order by event_id limit ${sql.lit(OTHERS_AT_ONCE)}),
    found as (
      select ${COLUMNS} from oldest join tracked_events e on e.project_id = ${projectId}::uuid
        and e.id = oldest.event_id
      left join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id),
    gone as (
      delete from analytics_unknown u using oldest left join found f on f.id::uuid = oldest.event_id
      where u.project_id = ${projectId}::uuid and u.event_id = oldest.event_id
        and (f.id is null or (f.player_id is not null and f.counts)))
    select * from found where player_id is not null and counts`.execute(db);
  return rows;
};

/** Takes events that stopped to count: those that the rollups hold, and those that they now never will. */
const takeUncounted = async (
  { db }: Work,
  projectId: string,
  { watermark, until }: { watermark: string; until: string },
): Promise<{ taken: string[]; rows: EventRow[]; isMore: boolean }> => {
  const { rows } = await sql<EventRow & { gone: string; was: boolean | null }>`
    with gone as (
      delete from uncounted_events u where u.project_id = ${projectId}::uuid and u.event_id in (
        select event_id from uncounted_events where project_id = ${projectId}::uuid
          and event_id <= ${until}::uuid order by event_id limit ${sql.lit(OTHERS_AT_ONCE)})
      returning u.event_id),
    unknown as (
      delete from analytics_unknown u using gone
      where u.project_id = ${projectId}::uuid and u.event_id = gone.event_id returning u.event_id)
    select gone.event_id::text as gone, ${COLUMNS}, e.id <= ${watermark}::uuid
        and not starts_with(e.event_type, 'system.')
        and not exists (
          select 1 from unknown where unknown.event_id = e.id) as was
    from gone left join tracked_events e on e.project_id = ${projectId}::uuid and e.id = gone.event_id
    left join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id`.execute(
    db,
  );
  return {
    taken: rows.map(({ gone }) => gone),
    rows: rows.filter(({ was, player_id: playerId }) => was === true && playerId !== null),
    isMore: rows.length === OTHERS_AT_ONCE,
  };
};

/** Returns the numbers of players, new ones for those who have none. */
const numbersOf = async (
  { db }: Work,
  projectId: string,
  { ids, players }: { ids: readonly string[]; players: number },
): Promise<{ numbers: Map<string, number>; players: number }> => {
  const numbers = new Map<string, number>();
  if (ids.length === 0) return { numbers, players };
  const { rows } = await sql<{ id: string; no: number }>`
    select player_id::text as id, no from analytics_players
    where project_id = ${projectId}::uuid and player_id = any(${`{${ids.join(",")}}`}::uuid[])`.execute(db);
  for (const { id, no } of rows) numbers.set(id, no);
  const fresh = ids.filter((id) => !numbers.has(id)).map((id, i) => ({ id, no: players + i }));
  for (const { id, no } of fresh) numbers.set(id, no);
  for (const text of tableTexts(fresh, STATEMENT_LENGTH))
    await sql`
      insert into analytics_players (project_id, player_id, no)
      select ${projectId}::uuid, id, no from json_to_recordset(${text}::json) as x(id uuid, no int)`.execute(
      db,
    );
  return { numbers, players: players + fresh.length };
};

/** An event that is added or taken away. */
type Counted = EventRow & { by: 1 | -1 };

/** Writes what events change. Returns how many players have numbers then. */
const write = async (
  work: Work,
  projectId: string,
  { counted, players: before }: { counted: readonly Counted[]; players: number },
): Promise<number> => {
  const ids = [...new Set(counted.map(({ player_id: id }) => id!))];
  const { numbers, players } = await numbersOf(work, projectId, { ids, players: before });
  const holders = await findHolders(
    work,
    projectId,
    counted.filter(({ by }) => by === -1),
  );
  const edits = new Edits();
  const firsts: FirstChange[] = [];
  for (const { player_id: id, ...one } of counted) {
    const no = holders.get(one.id) ?? numbers.get(id!)!;
    edits.add(no, one);
    firsts.push({ no, ms: one.ms, by: one.by });
  }
  if (firsts.length > 0) await reopenDays(work, projectId, Math.min(...firsts.map(({ ms }) => ms)));
  await writeDocuments(work, projectId, [...edits.all.values()]);
  await writeFirstTimes(work, projectId, firsts);
  return players;
};

const isOfPlayer = ({ player_id: playerId, counts }: EventRow): boolean => counts && playerId !== null;

/**
 * Begins a step of one snapshot, so that what stops to count meanwhile is left for the next one. Returns
 * whether no other process is at it.
 */
const begin = async (work: Work, projectId: string): Promise<boolean> => {
  await asOneMessage(work.db, sql`set transaction isolation level repeatable read`);
  return tryLockRollups(work, projectId);
};

/**
 * Closes days of a project that were over at a time, by one step.
 * @param restMs after all were closed, those that were opened again wait for so long
 * @returns whether there is more to do at once
 */
export const closeDays = async (
  work: Work,
  projectId: string,
  { asOfMs = work.now.getTime(), restMs = CLOSING_REST_MS }: { asOfMs?: number; restMs?: number } = {},
): Promise<boolean> => (await begin(work, projectId)) && closeSome(work, projectId, { asOfMs, restMs });

/** Moves the rollups of events on. `taken`: events that stopped to count, which are not told of any more. */
const rollUpEvents = async (
  work: Work,
  projectId: string,
  lagMs: number,
): Promise<{ isMore: boolean; taken: string[] }> => {
  const state = (await readState(work, projectId)) ?? { watermark: NIL_ID, players: 0 };
  const limit = await readSettledId(work, projectId, lagMs);
  const fresh = await readNew(work, projectId, state.watermark, limit);
  const watermark = fresh.at(-1)?.id ?? state.watermark;
  const unknown = fresh.filter(({ player_id: playerId, counts }) => counts && playerId === null);
  // Before those of unknown players: of them the rollups hold nothing.
  const uncounted = await takeUncounted(work, projectId, { watermark: state.watermark, until: watermark });
  const known = await takeUnknown(work, projectId);
  const added = [...fresh, ...known].filter(isOfPlayer);
  const counted = [
    ...added.map((row): Counted => ({ ...row, by: 1 })),
    ...uncounted.rows.map((row): Counted => ({ ...row, by: -1 })),
  ];
  const players = await write(work, projectId, { counted, players: state.players });
  await addUnknown(work, projectId, unknown);
  if (fresh.length > 0 || players !== state.players)
    await writeState(work, projectId, { watermark, players });
  return { isMore: fresh.length === EVENTS_AT_ONCE || uncounted.isMore, taken: uncounted.taken };
};

/**
 * Moves a project's rollups on by one step.
 * @param lagMs events younger than this are left: their neighbours may not be committed yet
 * @returns whether there is more to do at once; BUSY: nothing was done, since another process does it
 */
export const rollUp = async (
  work: Work,
  projectId: string,
  { lagMs = COMMIT_MS }: { lagMs?: number } = {},
): Promise<"MORE" | "DONE" | "BUSY"> => {
  if (!(await begin(work, projectId))) return "BUSY";
  const { isMore, taken } = await rollUpEvents(work, projectId, lagMs);
  const nowMs = work.serverNow.getTime();
  const [limit, settled] = [idFloor(nowMs - lagMs), idFloor(nowMs - COMMIT_MS)];
  const isMoreGained = await rollUpGains(work, projectId, { taken, limit, settled });
  return isMore || isMoreGained ? "MORE" : "DONE";
};

const addUnknown = async ({ db }: Work, projectId: string, events: readonly EventRow[]): Promise<void> => {
  if (events.length === 0) return;
  await sql`
    insert into analytics_unknown (project_id, event_id)
    select ${projectId}::uuid, unnest(${`{${events.map(({ id }) => id).join(",")}}`}::uuid[])`.execute(db);
};

const writeState = async (
  { db, serverNow }: Work,
  projectId: string,
  { watermark, players }: RollupState,
): Promise<void> => {
  await sql`
    insert into analytics_rollups (project_id, watermark, players, rolled_up_at)
    values (${projectId}::uuid, ${watermark}::uuid, ${players}::int, ${serverNow.toISOString()})
    on conflict (project_id) do update set watermark = excluded.watermark, players = excluded.players,
      rolled_up_at = excluded.rolled_up_at`.execute(db);
};

/** Stops a project's rollups: its questions read events until they are built anew. */
export const haltRollups = async ({ db, serverNow }: Work, projectId: string): Promise<void> => {
  await sql`
    insert into analytics_rollups (project_id, watermark, players, rolled_up_at, halted_at)
    values (${projectId}::uuid, ${NIL_ID}::uuid, 0, ${serverNow.toISOString()}, ${serverNow.toISOString()})
    on conflict (project_id) do update set halted_at = excluded.halted_at`.execute(db);
};

const TABLES = [
  "analytics_rollups",
  "analytics_days",
  "analytics_firsts",
  "analytics_players",
  "analytics_unknown",
  "analytics_gains",
  "analytics_closed_days",
  "analytics_standings",
] as const;

/**
 * Forgets a project's rollups, so that they are built anew from the events that there are. Questions read
 * events meanwhile.
 */
export const forgetRollups = async (work: Work, projectId: string): Promise<void> => {
  await lockRollups(work, projectId);
  for (const table of TABLES)
    await sql`delete from ${sql.table(table)} where project_id = ${projectId}::uuid`.execute(work.db);
};

/** Returns the ids of all projects, or of one if there is it. */
export const listProjectIds = async ({ db }: Work, projectId: string | undefined): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id::text as id from projects
    where ${projectId === undefined ? sql`true` : sql`id = ${projectId}::uuid`} order by id`.execute(db);
  return rows.map(({ id }) => id);
};

const SOURCES = [
  { table: "uncounted_events", id: "event_id" },
  { table: "uncounted_gains", id: "gain_id" },
] as const;

/**
 * Deletes up to `limit` rows of each table that tells rollups what stopped to count, of projects whose
 * rollups are halted. Rollups that are built anew need none of those: they ask the events themselves.
 * @returns whether there may be more
 */
export const forgetUncounted = async ({ db }: Work, limit: number): Promise<boolean> => {
  let isMore = false;
  for (const { table, id } of SOURCES) {
    const column = sql.ref(id);
    // A row that this snapshot sees of a project that it sees halted was committed before any new beginning.
    const { rows } = await sql`
      with old as materialized (
        select o.project_id, o.id from analytics_rollups r cross join lateral (
          select project_id, ${column} as id from ${sql.table(table)}
          where project_id = r.project_id limit ${limit} for update skip locked) o
        where r.halted_at is not null limit ${limit})
      delete from ${sql.table(table)} t using old
      where t.project_id = old.project_id and t.${column} = old.id returning 1`.execute(db);
    isMore ||= rows.length === limit;
  }
  return isMore;
};

/** A project's rollups move on when so many events are behind the watermark, or after so long, in ms. */
const EVENTS_BEHIND = 5_000;
const BEHIND_MS = 10 * 60_000;

/**
 * Returns projects whose rollups should move on, those first that waited longest. Each question reads the
 * events behind the watermark, so that there should not be many.
 */
export const findDueRollups = async ({ db, serverNow }: Work, limit: number): Promise<string[]> => {
  const nowMs = serverNow.getTime();
  const until = idFloor(nowMs - COMMIT_MS);
  const behind = sql`tracked_events e where e.project_id = p.id
    and e.id > coalesce(r.watermark, ${NIL_ID}::uuid) and e.id < ${until}::uuid`;
  const gains = sql`coalesce(r.gains_watermark, ${NIL_ID}::uuid)`;
  const gained = sql`ledger_entries l where l.project_id = p.id and l.amount > 0 and l.reverses is null
    and l.tx_id is null and l.asset in ('XP', 'CURRENCY') and l.id > ${gains} and l.id < ${until}::uuid`;
  const awarded = sql`badge_awards b where b.project_id = p.id and b.action = 'AWARDED' and b.id > ${gains}
    and b.id < ${until}::uuid`;
  const { rows } = await sql<{ id: string }>`
    select p.id::text as id from projects p left join analytics_rollups r on r.project_id = p.id
    where coalesce(r.halted_at is null, true) and case
      when r.rolled_up_at is null or r.rolled_up_at < ${new Date(nowMs - BEHIND_MS).toISOString()}
        then exists (select from ${behind})
          or exists (select from uncounted_events u where u.project_id = p.id and u.event_id <= r.watermark)
          or exists (select from uncounted_gains u where u.project_id = p.id)
          or exists (select from analytics_zones z where z.project_id = p.id and z.is_new)
          or exists (select from ${gained}) or exists (select from ${awarded}) or r.gains_watermark is null
      else (select count(*) from (select from ${behind} limit ${EVENTS_BEHIND}) c) = ${EVENTS_BEHIND}
        or (select count(*) from (select from ${gained} limit ${EVENTS_BEHIND}) c) = ${EVENTS_BEHIND} end
    order by r.rolled_up_at nulls first, p.id limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
};
