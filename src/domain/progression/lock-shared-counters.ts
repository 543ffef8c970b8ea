import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import {
  counterIdOf,
  createSharedCounters,
  noSharedCounters,
  type SharedCounters,
  type SharedKey,
} from "../evaluation/shared-counters.ts";
import { isLockTimeout } from "../kernel/outages.ts";
import { kept, unanswered } from "../kernel/statements.ts";
import { BATCH, chosenTimeouts } from "../kernel/timeouts.ts";
import { savepoint, Unprepared, type Work } from "../kernel/work.ts";
import { alongside, type Loadable } from "./parts/part.ts";
import type { QueuedEvent } from "./queue.ts";

/** Maximum time that a claim waits for a lock held by a request, in ms. */
const BRIEF_MS = 50;

const limitWaits = async ({ db }: Work, ms: number): Promise<void> => {
  await unanswered(db, sql`set local lock_timeout = ${sql.lit(ms)}`);
};

/**
 * Runs statements of a claim that wait for locks of other transactions, each only briefly.
 * @returns undefined on timeout; then all its statements are rolled back
 */
export const waitBriefly = async <T>(work: Work, run: () => Promise<T>): Promise<T | undefined> => {
  try {
    return await savepoint(work, async () => {
      await limitWaits(work, BRIEF_MS);
      const value = await run();
      await limitWaits(work, (chosenTimeouts() ?? BATCH).lockMs);
      return value;
    });
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    return undefined;
  }
};

/** Thrown where some events of a claim cannot be evaluated yet, while the others can. */
export abstract class EventsUnready extends Unprepared {
  /** Returns whether an event is one of those, and stays in the queue. */
  abstract isLate(event: QueuedEvent): boolean;
}

/** Delay before events are retried whose project or player was locked by others, in ms. */
const HELD_AFTER_MS = 50;

/** Thrown where others hold locks that events need: a claim does not wait for them. */
export class EventsHeld extends EventsUnready {
  readonly isLate: (event: QueuedEvent) => boolean;

  /** @param what the locked items, for the message */
  constructor(what: string, isLate: (event: QueuedEvent) => boolean) {
    super(`others hold ${what}`);
    this.isLate = isLate;
  }

  override async prepare(): Promise<void> {
    await delay(HELD_AFTER_MS);
  }
}

type Row = {
  project_id: string;
  scope: string;
  window_no: number;
  used: number;
  times: number[] | null;
};

const rowsOf = (keys: readonly SharedKey[]): string =>
  JSON.stringify(keys.map(({ projectId, scope, windowNo }) => ({ p: projectId, s: scope, w: windowNo })));

const keyOf = (row: Row): SharedKey => ({
  projectId: row.project_id,
  scope: row.scope,
  windowNo: row.window_no,
});

const uniqueOf = (keys: readonly SharedKey[]): SharedKey[] => [
  ...new Map(keys.map((key) => [counterIdOf(key), key])).values(),
];

const countersOf = (rows: readonly Row[], isOpen: boolean): SharedCounters => {
  const states = rows.map((row) => {
    const key = keyOf(row);
    return [counterIdOf(key), { key, state: { used: row.used, times: row.times } }] as const;
  });
  return createSharedCounters(new Map(states), isOpen);
};

/**
 * Locks counters until commit, in a fixed order, creating missing ones: one statement, or none without keys.
 * To be called after the players are locked.
 */
export const lockSharedCounters = async (work: Work, keys: readonly SharedKey[]): Promise<SharedCounters> => {
  if (keys.length === 0) return noSharedCounters();
  return countersOf(await lockRows(work, uniqueOf(keys)), false);
};

const lockRows = async ({ db, now }: Work, keys: readonly SharedKey[]): Promise<Row[]> => {
  // The no-op update waits for the row and returns it as of the moment the lock is granted.
  const result = await kept(
    db,
    sql<Row>`
    insert into shared_counters as c (project_id, scope, window_no, touched_at)
    select p, s, w, ${now.toISOString()}::timestamptz
    from json_to_recordset(${rowsOf(keys)}::json) as x(p uuid, s text, w bigint)
    order by p, s, w
    on conflict (project_id, scope, window_no) do update set touched_at = excluded.touched_at
    returning c.project_id, c.scope, c.window_no, c.used, c.times`,
  );
  return result.rows;
};

