import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { sql } from "kysely";
import { ACCOUNTS_ROLE, type Db, WEB_ROLE } from "./db.ts";
import type { Events } from "./events/domain-events.ts";
import { isId } from "./ids.ts";
import {
  insertOutbox,
  insertOutboxQueue,
  OF_RANKS,
  outboxPart,
  outboxQueueRows,
  type OutboxRow,
  outboxRow,
} from "./outbox.ts";
import type { OwnChanges } from "./caches.ts";
import { Bulkhead, busy, WAITING, type Waiter } from "./bulkhead.ts";
import { asOneMessage, unansweredKept } from "./statements.ts";
import { type RowScope, type Transact, type TransactAs, Unprepared, type Work, WorkState } from "./work.ts";

/** Maximum transactions waiting in one lane, and their maximum wait in ms. */
const LANE_WAITING_MAX = 60;
const WAIT_MAX_MS = 10_000;
/**
 * Lanes that transactions of one tenant occupy at once: each holds a connection of the few of a process for
 * as long as its change takes.
 */
const TENANT_LANES = 2;

type LanesOptions = {
  /** Maximum wait in ms. */
  waitMaxMs?: number;
  /** What waits at most, of a tenant and in all. */
  bounds?: typeof WAITING;
};

/**
 * Lanes of a process by key. Each admits one transaction at a time, and those of one tenant TENANT_LANES
 * together; others wait in the order of their arrival.
 */
export class Lanes {
  readonly #lanes: Bulkhead;
  readonly #tenants: Bulkhead;

  constructor({ waitMaxMs = WAIT_MAX_MS, bounds = WAITING }: LanesOptions = {}) {
    const common = { waitMaxMs, refusal: busy };
    this.#lanes = new Bulkhead({ ...common, ...bounds, ofKey: { slots: 1, waiting: LANE_WAITING_MAX } });
    // Bounded by who is first in their lane.
    this.#tenants = new Bulkhead({ ...common, ofKey: { slots: TENANT_LANES } });
  }

