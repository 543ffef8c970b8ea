import { setTimeout as delay } from "node:timers/promises";
import { FavouredSearch } from "./favoured-search.ts";

/** Steps of one project in one claim that make it expensive: half of a claim's budget. */
export const EXPENSIVE_STEPS = 1_000_000;
/** Steps in one claim with which an expensive project stays expensive. */
const STILL_EXPENSIVE_STEPS = EXPENSIVE_STEPS / 4;
/** How long a project stays expensive after its last such claim, in ms. */
export const EXPENSIVE_MS = 10_000;
/** How long a project counts as a neighbour after it was last seen, in ms. */
export const NEIGHBOUR_MS = 10_000;
/** Claims of a process that may contain events of expensive projects at once: all but one. */
export const EXPENSIVE_CLAIMS_MAX = 3;
/**
 * CPU time in ms that one event exceeds only if its steps are grossly underestimated: half as long as the
 * transaction of a claim may be idle (`BATCH` in timeouts.ts).
 */
export const SLOW_EVENT_MS = 1_500;
/** How long the events of a project with such an event stay in the queue, as a multiple of its CPU time. */
const PAUSE_FACTOR = 4;
/** Maximum of that time, in ms. */
const PAUSE_MAX_MS = 60_000;
/** Expensive projects that a process remembers; the one that became expensive first is forgotten. */
const EXPENSIVE_PROJECTS_MAX = 1_000;

/**
 * Projects that may be left out of claims at once; events of further ones are claimed, and skipped, each
 * time.
 */
const WAITING_MAX = 100;

/** Consumption of a project in a claim. */
export type Taken = {
  /** The tenant of the project; absent: the project counts as a tenant of its own. */
  tenantId?: string;
  /** Derived from the time where evaluation takes longer than its steps account for. */
  steps: number;
  events: number;
  /** CPU time of the slowest event, in ms. */
  slowestMs: number;
};

type Charged = { steps: number; untilMs: number };

type ExpensiveProject = {
  untilMs: number;
  /** Average steps of one of its events. */
  stepsEach: number;
  /** The last claim found its events but reached none of them: the next claim begins with them. */
  isNext: boolean;
  /** The claim that holds its events exclusively. */
  holder: ClaimShare | undefined;
  /** Keeps its events out of all claims until `untilMs`, when `over` resolves. */
  pause: { untilMs: number; over: Promise<void> } | undefined;
};

/**
 * Shares the claims of a process among projects. A project that takes much of a claim is expensive: while it
 * has neighbours, only one claim at a time may hold its events, and the others continue with everybody
 * else's. At most EXPENSIVE_CLAIMS_MAX claims contain events of expensive projects at once. A project that is
 * alone gets all claims. After an event of SLOW_EVENT_MS, which blocked the whole process, its project pauses
 * for a multiple of that time, in which the others lose nothing: not even if such an event rolls back all
 * running claims. Tenants over their share let all others go first (`FavouredSearch`). The state only decides
 * the order, so it may be lost.
 */
