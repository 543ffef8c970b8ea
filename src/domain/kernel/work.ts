import { type EntityName, type FilterQuery, LockMode, raw } from "@mikro-orm/core";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { type RawBuilder, sql } from "kysely";
import type { Actor } from "./caller.ts";
import type { Db } from "./db.ts";
import type { EventData, EventType } from "./events/domain-events.ts";
import { notFound } from "./errors.ts";
import { fnv1a, isId, PARTITIONS } from "./ids.ts";
import type { EmitOptions, OutboxRow } from "./outbox.ts";
import { offsetOf, type PageQuery } from "./paging.ts";
import { kept, unanswered, unansweredKept } from "./statements.ts";

/** A request that shares a transaction with others. */
export type Member = {
  /** Whether it has changed the database: if it then fails, the whole transaction is undone. */
  readonly hasWritten: boolean;
  /** Takes a step of `together` with the other members, and returns its value for the item. */
  take(step: object, item: unknown): Promise<unknown>;
};

/**
 * First keys of PostgreSQL's advisory locks that have two, with what the second one names. Listed
 * together, so that no two mean the same lock.
 */
export const LOCK_SPACES = {
  /** A partition of the queue of events, assigned to one worker. */
  QUEUE: 77,
  /** A project: separates evaluation from changes of definitions. */
  DEFINITIONS: 79,
  /** A project whose players are merged. */
  MERGES: 83,
  /** A project's events in one partition: separates claims from jobs on the same events. */
  EVENTS: 89,
  /** A project whose drafts become larger. */
  DRAFTS: 91,
  /** A project's mode of quickplay, whose lobbies are created. */
  QUICKPLAY: 93,
  /** Something of a project that is limited in number, and is counted before more is added. */
  ROOM: 95,
  /** A project whose rollups are moved on. */
  ROLLUPS: 97,
} as const;

/** Advisory locks with one key. */
export const LOCKS = {
  /** Held while a migration runs. */
  MIGRATION: 7_740,
  /** Held while partitions are created. */
  PARTITIONS: 7_741,
  PLATFORM_TOKENS: 7_742,
} as const;

/** How long state lives: until its transaction is over, or until `transact` returns, through its retries. */
type Life = "TRANSACTION" | "RETRIES";

/** Names the state of one feature, and says how it begins. */
type StateKey<T, L extends Life> = {
  readonly name: string;
  readonly life: L;
  readonly initial: () => T;
};

/** Creates the key of state in `work.local`: once, in the module of the feature that owns it. */
export const localKey = <T>(name: string, initial: () => T): StateKey<T, "TRANSACTION"> => ({
  name,
  life: "TRANSACTION",
  initial,
});

/** Creates the key of state in `work.retained`: once, in the module of the feature that owns it. */
export const retainedKey = <T>(name: string, initial: () => T): StateKey<T, "RETRIES"> => ({
  name,
  life: "RETRIES",
  initial,
});

/**
 * State that features keep with a transaction, each under its own key. It dies with the transaction, and no
 * other sees it.
 */
export class WorkState<L extends Life> {
  readonly #values = new Map<StateKey<unknown, L>, unknown>();

