import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { RuleSet } from "../evaluation/running/compile.ts";
import {
  counterIdOf,
  createSharedCounters,
  type SharedCounters,
  type SharedKey,
} from "../evaluation/shared-counters.ts";
import { isLockTimeout } from "../kernel/outages.ts";
import { kept, unanswered } from "../kernel/statements.ts";
import { BATCH, chosenTimeouts } from "../kernel/timeouts.ts";
import { retainedKey, savepoint, Unprepared, type Work } from "../kernel/work.ts";
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

type Row = SharedKey & { used: number; times: number[] | null };

const COLUMNS = sql`c.project_id as "projectId", c.scope, c.window_no as "windowNo", c.used, c.times`;

const rowsOf = (keys: readonly SharedKey[]): string =>
  JSON.stringify(keys.map(({ projectId, scope, windowNo }) => ({ p: projectId, s: scope, w: windowNo })));

const uniqueOf = (keys: readonly SharedKey[]): SharedKey[] => [
  ...new Map(keys.map((key) => [counterIdOf(key), key])).values(),
];

const loadedOf = ({ projectId, scope, windowNo, used, times }: Row) => ({
  key: { projectId, scope, windowNo },
  state: { used, times },
});

/**
 * Locks counters until commit, in a fixed order, creating missing ones: one statement, or none without keys.
 * To be called after the players are locked. @returns them and no others
 */
export const lockSharedCounters = async (work: Work, keys: readonly SharedKey[]): Promise<SharedCounters> =>
  createSharedCounters("REFUSED", (await lockRows(work, uniqueOf(keys))).map(loadedOf));

/**
 * Locks what was asked for, after what has asked is undone. Of others that hold some a shared transaction
 * does not wait. @returns false there
 */
export const lockAsked = async (work: Work, counters: SharedCounters): Promise<boolean> => {
  const keys = counters.asked();
  const { free, held } = work.isShared
    ? await takeFree(work, keys)
    : { free: await lockRows(work, keys), held: [] };
  counters.load(free.map(loadedOf));
  return held.length === 0;
};

