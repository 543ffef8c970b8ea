import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { tooBusy } from "./bulkhead.ts";
import { outageOf } from "./outages.ts";
import { Apart, type MemberOutcome, type MemberRun, runMembers } from "./together.ts";
import { isTransacting } from "./transact.ts";
import type { RowScope, Transact, TransactAs, Work } from "./work.ts";

/** Maximum requests of one transaction. */
export const SHARING_MAX = 64;
/** Maximum requests that wait in a process, and those of one tenant. */
const WAITING_MAX = 4_000;
export const TENANT_WAITING_MAX = 1_000;

/** A scope of one project of a tenant. */
type ProjectScope = RowScope & { role: "web" };

/** Whose request shares a transaction. */
export type Sharing = {
  /** The player that it changes, as named by the request; requests of a player are served in their order. */
  player: string;
  /**
   * Whether it may share a transaction with others of the same player: it reads what they change only in the
   * change itself.
   */
  isPlain: boolean;
};

/** Creates a Transact whose transactions requests of the same scope share. */
export type SharedTransactAs = (rowScope: RowScope, sharing: Sharing) => Transact;

/**
 * Learns what becomes of groups. `left`: requests that have left theirs, ALONE for a transaction of their
 * own, NEXT for the next group; FAILED: those of a group that failed as a whole, each repeated by itself.
 */
export type CommitObserver = {
  began(requests: number): void;
  left(how: Apart["how"] | "FAILED", requests: number): void;
  /** Is told once how to read the number of requests that wait. */
  watchWaiting(read: () => number): void;
};

export type SharedCommitsOptions = {
  observer?: CommitObserver | undefined;
  transactAs: TransactAs;
  /** Maximum wait in ms for a transaction to begin. */
  waitMaxMs: number;
  /** Called before the next transaction starts; a single-connection engine serves the sockets here. */
  pause?: (() => Promise<void>) | undefined;
};

type Entry = MemberRun & {
  rowScope: ProjectScope;
  sharing: Sharing;
  untilMs: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
};

/** Whether an error is one of the database as a whole, which each request would meet by itself too. */
const isForAll = (error: unknown): boolean => {
  const outage = outageOf(error);
  return outage !== undefined && outage !== "busy";
};

/** Requests of one project in the order of their arrival. */
class Line {
  readonly key: string;
  readonly tenantId: string;
  waiting: Entry[] = [];
  isRunning = false;
  /** Players of whom a request has a transaction of its own now. */
  readonly alone = new Set<string>();
  timer: NodeJS.Timeout | undefined;

  constructor(key: string, tenantId: string) {
    this.key = key;
    this.tenantId = tenantId;
  }

  get isIdle(): boolean {
    return !this.isRunning && this.waiting.length === 0 && this.alone.size === 0;
  }

  /**
   * Takes the next requests that may share a transaction; those of one player stay in order. Those of before
   * and after an advance of the project's clock do not: a transaction has one time.
   */
  takeGroup(): Entry[] {
    const group: Entry[] = [];
    const left: Entry[] = [];
    const closed = new Set(this.alone);
    const shared = new Set<string>();
    for (const entry of this.waiting) {
      const { player, isPlain } = entry.sharing;
      const isOfTime = group.length === 0 || group[0]!.rowScope.aheadMs === entry.rowScope.aheadMs;
      const isFree = !closed.has(player) && (isPlain || !shared.has(player));
      const fits = group.length < SHARING_MAX && isOfTime && isFree;
      (fits ? group : left).push(entry);
      shared.add(player);
      if (!fits || !isPlain) closed.add(player);
    }
    this.waiting = left;
    return group;
  }

  /** Removes the requests that `test` selects. */
  remove(test: (entry: Entry) => boolean): Entry[] {
    const { true: removed = [], false: left = [] } = Object.groupBy(this.waiting, (entry) =>
      test(entry) ? "true" : "false",
    );
    this.waiting = left;
    return removed;
  }
}

const add = (counts: Map<string, number>, key: string, change: number): void => {
  const count = (counts.get(key) ?? 0) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
};

/**
 * Group commit of requests: what arrives while a transaction of its project is on its way shares the next
 * one. A request that cannot share, because others hold its player, gets a transaction of its own meanwhile;
 * a group that fails as a whole is repeated request by request. So a request fails and waits only by itself.
 */
class SharedCommits {
  readonly #options: SharedCommitsOptions;
  /** That of no request. */
  readonly #inContext = AsyncLocalStorage.snapshot();
  readonly #lines = new Map<string, Line>();
  readonly #waitingOf = new Map<string, number>();
  #waiting = 0;