  /** Returns the state of a feature: what it has set, or what it begins with. */
  get<T>(key: StateKey<T, L>): T {
    if (!this.#values.has(key)) this.#values.set(key, key.initial());
    return this.#values.get(key) as T;
  }

  set<T>(key: StateKey<T, L>, value: T): void {
    this.#values.set(key, value);
  }
}

/**
 * Rows that a transaction may see (row-level security). "web": those of the tenant and of the named projects.
 * "accounts": the accounts of all tenants, and no players: for look-ups before a tenant is known, and for
 * super-admins. Without one: everything, for workers, the relay and ingestion.
 */
export type RowScope = { by?: Actor } & (
  | {
      role: "web";
      tenantId: string;
      projectIds: readonly string[];
      /** How far the clock of its project is ahead of the server's, in ms; absent: not at all. */
      aheadMs?: number;
    }
  | { role: "accounts" }
);

/**
 * A transaction in progress. Domain functions take a Work; they never open, flush or commit one, and access
 * nothing but the database while they hold it.
 */
export type Work = {
  /** Unit of work for definitions and accounts. */
  em: SqlEntityManager;
  /** SQL inside this transaction, for hot paths. */
  db: Db;
  /** The time for everything about players: in a sandbox, that of its clock. */
  now: Date;
  /** The server's time: for leases, retries, keys, limits and retention. */
  serverNow: Date;
  /** Originator of the request; undefined for work of the server itself. */
  by: Actor | undefined;
  /** The request's part in a transaction that it shares with others; undefined where it has its own. */
  member: Member | undefined;
  /** Whether requests share the transaction: none of them may then wait for locks of its own. */
  isShared: boolean;
  /** What features keep until the transaction is over, each under its `localKey`. */
  local: WorkState<"TRANSACTION">;
  /** What they keep until `transact` returns, through its retries, each under its `retainedKey`. */
  retained: WorkState<"RETRIES">;
  /** Its turns among the transactions of this process; see bulkhead.ts. */
  lanes: { readonly undone: number; take(key: string): void; has(key: string): boolean };
  /** Puts an event into the outbox of this commit. */
  emit<T extends EventType>(projectId: string, type: T, data: EventData<T>, options?: EmitOptions): void;
  /** Notifies the relays of outbox rows that a statement has written, once the commit is durable. */
  wroteOutbox(rows: readonly OutboxRow[]): void;
  /** Makes this process read of a project anew, once the commit is durable. `emit` and outbox rows do too. */
  changed(projectId: string): void;
  /** Notifies the workers of tracked events' partitions once the commit is durable. */
  wakeEvents(parts: Iterable<number>): void;
  /** Notifies the workers of projects' long work once the commit is durable. */
  wakeJobs(): void;
  /** Notifies the delivery of webhooks with something to send once the commit is durable. */
  wakeWebhooks(ids: Iterable<string>): void;
  /** Runs once the commit is durable; an error there is logged and rolls nothing back. */
  afterCommit(run: () => void): void;
  /** Returns a function that forgets what has been emitted and noted since: for what is rolled back alone. */
  mark(): () => void;
};

export type Transact = <T>(run: (work: Work) => Promise<T>) => Promise<T>;

/** Creates a Transact whose transactions see no more than `rowScope`. */
export type TransactAs = (rowScope: RowScope) => Transact;

const keyOf = (projectId: string): number => fnv1a(projectId) | 0;

/** The waiting events of a project in one partition. */
type ProjectPartition = { projectId: string; part: number };

const keyOfPartition = ({ projectId, part }: ProjectPartition): number => fnv1a(`${projectId} ${part}`) | 0;

/**
 * Locks the definitions of projects against changes until commit. To be called before evaluation, which reads
 * the config version in a later statement: a statement sees what was committed before it began, not before
 * its lock was granted. Not a row lock: share locks on a row overtake a waiting writer, which would starve;
 * advisory locks are granted in order.
 */
export const shareConfig = async ({ db }: Work, projectIds: readonly string[]): Promise<void> => {
  // All in one order, so that batches and changes cannot deadlock.
  const keys = [...new Set(projectIds)].toSorted().map(keyOf);
  await unansweredKept(
    db,
    sql`
    select pg_advisory_xact_lock_shared(${LOCK_SPACES.DEFINITIONS}::int, k)
    from unnest(${`{${keys.join(",")}}`}::int[]) as u(k)`,
  );
};

/**
 * As `shareConfig`, for a claim: without waiting for transactions that change definitions, or wait to. It
 * also locks events against `holdEvents`, so that the hot path has one statement for both.
 * @returns whether the definitions of a project, and the events of a partition, are locked
 */
export const tryShareConfig = async (
  { db }: Work,
  projectIds: readonly string[],
  places: readonly ProjectPartition[],
): Promise<{ hasConfig(projectId: string): boolean; hasEvents(place: ProjectPartition): boolean }> => {
  const configs = new Set(projectIds.map(keyOf));
  const events = new Set(places.map(keyOfPartition));
  const result = await kept(
    db,
    sql<{ s: number; k: number; ok: boolean }>`
    select s, k, pg_try_advisory_xact_lock_shared(s, k) as ok from (
      select ${LOCK_SPACES.DEFINITIONS}::int as s, k
      from unnest(${`{${[...configs].join(",")}}`}::int[]) as u(k)
      union all
      select ${LOCK_SPACES.EVENTS}::int, k from unnest(${`{${[...events].join(",")}}`}::int[]) as u(k)) x`,
  );
  const granted = new Set(result.rows.filter(({ ok }) => ok).map(({ s, k }) => `${s} ${k}`));
  return {
    hasConfig: (projectId) => granted.has(`${LOCK_SPACES.DEFINITIONS} ${keyOf(projectId)}`),
    hasEvents: (place) => granted.has(`${LOCK_SPACES.EVENTS} ${keyOfPartition(place)}`),
  };
};

/**
 * Waits until no claim holds events of a project in these partitions, and keeps claims from them until
 * commit; claims of other projects' events go on. A claim may have read them before: a change to a waiting
 * event must requeue it or remove it from the queue, which rolls such a claim back. To be called before
 * definitions and players are locked, as in the lock order of claims.
 */
export const holdEvents = async ({ db }: Work, projectId: string, parts: Iterable<number>): Promise<void> => {
  const keys = [...new Set([...parts].map((part) => keyOfPartition({ projectId, part })))].toSorted(
    (a, b) => a - b,
  );
  await unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.EVENTS}::int, k)
    from unnest(${`{${keys.join(",")}}`}::int[]) as u(k)`,
  );
};

/**
 * Waits until no other transaction of this process is about to change the project's definitions: in order of
 * arrival, without holding a connection. `changeConfig` does so too; to be called first where other
 * statements precede it.
 * @throws LaneOccupied, handled by `transact`
 */
export const awaitConfigLane = ({ lanes }: Work, projectId: string): void => lanes.take(turnOf(projectId));

const turnOf = (projectId: string): string => `config ${projectId}`;

/** Whether this transaction changes a project's definitions: their version is not final until it commits. */
export const mayChangeConfig = ({ lanes }: Work, projectId: string): boolean => lanes.has(turnOf(projectId));

/**
 * Waits for all batches of a project, and keeps others waiting until commit: for changes of what evaluation
 * reads with the project, apart from its definitions.
 */
export const holdConfig = async (work: Work, projectId: string): Promise<void> => {
  awaitConfigLane(work, projectId);
  work.changed(projectId);
  await unanswered(
    work.db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.DEFINITIONS}::int, ${keyOf(projectId)}::int)`,
  );
};