const lockRows = async ({ db, now }: Work, keys: readonly SharedKey[]): Promise<Row[]> => {
  if (keys.length === 0) return [];
  // The no-op update waits for the row and returns it as of the moment the lock is granted.
  const result = await kept(
    db,
    sql<Row>`
    insert into shared_counters as c (project_id, scope, window_no, touched_at)
    select p, s, w, ${now.toISOString()}::timestamptz
    from json_to_recordset(${rowsOf(keys)}::json) as x(p uuid, s text, w bigint)
    order by p, s, w
    on conflict (project_id, scope, window_no) do update set touched_at = excluded.touched_at
    returning ${COLUMNS}`,
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
      returning ${COLUMNS}),
    o as materialized (
      select x.*, exists (select 1 from shared_counters c
        where c.project_id = x.p and c.scope = x.s and c.window_no = x.w) as is_known
      from x where not exists (
        select 1 from f where f.project_id = x.p and f.scope = x.s and f.window_no = x.w)),
    i as (
      insert into shared_counters as c (project_id, scope, window_no, touched_at)
      select p, s, w, ${touched} from o where not is_known order by p, s, w
      on conflict (project_id, scope, window_no) do update set touched_at = excluded.touched_at
      returning ${COLUMNS})
    select *, false as is_held from u union all select *, false from i
    union all select p, s, w, 0, null, true from o where is_known`,
  );
  return { free: rows.filter((row) => !row.is_held), held: rows.filter((row) => row.is_held) };
};

type KeyAt = (plan: ProjectPlan, atMs: number) => SharedKey;
/** Scopes that events have asked for, by type; `size`: of all types. */
type Learned = { types: Map<string, Map<string, KeyAt>>; size: number };

/** By the rules of a plan. */
const learned = new WeakMap<RuleSet, Learned>();

/** Counters that one statement locks, and scopes that are learned of a plan: a first event may need more. */
export const SHARED_KEYS_MAX = 5_000;

/** Events of a plan that are coming, or what else counts like events of one type. */
export type Coming = { plan: ProjectPlan; type: string; atMs: number };

/** What a transaction has asked for that was undone for it, and how many events that was for. */
const ASKED = retainedKey("counters asked for", () => new Map<string, SharedKey>());
const COVERED = retainedKey("events that have asked", () => Infinity);

/**
 * Opens the counters of a transaction that evaluates much at once: those are locked that this transaction has
 * asked for before, and those that events of the same types have. Those that others hold a claim waits for
 * but briefly, since it has events of other projects.
 * @returns also the number of leading events that these may be for, at least 1
 * @throws EventsHeld for projects whose counters stay locked for longer
 */
export const openCounters = async (
  work: Work,
  coming: readonly Coming[],
  isClaim = false,
): Promise<{ shared: SharedCounters; covered: number }> => {
  const projectIds = new Set(coming.map(({ plan }) => plan.projectId));
  const asked = [...work.retained.get(ASKED)].filter(([, { projectId }]) => projectIds.has(projectId));
  const keys = new Map(asked);
  let covered = 0;
  for (const { plan, type, atMs } of coming.slice(0, work.retained.get(COVERED))) {
    if (covered > 0 && keys.size > SHARED_KEYS_MAX) break;
    covered++;
    for (const keyAt of learned.get(plan.rules)?.types.get(type)?.values() ?? []) {
      const key = keyAt(plan, atMs);
      keys.set(counterIdOf(key), key);
    }
  }
  const wanted = [...keys.values()];
  const rows = isClaim ? await lockUnheld(work, wanted) : await lockRows(work, wanted);
  return { shared: createSharedCounters("ASKED", rows.map(loadedOf)), covered };
};

const lockUnheld = async (work: Work, keys: readonly SharedKey[]): Promise<Row[]> => {
  if (keys.length === 0) return [];
  const { free, held } = await takeFree(work, keys);
  if (held.length === 0) return free;
  const waited = await waitBriefly(work, () => lockRows(work, held));
  if (waited) return [...free, ...waited];
  const late = new Set(held.map(({ projectId }) => projectId));
  throw new EventsHeld(`counters of ${[...late].join(", ")}`, ({ projectId }) => late.has(projectId));
};

/** Remembers what an event has asked for, as far as there is room. */
export const learnAsked = ({ plan, type }: Omit<Coming, "atMs">, keys: readonly SharedKey[]): void => {
  const known = learned.get(plan.rules) ?? { types: new Map<string, Map<string, KeyAt>>(), size: 0 };
  learned.set(plan.rules, known);
  for (const key of keys) {
    const scopes = known.types.get(type) ?? new Map<string, KeyAt>();
    if (scopes.has(key.scope) || known.size >= SHARED_KEYS_MAX) continue;
    known.types.set(type, scopes.set(key.scope, keyAtOf(plan, key)));
    known.size++;
  }
};

/** The rules' own counters by scope. */
const owned = new WeakMap<RuleSet, ReadonlyMap<string, KeyAt>>();

const ownedBy = (plan: ProjectPlan): ReadonlyMap<string, KeyAt> => {
  const all = plan.rules.all.flatMap(({ globalLimits, budgets }) => [...globalLimits, ...budgets]);
  return new Map(all.map((counter) => [counter.keyOf(plan, 0).scope, counter.keyOf]));
};

/** Of a rule's own counters the window is that of the event. */
const keyAtOf = (plan: ProjectPlan, key: SharedKey): KeyAt => {
  const known = owned.get(plan.rules) ?? ownedBy(plan);
  owned.set(plan.rules, known);
  return known.get(key.scope) ?? (() => key);
};

/** Thrown where counters were asked for that are not locked: all is undone, and done again with them. */
export class CountersAsked extends Unprepared {
  constructor({ retained }: Work, keys: readonly SharedKey[], covered = Infinity) {
    super("counters have to be locked first");
    const all = new Map(retained.get(ASKED));
    for (const key of keys) all.set(counterIdOf(key), key);
    retained.set(ASKED, all);
    retained.set(COVERED, covered);
  }

  override prepare(): Promise<void> {
    return Promise.resolve();
  }
}

/** Reads counters without a lock, along with a player's parts. */
export const sharedCountersAlong = (
  keys: readonly SharedKey[],
): { parts: Loadable[]; read: () => SharedCounters } => {
  const rows: Row[] = [];
  const part = alongside(
    "sc",
    sql`
    select 'sc', -1, null::text, row_to_json(c)
    from json_to_recordset(${rowsOf(keys)}::json) as x(p uuid, s text, w bigint)
    cross join lateral (
      select ${COLUMNS} from shared_counters c
      where c.project_id = x.p and c.scope = x.s and c.window_no = x.w limit 1) c`,
    (_, row) => void rows.push(row as Row),
  );
  return {
    parts: keys.length === 0 ? [] : [part],
    read: () => createSharedCounters("FROM_ZERO", rows.map(loadedOf)),
  };
};

/** Reads counters without a lock; those that are missing are at 0. */
export const readCounters = async ({ db }: Work, keys: readonly SharedKey[]) => {
  if (keys.length === 0) return [];
  const result = await sql<Row>`
    select x.p as "projectId", x.s as scope, x.w as "windowNo", coalesce(c.used, 0) as used, c.times
    from json_to_recordset(${rowsOf(keys)}::json) as x(p uuid, s text, w bigint)
    left join shared_counters c on c.project_id = x.p and c.scope = x.s and c.window_no = x.w`.execute(db);
  return result.rows.map(loadedOf);
};
