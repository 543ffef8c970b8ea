import { sql } from "kysely";
import { KEPT, type Work } from "../work.ts";
import { waitBriefly } from "./brief-wait.ts";
import { EventsHeld } from "./unready.ts";

/**
 * Counters that all players of a project share: firings of a rule with a global limit, what a budget has
 * given, stock of a reward, awards of a limited badge. Rows are locked for the transaction before evaluation,
 * so that what is counted in memory is exact however many batches race.
 */

/** `windowNo` is the number of a calendar window (rules/zones.ts), or 0 for what never starts again. */
export type SharedKey = { projectId: string; scope: string; windowNo: number };

type SharedState = { used: number; times: readonly number[] | null };

/** What evaluation may ask and change of shared counters. Asking for one that was not locked is a bug. */
export type SharedCounters = {
  used(key: SharedKey): number;
  add(key: SharedKey, amount: number): void;
  /** Firing times in ms, ascending, of a rolling limit. */
  times(key: SharedKey): readonly number[];
  setTimes(key: SharedKey, times: readonly number[]): void;
  /** Whether the counter was locked for this transaction. */
  has(key: SharedKey): boolean;
  /** Puts everything back as it is now. */
  save(): () => void;
  /** The counters that changed, with their new values. */
  changes(): { p: string; s: string; w: number; u: number; t: readonly number[] | null }[];
};

const idOf = ({ projectId, scope, windowNo }: SharedKey): string => `${projectId}\0${windowNo}\0${scope}`;

/** Counters for evaluation over states that were read. `isOpen`: unknown ones count from 0 (simulation). */
export const createSharedCounters = (
  loaded: ReadonlyMap<string, { key: SharedKey; state: SharedState }>,
  isOpen = false,
): SharedCounters => {
  const states = new Map(loaded);
  /** What was changed, and what it was before, so that going back takes no more than what is undone. */
  const changed: { id: string; before: { key: SharedKey; state: SharedState } | undefined }[] = [];
  const find = (key: SharedKey) => {
    const found = states.get(idOf(key));
    if (found) return found;
    if (!isOpen) throw new Error(`shared counter ${key.scope} was not locked`);
    return { key, state: { used: 0, times: null } };
  };
  const set = (key: SharedKey, state: SharedState): void => {
    const id = idOf(key);
    changed.push({ id, before: states.get(id) });
    states.set(id, { key, state });
  };
  return {
    used: (key) => find(key).state.used,
    add: (key, amount) => {
      const { state } = find(key);
      set(key, { ...state, used: Math.max(0, state.used + amount) });
    },
    times: (key) => find(key).state.times ?? [],
    setTimes: (key, times) => set(key, { ...find(key).state, times }),
    has: (key) => states.has(idOf(key)),
    save: () => {
      const { length } = changed;
      return () => {
        for (const { id, before } of changed.splice(length).toReversed()) {
          if (before) states.set(id, before);
          else states.delete(id);
        }
      };
    },
    changes: () =>
      [...states]
        .filter(([id, { state }]) => loaded.get(id)?.state !== state)
        .map(([, { key, state }]) => ({
          p: key.projectId,
          s: key.scope,
          w: key.windowNo,
          u: state.used,
          t: state.times,
        })),
  };
};

/** For where nothing is shared. */
export const noSharedCounters = (): SharedCounters => createSharedCounters(new Map());

type Row = {
  project_id: string;
  scope: string;
  window_no: string | number;
  used: string | number;
  times: number[] | null;
};

const rowsOf = (keys: readonly SharedKey[]): string =>
  JSON.stringify(keys.map(({ projectId, scope, windowNo }) => ({ p: projectId, s: scope, w: windowNo })));

const keyOf = (row: Row): SharedKey => ({
  projectId: row.project_id,
  scope: row.scope,
  windowNo: Number(row.window_no),
});

const countersOf = (rows: readonly Row[], isOpen: boolean): SharedCounters => {
  const states = rows.map((row) => {
    const key = keyOf(row);
    return [idOf(key), { key, state: { used: Number(row.used), times: row.times } }] as const;
  });
  return createSharedCounters(new Map(states), isOpen);
};

/**
 * Locks counters until commit, in one order, making those that do not exist: one statement, none for no
 * keys. Call it after the players' locks.
 */
export const lockSharedCounters = async (work: Work, keys: readonly SharedKey[]): Promise<SharedCounters> => {
  if (keys.length === 0) return noSharedCounters();
  const unique = [...new Map(keys.map((key) => [idOf(key), key])).values()];
  return countersOf(await lockRows(work, unique), false);
};

const lockRows = async ({ db, now }: Work, keys: readonly SharedKey[]): Promise<Row[]> => {
  // An update of nothing else waits for the row, and sees it as it is when the lock is granted.
  const result = await sql<Row>`
    ${sql.raw(KEPT)} insert into shared_counters as c (project_id, scope, window_no, touched_at)
    select p, s, w, ${now.toISOString()}::timestamptz
    from json_to_recordset(${rowsOf(keys)}::json) as x(p uuid, s text, w bigint)
    order by p, s, w
    on conflict (project_id, scope, window_no) do update set touched_at = excluded.touched_at
    returning c.project_id, c.scope, c.window_no, c.used, c.times`.execute(db);
  return result.rows;
};

/**
 * As `lockSharedCounters`, for a claim: counters that are held by others are waited for only briefly, since
 * events of other projects are in the claim. One statement where all are free.
 * @throws EventsHeld for projects whose counters are held for longer
 */
export const lockUnheldCounters = async (work: Work, keys: readonly SharedKey[]): Promise<SharedCounters> => {
  if (keys.length === 0) return noSharedCounters();
  const unique = [...new Map(keys.map((key) => [idOf(key), key])).values()];
  const touched = sql`${work.now.toISOString()}::timestamptz`;
  const result = await sql<Row & { is_held: boolean }>`
    ${sql.raw(KEPT)} with x as materialized (
      select * from json_to_recordset(${rowsOf(unique)}::json) as x(p uuid, s text, w bigint)),
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
    union all select p, s, w, 0, null, true from o where is_known`.execute(work.db);
  const free = result.rows.filter((row) => !row.is_held);
  const held = result.rows.filter((row) => row.is_held).map(keyOf);
  if (held.length === 0) return countersOf(free, false);
  const waited = await waitBriefly(work, () => lockRows(work, held));
  if (waited) return countersOf([...free, ...waited], false);
  const late = new Set(held.map(({ projectId }) => projectId));
  throw new EventsHeld(`counters of ${[...late].join(", ")}`, ({ projectId }) => late.has(projectId));
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