/**
 * Increments a project's config version under an exclusive lock: it waits for all batches that evaluate with
 * the previous definitions, and later batches wait for this commit and see the new ones. Reads after this
 * call therefore see all effects of the former and none of the latter.
 */
export const changeConfig = async (work: Work, projectId: string): Promise<void> => {
  await holdConfig(work, projectId);
  await sql`update projects set config_version = config_version + 1 where id = ${projectId}`.execute(work.db);
};

/** Maximum exact count of a list; a longer list reports this number, flagged as an estimate. */
export const TOTAL_EXACT_MAX = 100_000;

export type Total = { total: number; isEstimated: boolean };

/** Counts the rows of a filter, at most TOTAL_EXACT_MAX + 1 of them. */
export const countUpTo = async <T extends object>(
  { em }: Work,
  entity: EntityName<T>,
  where: FilterQuery<T>,
): Promise<Total> => {
  const some = em
    .createQueryBuilder(entity)
    .select(raw("1 as one"))
    .where(where as never)
    .limit(TOTAL_EXACT_MAX + 1);
  const row = await em
    .createQueryBuilder(some as never, "counted")
    .select(raw("count(*) as total"))
    .execute<{ total: number }>("get", false);
  return totalOf(row.total);
};

/** How a row is read that is locked until the commit. */
export const LOCKED = { lockMode: LockMode.PESSIMISTIC_WRITE, refresh: true } as const;