  /** Enters a lane if it is free. @returns whether it was entered */
  tryEnter(key: string, { owner }: Waiter = {}): boolean {
    if (!this.#lanes.tryAcquire(key)) return false;
    if (owner === undefined || this.#tenants.tryAcquire(owner)) return true;
    this.#lanes.release(key);
    return false;
  }

  /**
   * Enters a lane after all who wait for it.
   * @param waiter its owner is the tenant
   * @throws DomainError SERVICE_UNAVAILABLE BUSY where too much waits in the lane, for the tenant or in the
   * process, or after WAIT_MAX_MS; the reason of the signal as soon as it is aborted
   */
  async enter(key: string, waiter: Waiter = {}): Promise<void> {
    await this.#lanes.acquire(key, waiter);
    if (waiter.owner === undefined) return;
    try {
      await this.#tenants.acquire(waiter.owner, waiter);
    } catch (error) {
      this.#lanes.release(key);
      throw error;
    }
  }

  /** Leaves a lane and admits the next one. @param waiter as it was entered */
  leave(key: string, { owner }: Waiter = {}): void {
    this.#lanes.release(key);
    if (owner !== undefined) this.#tenants.release(owner);
  }
}

/** The lanes that one transaction occupies, also across its retries. */
class LaneHolds {
  /** How often the transaction was rolled back to prepare something. */
  undone = 0;
  readonly #lanes: Lanes;
  readonly #waiter: Waiter;
  readonly #held = new Set<string>();

  constructor(lanes: Lanes, waiter: Waiter = {}) {
    this.#lanes = lanes;
    this.#waiter = waiter;
  }

  /**
   * Enters a lane until the transaction is over. Waiting for a database lock instead would hold one of the
   * few connections per waiter.
   * @throws LaneOccupied where another transaction of the process occupies it: this one is rolled back, waits
   * for the lane without a connection, and is retried
   */
  take(key: string): void {
    if (this.#held.has(key)) return;
    if (!this.#lanes.tryEnter(key, this.#waiter)) throw new LaneOccupied(this, key);
    this.#held.add(key);
  }

  /** Whether the transaction is in a lane. */
  has(key: string): boolean {
    return this.#held.has(key);
  }

  /** Waits for a lane, with none held meanwhile: so no two wait for one another. */
  async wait(key: string): Promise<void> {
    this.release();
    await this.#lanes.enter(key, this.#waiter);
    this.#held.add(key);
  }

  release(): void {
    for (const key of this.#held) this.#lanes.leave(key, this.#waiter);
    this.#held.clear();
  }
}

class LaneOccupied extends Unprepared {
  readonly #holds: LaneHolds;
  readonly #key: string;

  constructor(holds: LaneHolds, key: string) {
    super(`another transaction is in the lane ${key}`);
    this.#holds = holds;
    this.#key = key;
  }

  override prepare(): Promise<void> {
    return this.#holds.wait(this.#key);
  }
}

/** Wakes those who wait for rows of a commit, by what they wait for. */
export type WakeUps = {
  outbox(parts: Iterable<number>): void;
  events(parts: Iterable<number>): void;
  jobs(): void;
  webhooks(ids: Iterable<string>): void;
};

/** For contexts without consumers. */
export const NO_WAKE_UPS: WakeUps = {
  outbox: () => undefined,
  events: () => undefined,
  jobs: () => undefined,
  webhooks: () => undefined,
};

type EntriesChanged = Events["leaderboard.entries_changed"];

export type TransactParts = {
  em: SqlEntityManager;
  clock: () => Date;
  wakeUps: WakeUps;
  onError: (error: unknown) => void;
  /** Learns what is committed; absent: nobody reads from memory. */
  changes?: OwnChanges;
  /** Shared by all transactions of a process; absent: by those of one Transact. */
  lanes?: Lanes;
  /** Bounds the connections that one tenant's requests and rooms hold; absent: nothing does. */
  connections?: Bulkhead;
};

const open = new AsyncLocalStorage<true>();

/** Returns whether a transaction is open in this context: only the database may be accessed then. */
export const isTransacting = (): boolean => open.getStore() !== undefined;

/** Runs `run` as part of the transaction that the caller has open. */
export const insideTransaction = <T>(run: () => T): T => open.run(true, run);

const enter = async (db: Db, rowScope: RowScope): Promise<void> => {
  const [role, tenantId, projectIds] =
    rowScope.role === "web" ? [WEB_ROLE, rowScope.tenantId, rowScope.projectIds] : [ACCOUNTS_ROLE, "", []];
  assert([...projectIds, ...(tenantId === "" ? [] : [tenantId])].every(isId), "a row scope is made of ids");
  // Four times as fast as set_config() with parameters.
  await asOneMessage(
    db,
    sql`set local role ${sql.raw(role)};
    set local laurel.tenant_id = ${sql.lit(tenantId)};
    set local laurel.project_ids = ${sql.lit(`{${projectIds.join(",")}}`)}`,
  );
};

/**
 * Creates the only way to change the database: forks the EntityManager, begins, runs, flushes, writes the
 * outbox, commits, then wakes those who wait for its rows. Nesting is a bug (with one connection it would
 * deadlock) and fails an assertion. A transaction that throws `Unprepared` is rolled back and retried when
 * that is prepared.
 */
export const createTransact = (parts: TransactParts, rowScope?: RowScope): Transact => {
  const once = transactOnce(parts, rowScope);
  const connected = connectedIn(parts, rowScope);
  const lanes = parts.lanes ?? new Lanes();
  const tenantId = rowScope?.role === "web" ? rowScope.tenantId || undefined : undefined;
  const transact: Transact = async (run) => {
    const holds = new LaneHolds(lanes, { owner: tenantId, ...rowScope?.by?.waits });
    const retained = new WorkState<"RETRIES">();
    try {
      for (;;) {
        try {
          return await connected(() => once({ holds, retained }, run));
        } catch (error) {
          if (!(error instanceof Unprepared)) throw error;
          holds.undone++;
          await error.prepare(transact);
        }
      }
    } finally {
      holds.release();
    }
  };
  return transact;
};

/** Returns who shares connections: a tenant, the project of a room, or all who are not known yet. */
const ownerOf = (rowScope: RowScope): string =>
  rowScope.role === "web" ? rowScope.tenantId || (rowScope.projectIds[0] ?? "") : rowScope.role;

/**
 * Returns what runs work once its owner may hold a connection. Work of the server itself, which has no scope,
 * is bounded by who starts it.
 */
export const connectedIn = (
  { connections }: Pick<TransactParts, "connections">,
  rowScope: RowScope | undefined,
) => {
  if (!connections || !rowScope) return <T>(begin: () => Promise<T>): Promise<T> => begin();
  const owner = ownerOf(rowScope);
  const waiter = { signal: rowScope.by?.waits?.signal };
  return <T>(begin: () => Promise<T>): Promise<T> => connections.run(owner, begin, waiter);
};

/** What the tries of one `transact` share. */
type Tries = { holds: LaneHolds; retained: WorkState<"RETRIES"> };

const transactOnce =
  ({ em, clock, wakeUps, onError, changes }: TransactParts, rowScope?: RowScope) =>
  async <T>({ holds, retained }: Tries, run: (work: Work) => Promise<T>): Promise<T> => {
    assert(!isTransacting(), "transact() inside transact()");
    const afterCommit: (() => void)[] = [];
    const emitted: OutboxRow[] = [];
    const written: OutboxRow[] = [];
    const changed = new Set<string>();
    const wokenEvents = new Set<number>();
    const result = await open.run(true, () =>
      em.fork().transactional(async (tx) => {
        const txEm = tx;
        const work: Work = {
          em: txEm,
          db: txEm.getKysely(),
          ...timesOf(clock(), rowScope),
          by: rowScope?.by,
          member: undefined,
          isShared: false,
          local: new WorkState(),
          retained,
          lanes: holds,
          emit: (projectId, type, data, options = {}) =>
            void emitted.push(outboxRow(projectId, type, data, options)),
          wroteOutbox: (rows) => {
            for (const row of rows) written.push(row);
          },
          changed: (projectId) => void changed.add(projectId),
          wakeEvents: (parts) => {
            for (const part of parts) wokenEvents.add(part);
          },
          wakeJobs: () => void afterCommit.push(wakeUps.jobs),
          wakeWebhooks: (ids) => void afterCommit.push(() => wakeUps.webhooks(ids)),
          afterCommit: (callback) => void afterCommit.push(callback),
          // To wake somebody for nothing does no harm.
          mark: () => {
            const lengths = [emitted.length, written.length, afterCommit.length] as const;
            return () => void ([emitted.length, written.length, afterCommit.length] = lengths);
          },
        };
        if (rowScope) await enter(work.db, rowScope);
        const value = await run(work);
        await txEm.flush();
        if (emitted.length > 0) {
          await writeOutbox(work, emitted);
          work.wroteOutbox(emitted);
        }
        return value;
      }),
    );
    noteChanges(changes, { written, changed, isRequest: rowScope !== undefined });
    if (written.length > 0) afterCommit.push(() => wakeUps.outbox(new Set(written.map(outboxPart))));
    if (wokenEvents.size > 0) afterCommit.push(() => wakeUps.events(wokenEvents));
    for (const callback of afterCommit) {
      try {
        callback();
      } catch (error) {
        onError(error);
      }
    }
    return result;
  };

/** The times of a transaction: that of its project, and the server's. */
const timesOf = (serverNow: Date, rowScope: RowScope | undefined): Pick<Work, "now" | "serverNow"> => {
  const aheadMs = rowScope?.role === "web" ? (rowScope.aheadMs ?? 0) : 0;
  return { now: aheadMs === 0 ? serverNow : new Date(serverNow.getTime() + aheadMs), serverNow };
};

type Committed = { written: readonly OutboxRow[]; changed: Set<string>; isRequest: boolean };

/** Notes what a commit has changed, before anybody is told of it. */
const noteChanges = (changes: OwnChanges | undefined, { written, changed, isRequest }: Committed): void => {
  if (!changes) return;
  for (const { projectId, type, data } of written) {
    changed.add(projectId);
    if (isRequest && type === OF_RANKS) changes.keepEntries({ projectId, ...(data as EntriesChanged) });
  }
  for (const projectId of changed) changes.note(projectId);
};

/**
 * Creates Transacts that join an open transaction, for work that must share a commit with what follows. Its
 * functions see one another's changes, and an error of any rolls back all. `outer` is the scope of `work`.
 */
export const joining =
  (work: Work, outer: RowScope): TransactAs =>
  (rowScope) =>
  async (run) => {
    const isOther = rowScope !== outer;
    if (work.member) {
      assert(!isOther, "requests that share a transaction have one scope");
      return run(work);
    }
    if (isOther) await enter(work.db, rowScope);
    const value = await run({ ...work, by: rowScope.by });
    await work.em.flush();
    if (isOther) await enter(work.db, outer);
    return value;
  };

/** Writes outbox rows and their queue rows in one statement. */
const writeOutbox = async ({ db, now }: Work, rows: readonly OutboxRow[]): Promise<void> => {
  const inserted = insertOutbox(sql`${JSON.stringify(rows)}`, sql`${now.toISOString()}::timestamptz`);
  const announced = insertOutboxQueue(sql`${JSON.stringify(outboxQueueRows(rows))}`);
  await unansweredKept(db, sql`with o as (${inserted}) ${announced}`);
};