/** Locks the counters that nobody else has, creating missing ones: one statement. @returns also those held */
const takeFree = async (
  { db, now }: Work,
  keys: readonly SharedKey[],
): Promise<{ free: Row[]; held: SharedKey[] }> => {
  const touched = sql`${now.toISOString()}::timestamptz`;
  const { rows } = await kept(
    db,
    sql<Row & { is_held: boolean }>`
    with x as materialized (
      select * from json_to_recordset(${rowsOf(keys)}::json) as x(p uuid, s text, w bigint)),
    f as materialized (
      select c.project_id, c.scope, c.window_no from x
      join shared_counters c on c.project_id = x.p and c.scope = x.s and c.window_no = x.w
      for update of c skip locked),
    u as (
      update shared_counters c set touched_at = ${touched} from f
      where c.project_id = f.project_id and c.scope = f.scope and c.window_no = f.window_no
      returning c.project_id, c.scope, c.window_no, c.used, c.times),
    o as materialized (
      select x.*, exists (select 1 from shared_counters c
        where c.project_id = x.p and c.scope = x.s and c.window_no = x.w) as is_known
      from x where not exists (
        select 1 from f where f.project_id = x.p and f.scope = x.s and f.window_no = x.w)),
    i as (
      insert into shared_counters as c (project_id, scope, window_no, touched_at)
      select p, s, w, ${touched} from o where not is_known order by p, s, w
      on conflict (project_id, scope, window_no) do update set touched_at = excluded.touched_at
      returning c.project_id, c.scope, c.window_no, c.used, c.times)
    select *, false as is_held from u union all select *, false from i
    union all select p, s, w, 0, null, true from o where is_known`,
  );
  return {
    free: rows.filter((row) => !row.is_held),
    held: rows.filter((row) => row.is_held).map(keyOf),
  };
};

/**
 * As `lockSharedCounters`, for a claim: waits only briefly for counters locked by others, since the claim has
 * events of other projects. One statement where all are free.
 * @throws EventsHeld for projects whose counters stay locked for longer
 */
export const lockUnheldCounters = async (work: Work, keys: readonly SharedKey[]): Promise<SharedCounters> => {
  if (keys.length === 0) return noSharedCounters();
  const { free, held } = await takeFree(work, uniqueOf(keys));
  if (held.length === 0) return countersOf(free, false);
  const waited = await waitBriefly(work, () => lockRows(work, held));
  if (waited) return countersOf([...free, ...waited], false);
  const late = new Set(held.map(({ projectId }) => projectId));
  throw new EventsHeld(`counters of ${[...late].join(", ")}`, ({ projectId }) => late.has(projectId));
};

/**
 * As `lockSharedCounters`, for a shared transaction, which waits for nobody.
 * @returns the counters that are free, and the ids of those that others have
 */
export const lockFreeCounters = async (
  work: Work,
  keys: readonly SharedKey[],
): Promise<{ counters: SharedCounters; held: ReadonlySet<string> }> => {
  if (keys.length === 0) return { counters: noSharedCounters(), held: new Set() };
  const { free, held } = await takeFree(work, uniqueOf(keys));
  return { counters: countersOf(free, false), held: new Set(held.map(counterIdOf)) };
};

/** Reads counters without a lock, along with a player's parts. */
export const sharedCountersAlong = (
  keys: readonly SharedKey[],
): { parts: Loadable[]; read: () => SharedCounters } => {
  const rows: Row[] = [];
  const part = alongside(
    "sc",
    sql`
    select 'sc', c.project_id, null::uuid, null::text, row_to_json(c)
    from json_to_recordset(${rowsOf(keys)}::json) as x(p uuid, s text, w bigint)
    cross join lateral (
      select project_id, scope, window_no, used, times from shared_counters c
      where c.project_id = x.p and c.scope = x.s and c.window_no = x.w limit 1) c`,
    (_, row) => void rows.push(row as Row),
  );
  return { parts: keys.length === 0 ? [] : [part], read: () => countersOf(rows, true) };
};

/** Reads counters without a lock, for simulation. */
export const readSharedCounters = async (
  { db }: Work,
  keys: readonly SharedKey[],
): Promise<SharedCounters> => {
  if (keys.length === 0) return createSharedCounters(new Map(), true);
  const result = await sql<Row>`
    select c.project_id, c.scope, c.window_no, c.used, c.times
    from json_to_recordset(${rowsOf(keys)}::json) as x(p uuid, s text, w bigint)
    join shared_counters c on c.project_id = x.p and c.scope = x.s and c.window_no = x.w`.execute(db);
  return countersOf(result.rows, true);
};