type OrderBy = Record<string, string> | Record<string, string>[];

/** Reads a page of the rows of a filter, and counts all of them as `countUpTo` does. */
export const findPage = async <T extends object>(
  work: Work,
  entity: EntityName<T>,
  where: FilterQuery<T>,
  { query, orderBy }: { query: PageQuery; orderBy: OrderBy },
): Promise<Total & { rows: T[] }> => {
  const page = { orderBy: orderBy as never, limit: query.limit, offset: offsetOf(query) };
  const rows = (await work.em.find(entity, where as never, page)) as T[];
  return { rows, ...(await countUpTo(work, entity, where)) };
};

/** Returns the row of an id that a caller has given. @throws NOT_FOUND also for what is no id */
export const getRow = async <T extends object>(
  { em }: Work,
  entity: EntityName<T>,
  what: string,
  where: FilterQuery<T> & { id: string },
): Promise<T> => {
  const found = isId(where.id) ? await em.findOne(entity, where as never) : null;
  if (!found) throw notFound(what);
  return found;
};

/** As `countUpTo`, for SQL: `source` is the text after `from`. */
export const countRows = async ({ db }: Work, source: RawBuilder<unknown>): Promise<Total> => {
  const { rows } = await sql<{ total: number }>`
    select count(*) as total
    from (select 1 from ${source} limit ${TOTAL_EXACT_MAX + 1}) as counted`.execute(db);
  return totalOf(rows[0]?.total ?? 0);
};

type Counted = { total: number };

/**
 * Reads a page of rows that carry the total of all (`count(*) over ()`); past the last page one more statement
 * asks for it. @param select the statement, given what follows its conditions
 */
export const readCounted = async <R extends Counted>(
  { db }: Work,
  select: (rest: RawBuilder<unknown>) => RawBuilder<R>,
  page: RawBuilder<unknown>,
): Promise<{ rows: R[]; total: number }> => {
  const { rows } = await select(page).execute(db);
  const first = rows[0] ?? (await select(sql`limit 1`).execute(db)).rows[0];
  return { rows, total: first?.total ?? 0 };
};

const totalOf = (total: number): Total => ({
  total: Math.min(total, TOTAL_EXACT_MAX),
  isEstimated: total > TOTAL_EXACT_MAX,
});

/** A project's clock, as far as it differs from the server's. */
export type ProjectClock = {
  /** How far the clock is ahead of the server's, in ms: 0 for every project that is no sandbox. */
  clockAheadMs: number;
};

/** Returns the time of a project's clock within a transaction. */
export const projectTime = ({ serverNow }: Pick<Work, "serverNow">, { clockAheadMs }: ProjectClock): Date =>
  clockAheadMs === 0 ? serverNow : new Date(serverNow.getTime() + clockAheadMs);

/** Returns the same transaction at the time of a project's clock. */
export const atProjectTime = (work: Work, clock: ProjectClock): Work => {
  const now = projectTime(work, clock);
  return now.getTime() === work.now.getTime() ? work : { ...work, now };
};

/** What of a project is limited in number. */
type Limited =
  | "jobs"
  | "rules"
  | "lobbies"
  | "channels"
  | "event schemas"
  | "drafts"
  | "exports"
  | "reports"
  | `codes ${string}`
  | `quest codes ${string}`;

/** Part of a limit from which on it is counted under the lock. */
const NEAR = 0.9;

/** Whether a limit is so near that those who ask at once could exceed it together. */
export const isNear = (count: number, max: number): boolean => count >= max * NEAR;

/**
 * Makes transactions that add to what a project may have a limited number of take turns until commit: two
 * that count at the same time would both find the last place free. To be called before they are counted, and
 * before rows are locked that another such transaction may wait for.
 */