  constructor(options: SharedCommitsOptions) {
    this.#options = options;
    options.observer?.watchWaiting(() => this.#waiting);
  }

  /** @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY when too many wait */
  add(entry: Entry): void {
    const { tenantId, projectIds } = entry.rowScope;
    if (this.#waiting >= WAITING_MAX || (this.#waitingOf.get(tenantId) ?? 0) >= TENANT_WAITING_MAX)
      throw tooBusy();
    const key = `${tenantId} ${projectIds[0]}`;
    const line = this.#lines.get(key) ?? new Line(key, tenantId);
    this.#lines.set(key, line);
    line.waiting.push(entry);
    this.#count(line, 1);
    this.#watch(line);
    this.#begin(line);
  }

  #begin(line: Line): void {
    if (!line.isRunning) void this.#inContext(() => this.#serve(line));
  }

  #count({ tenantId }: Line, change: number): void {
    this.#waiting += change;
    add(this.#waitingOf, tenantId, change);
  }

  async #serve(line: Line): Promise<void> {
    line.isRunning = true;
    // Requests that arrive in the same iteration of the event loop join the first group.
    await new Promise(setImmediate);
    for (;;) {
      this.#dismiss(line, ({ by }) => by?.waits?.signal.aborted === true);
      const group = line.takeGroup();
      if (group.length === 0) break;
      this.#count(line, -group.length);
      await this.#commit(line, group);
      await this.#options.pause?.();
    }
    line.isRunning = false;
    this.#end(line);
  }

  #end(line: Line): void {
    if (!line.isIdle) return;
    clearTimeout(line.timer);
    if (this.#lines.get(line.key) === line) this.#lines.delete(line.key);
  }

  /** Rejects waiting requests whose clients have gone, or that have waited for too long. */
  #dismiss(line: Line, test: (entry: Entry) => boolean): void {
    const removed = line.waiting.some(test) ? line.remove(test) : [];
    this.#count(line, -removed.length);
    for (const { by, reject } of removed) {
      const signal = by?.waits?.signal;
      reject(signal?.aborted === true ? signal.reason : tooBusy());
    }
  }

  #watch(line: Line): void {
    const [first] = line.waiting;
    if (!first || line.timer) return;
    const check = (): void => {
      line.timer = undefined;
      this.#dismiss(line, ({ untilMs }) => untilMs <= performance.now());
      this.#watch(line);
    };
    line.timer = setTimeout(check, Math.max(1, first.untilMs - performance.now()));
  }

  async #commit(line: Line, group: readonly Entry[]): Promise<void> {
    const { by: _, ...scope } = group[0]!.rowScope;
    const { observer } = this.#options;
    observer?.began(group.length);
    let hasBegun = false;
    try {
      const outcomes = await this.#options.transactAs(scope as ProjectScope)((work) => {
        hasBegun = true;
        return runMembers(work, group);
      });
      this.#putBack(
        line,
        group.filter((entry, i) => !this.#settle(line, entry, outcomes[i]!)),
      );
    } catch (error) {
      const isTheirs = !hasBegun || isForAll(error) || (group.length === 1 && !(error instanceof Apart));
      if (isTheirs) return group.forEach(({ reject }) => reject(error));
      observer?.left("FAILED", group.length);
      this.#putBack(
        line,
        group.filter((entry) => !this.#runAlone(line, entry)),
      );
    }
  }

  /** @returns whether the request is settled or on its way by itself: else it has to wait again */
  #settle(line: Line, entry: Entry, outcome: MemberOutcome): boolean {
    if ("apart" in outcome) {
      this.#options.observer?.left(outcome.apart, 1);
      return outcome.apart === "ALONE" && this.#runAlone(line, entry);
    }
    if ("error" in outcome) entry.reject(outcome.error);
    else entry.resolve(outcome.value);
    return true;
  }

  #putBack(line: Line, entries: readonly Entry[]): void {
    line.waiting.unshift(...entries);
    this.#count(line, entries.length);
    this.#watch(line);
  }

  /**
   * Begins to run a request in a transaction of its own; the others of its player wait meanwhile.
   * @returns whether it has begun: another one of the player may be on its way
   */
  #runAlone(line: Line, { rowScope, sharing, ...entry }: Entry): boolean {
    const { player } = sharing;
    if (line.alone.has(player)) return false;
    line.alone.add(player);
    const end = (): void => {
      line.alone.delete(player);
      if (line.waiting.length > 0) this.#begin(line);
      else this.#end(line);
    };
    void entry
      .inContext(() => this.#options.transactAs(rowScope)(entry.run))
      .then(entry.resolve, entry.reject)
      .finally(end);
    return true;
  }

  entryOf(rowScope: ProjectScope, sharing: Sharing, run: (work: Work) => Promise<unknown>) {
    const untilMs = performance.now() + this.#options.waitMaxMs;
    const inContext: MemberRun["inContext"] = AsyncLocalStorage.snapshot();
    return { by: rowScope.by, rowScope, sharing, untilMs, inContext, run };
  }
}

/** Creates the committer of a process. Scopes of other than one project are not shared. */
export const createSharedCommits = (options: SharedCommitsOptions): SharedTransactAs => {
  const commits = new SharedCommits(options);
  return (rowScope, sharing) => {
    if (rowScope.role !== "web" || rowScope.projectIds.length !== 1) return options.transactAs(rowScope);
    return <T>(run: (work: Work) => Promise<T>) =>
      new Promise<T>((resolve, reject) => {
        assert(!isTransacting(), "transact() inside transact()");
        const entry = commits.entryOf(rowScope, sharing, run);
        commits.add({ ...entry, resolve, reject });
      });
  };
};