export class ClaimShares {
  readonly #nowMs: () => number;
  readonly #expensive = new Map<string, ExpensiveProject>();
  readonly #charged = new Map<string, Charged>();
  /** Projects whose events are left in the queue, with the promise that ends it. */
  readonly #waiting = new Map<string, Promise<void>>();
  readonly #neighbours = new Neighbours();
  readonly #favoured: FavouredSearch;

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
    this.#favoured = new FavouredSearch(nowMs);
  }

  /** Opens the share of a new claim; to be closed when its transaction is over. */
  open(): ClaimShare {
    const nowMs = this.#nowMs();
    for (const [id, { untilMs, holder }] of this.#expensive) {
      if (!holder && untilMs <= nowMs) this.#expensive.delete(id);
    }
    const holders = new Set([...this.#expensive.values()].flatMap(({ holder }) => holder ?? []));
    const isFull = holders.size >= EXPENSIVE_CLAIMS_MAX;
    const pauses = [...this.#expensive.values()].flatMap(({ pause }) =>
      isOver(pause, nowMs) ? [] : pause!.over,
    );
    const isClosed = ({ holder, pause }: ExpensiveProject): boolean =>
      isFull || holder !== undefined || !isOver(pause, nowMs);
    const closed = [...this.#expensive].filter(([, project]) => isClosed(project));
    const free = [...this.#expensive].filter(([, project]) => !isClosed(project));
    const held = new Map(free.filter(([id]) => this.#neighbours.has(id, nowMs)));
    const waiting = [...this.#waiting.values()];
    return new ClaimShare({
      closed: [...new Set([...closed.map(([id]) => id), ...this.#waiting.keys()])],
      reopened: Promise.race([...[...holders].map(({ changed }) => changed), ...pauses, ...waiting]),
      held,
      favoured: this.#favoured,
      onFound: (ids) => this.#neighbours.seen(ids, this.#nowMs()),
      onTaken: (id, taken) => {
        this.#favoured.charge({ projectId: id, tenantId: taken.tenantId ?? id }, taken.steps);
        this.#note(id, taken);
      },
    });
  }

  /** Charges steps outside events: EXPENSIVE_STEPS within EXPENSIVE_MS make a project expensive, too. */
  charge(id: string, steps: number): void {
    const nowMs = this.#nowMs();
    for (const [first, { untilMs }] of this.#charged) {
      if (untilMs > nowMs && this.#charged.size <= EXPENSIVE_PROJECTS_MAX) break;
      this.#charged.delete(first);
    }
    const charged = this.#charged.get(id) ?? { steps: 0, untilMs: nowMs + EXPENSIVE_MS };
    charged.steps += steps;
    this.#charged.set(id, charged);
    this.#note(id, { steps: charged.steps, events: 0, slowestMs: 0 });
  }

  /** Leaves the events of a project in the queue until `over`, which never rejects. */
  wait(id: string, over: Promise<unknown>): void {
    if (this.#waiting.size >= WAITING_MAX) return;
    this.#waiting.set(
      id,
      over.then(() => void this.#waiting.delete(id)),
    );
  }

  #note(id: string, { steps, events, slowestMs }: Taken): void {
    const known = this.#expensive.get(id);
    if (steps < (known ? STILL_EXPENSIVE_STEPS : EXPENSIVE_STEPS)) return;
    const nowMs = this.#nowMs();
    const pause = slowestMs < SLOW_EVENT_MS ? known?.pause : pauseOf(slowestMs, nowMs);
    const untilMs = Math.max(nowMs + EXPENSIVE_MS, pause?.untilMs ?? 0);
    const project = known ?? { untilMs, stepsEach: 0, isNext: false, holder: undefined, pause };
    Object.assign(project, { untilMs, stepsEach: events === 0 ? project.stepsEach : steps / events, pause });
    this.#expensive.set(id, project);
    this.#makeRoom();
  }

  #makeRoom(): void {
    if (this.#expensive.size <= EXPENSIVE_PROJECTS_MAX) return;
    const first = [...this.#expensive].find(([, { holder }]) => holder === undefined);
    if (first) this.#expensive.delete(first[0]);
  }
}

const pauseOf = (slowestMs: number, nowMs: number): NonNullable<ExpensiveProject["pause"]> => {
  const restMs = Math.min(PAUSE_MAX_MS, PAUSE_FACTOR * slowestMs);
  return { untilMs: nowMs + restMs, over: delay(restMs, undefined, { ref: false }) };
};

const isOver = (pause: ExpensiveProject["pause"], nowMs: number): boolean =>
  pause === undefined || pause.untilMs <= nowMs;

/** Tracks the project seen last, and the last one that differs from it. */
class Neighbours {
  #latest = { id: "", ms: -Infinity };
  #other = { id: "", ms: -Infinity };

  seen(ids: Iterable<string>, ms: number): void {
    for (const id of ids) {
      if (id !== this.#latest.id) this.#other = this.#latest;
      this.#latest = { id, ms };
    }
  }

  /** Returns whether a project other than this one has been seen lately. */
  has(id: string, nowMs: number): boolean {
    const { ms } = this.#latest.id === id ? this.#other : this.#latest;
    return ms > nowMs - NEIGHBOUR_MS;
  }
}

type ShareParts = {
  closed: readonly string[];
  favoured: FavouredSearch;
  reopened: Promise<void>;
  held: Map<string, ExpensiveProject>;
  onFound: (ids: Iterable<string>) => void;
  onTaken: (id: string, taken: Taken) => void;
};

/** Decides which waiting events a claim may take. */
export class ClaimShare {
  /** Projects whose events stay in the queue because other claims are processing some of them. */
  readonly closed: readonly string[];
  /** Resolves when it is time to look for these events again, at the latest when those claims are over. */
  readonly reopened: Promise<void>;
  /** The search for events that go before those of tenants over their share. */
  readonly favoured: FavouredSearch;
  readonly #parts: ShareParts;
  readonly #held: Map<string, ExpensiveProject>;
  #change = Promise.withResolvers<void>();

  constructor(parts: ShareParts) {
    this.closed = parts.closed;
    this.reopened = parts.reopened;
    this.favoured = parts.favoured;
    this.#parts = parts;
    this.#held = parts.held;
    for (const project of this.#held.values()) project.holder = this;
  }

  /** Resolves when the claim releases projects that it holds. */
  get changed(): Promise<void> {
    return this.#change.promise;
  }

  /**
   * Returns the size of a batch that takes `stepsMax`, at most `max`: small where events may be expensive.
   */
  batchOf(max: number, stepsMax: number): number {
    const each = Math.max(0, ...[...this.#held.values()].map(({ stepsEach }) => stepsEach));
    return Math.max(1, Math.min(max, Math.ceil(stepsMax / each)));
  }

  /**
   * Records the events that the claim found, and releases expensive projects that are not among them.
   * @returns the events in the order of evaluation: expensive ones last, unless the previous claim did not
   * reach them
   */
  found<T extends { projectId: string }>(events: readonly T[]): T[] {
    const ids = new Set(events.map(({ projectId }) => projectId));
    this.#parts.onFound(ids);
    this.#letGo([...this.#held.keys()].filter((id) => !ids.has(id)));
    const turn = (id: string): number => {
      const project = this.#held.get(id);
      if (project === undefined) return 1;
      return project.isNext ? 0 : 2;
    };
    return events.toSorted((a, b) => turn(a.projectId) - turn(b.projectId));
  }

  /** Records the consumption of the claim by project, and releases all projects. */
  close(taken: ReadonlyMap<string, Taken>): void {
    for (const [id, project] of this.#held) project.isNext = (taken.get(id)?.events ?? 0) === 0;
    for (const [id, of] of taken) this.#parts.onTaken(id, of);
    this.#letGo([...this.#held.keys()]);
  }

  #letGo(ids: readonly string[]): void {
    if (ids.length === 0) return;
    for (const id of ids) {
      this.#held.get(id)!.holder = undefined;
      this.#held.delete(id);
    }
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }
}