export const lockRoom = ({ db }: Work, projectId: string, limited: Limited): Promise<void> => {
  const key = fnv1a(`${projectId} ${limited}`) | 0;
  return unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.ROOM}::int, ${key}::int)`,
  );
};

/**
 * Counts what is added often, up to `max`, and takes the lock only where the limit is near: far from it, no
 * number of transactions at once can reach it. `source` is the text after `from`.
 */
export const countNear = async (
  work: Work,
  { projectId, limited, max }: { projectId: string; limited: Limited; max: number },
  source: RawBuilder<unknown>,
): Promise<number> => {
  const count = async (): Promise<number> => {
    const { rows } = await sql<{ n: number }>`
      select count(*) as n from (select 1 from ${source} limit ${max}) as counted`.execute(work.db);
    return rows[0]!.n;
  };
  const first = await count();
  if (!isNear(first, max) || first >= max) return first;
  await lockRoom(work, projectId, limited);
  return count();
};

/**
 * Runs `run` under a savepoint: an error rolls back only its own changes, and what was emitted with them is not
 * told. MikroORM's nested transaction would
 * fork the identity map; this one is plain SQL for the batch path.
 */
export const savepoint = async <T>({ db, mark }: Work, run: () => Promise<T>): Promise<T> => {
  const forget = mark();
  await unanswered(db, sql`savepoint laurel`);
  try {
    const value = await run();
    await sql`release savepoint laurel`.execute(db);
    return value;
  } catch (error) {
    forget();
    await sql`rollback to savepoint laurel`.execute(db);
    // Otherwise an outer savepoint of the same name would refer to it.
    await sql`release savepoint laurel`.execute(db);
    throw error;
  }
};

/**
 * Thrown in a transaction that needs something that takes too long to prepare while it holds its locks. The
 * transaction is rolled back, `prepare` is awaited, and it is retried.
 */
export abstract class Unprepared extends Error {
  /**
   * Prepares what was missing, outside any transaction; the retry must not need it again.
   * @param transact for short read-only transactions
   */
  abstract prepare(transact: Transact): Promise<void>;
}

/**
 * The rows of `usage_counters` of a tenant and month are told apart by their slot: 0 is locked to give the
 * others room (tracking/meter.ts), those above 0 count events, and those below count players.
 */
export const MAIN_SLOT = 0;

/** Returns the month of a time, such as 202611; months are those of UTC. */
export const monthOf = (time: Date): number => time.getUTCFullYear() * 100 + time.getUTCMonth() + 1;

/** Returns the beginning of the month of a time, or of one `later`, in UTC. */
export const monthStart = (time: Date, later = 0): Date =>
  new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + later));

/** Players of a tenant that became active in a month. */
type PlayersAdded = { tenantId: string; players: number };

/**
 * Counts active players in the transaction of a claim that holds the partition `part` until it ends. Nobody
 * else ever writes this row, so it may be followed by anything: no transaction waits for it.
 */
export const addPlayers = async (work: Work, part: number, added: readonly PlayersAdded[]): Promise<void> => {
  if (added.length === 0) return;
  const rows = added.map(({ tenantId, players }) => ({ t: tenantId, p: players }));
  await unansweredKept(
    work.db,
    sql`with x as materialized (
        select t, p from json_to_recordset(${JSON.stringify(rows)}::json) as x(t uuid, p bigint)),
      u as (
        insert into usage_counters as u (tenant_id, month, slot, players)
        select t, ${monthOf(work.serverNow)}::int, ${-1 - (part % PARTITIONS)}::smallint, p from x
        on conflict (tenant_id, month, slot) do update set players = u.players + excluded.players)
      insert into usage_changes (tenant_id) select t from x`,
  );
};

/** Has what a tenant uses compared with its plan, within a minute (accounts/billing/usage-notices.ts). */
export const noteUsageChange = async ({ db }: Work, tenantId: string): Promise<void> => {
  await sql`insert into usage_changes (tenant_id) values (${tenantId}::uuid)`.execute(db);
};
