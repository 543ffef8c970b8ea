import { setTimeout as delay } from "node:timers/promises";
import { CLAIM_PROJECTS, FIRST_PROJECT } from "./queue.ts";

/** Half-life of a tenant's recorded consumption, in ms. */
const HALF_LIFE_MS = 5_000;
/** Total steps of all tenants, within about a half-life, below which nobody has to wait for another. */
export const BUSY_STEPS = 4_000_000;
/** Maximum projects put off at once: the queue is read around each of them. */
const PUT_OFF_MAX = 100;
/** Maximum projects remembered; the one charged longest ago is forgotten. */
const PROJECTS_MAX = 2_000;

export type ProjectOwner = { projectId: string; tenantId: string };

type Charge = { steps: number; atMs: number };
type Load = Charge & { tenantId: string };

/** Fractions of an equal share; tenants above one of them come after those below it. */
const TIERS = [1 / 8, 1];

/**
 * `putOff`: for each of TIERS, the projects of tenants above it, the largest consumers first; empty while
 * nobody is put off. `loads`: consumption of the project's tenant, by project. `maxOf`: the highest
 * consumption of tenants in each tier.
 */
type Order = {
  putOff: readonly (readonly string[])[];
  loads: ReadonlyMap<string, number>;
  maxOf: readonly number[];
};

const NO_ORDER: Order = { putOff: [], loads: new Map(), maxOf: [] };

/**
 * Tracks the recent consumption of tenants in a process, however many projects they spread it over. A tenant
 * above an equal share, counting one idle tenant more, lets the others go first, and a tenant above an eighth
 * of it goes after those below. So a tenant with little work never waits for the queues of large ones, and
 * large ones share the rest. The state only decides the order, so it may be lost.
 */
export class TenantLoads {
  readonly #nowMs: () => number;
  readonly #projects = new Map<string, Load>();
  /** Consumption of all projects, forgotten ones included: usually too little to look at each. */
  #all: Charge = { steps: 0, atMs: 0 };

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  knows(projectId: string): boolean {
    return this.#projects.has(projectId);
  }

  charge({ projectId, tenantId }: ProjectOwner, steps: number): void {
    const known = this.#projects.get(projectId);
    this.#projects.delete(projectId);
    const atMs = this.#nowMs();
    this.#all = { steps: leftOf(this.#all, atMs) + steps, atMs };
    this.#projects.set(projectId, { tenantId, steps: steps + (known ? leftOf(known, atMs) : 0), atMs });
    if (this.#projects.size > PROJECTS_MAX) this.#projects.delete(this.#projects.keys().next().value!);
  }

  /** Returns which projects are put off now. */
  order(): Order {
    const nowMs = this.#nowMs();
    if (leftOf(this.#all, nowMs) < BUSY_STEPS) return NO_ORDER;
    const projects = [...this.#projects].map(([id, load]) => ({ ...load, id, steps: leftOf(load, nowMs) }));
    const byTenant = new Map<string, number>();
    for (const { tenantId, steps } of projects) byTenant.set(tenantId, (byTenant.get(tenantId) ?? 0) + steps);
    const total = [...byTenant.values()].reduce((sum, steps) => sum + steps, 0);
    if (total < BUSY_STEPS) return NO_ORDER;
    const share = total / (byTenant.size + 1);
    const most = projects.toSorted((one, other) => other.steps - one.steps);
    const putOff = TIERS.map((part) =>
      most
        .filter(({ tenantId }) => byTenant.get(tenantId)! > share * part)
        .slice(0, PUT_OFF_MAX)
        .map(({ id }) => id),
    );
    const loads = new Map(projects.map(({ id, tenantId }) => [id, byTenant.get(tenantId)!]));
    return { putOff, loads, maxOf: TIERS.map((part) => share * part) };
  }
}

const leftOf = ({ steps, atMs }: Charge, nowMs: number): number =>
  steps * 2 ** ((atMs - nowMs) / HALF_LIFE_MS);

/** How soon events of a tier are looked for again where there were none, in ms. */
const LOOK_AGAIN_MS = 20;

/** Finds events of tenants below their share before those of all others. */
class FavouredSearch {
  readonly #nowMs: () => number;
  readonly #loads: TenantLoads;
  /** Project after which the next search for events of a tier begins, by tier and partition. */
  readonly #cursors = new Map<string, string>();
  /** When a search last found no events, by tier. */
  readonly #noneMs: number[] = [];
  #order: Order;

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#loads = new TenantLoads(nowMs);
    this.#order = this.#loads.order();
  }

  charge(owner: ProjectOwner, steps: number): void {
    this.#loads.charge(owner, steps);
  }

  /** Returns the tiers to search before all other events now. */
  tiers(): number[] {
    const nowMs = this.#nowMs();
    this.#order = this.#loads.order();
    const isDue = (tier: number): boolean => nowMs - (this.#noneMs[tier] ?? -Infinity) >= LOOK_AGAIN_MS;
    return this.#order.putOff.flatMap((putOff, tier) => (putOff.length > 0 && isDue(tier) ? [tier] : []));
  }

  /** Returns the projects that a tier leaves out. */
  putOffOf(tier: number): readonly string[] {
    return this.#order.putOff[tier] ?? [];
  }

  /** Returns the project after which the search for events of a tier begins in a partition. */
  cursorOf(tier: number, part: number): string {
    return this.#cursors.get(`${tier}:${part}`) ?? FIRST_PROJECT;
  }

  /** Returns the projects of events whose tenants are not known yet. */
  unknownOf(events: readonly { projectId: string }[]): string[] {
    const ids = new Set(events.map(({ projectId }) => projectId));
    return [...ids].filter((id) => !this.#loads.knows(id));
  }

  /** Records whose projects are, before anything was charged to them. */
  learn(owners: readonly ProjectOwner[]): void {
    for (const owner of owners) this.#loads.charge(owner, 0);
    this.#order = this.#loads.order();
  }

  /**
   * Records the result of a search for events of a tier in the partitions that were locked.
   * @returns the events that belong to the tier, those of the tenants that have taken least first
   */
  found<T extends { part: number; projectId: string }>(
    tier: number,
    parts: readonly number[],
    events: readonly T[],
  ): T[] {
    for (const part of parts) {
      const own = events.filter((event) => event.part === part).map(({ projectId }) => projectId);
      const ids = [...new Set(own)].toSorted();
      if (ids.length >= CLAIM_PROJECTS) this.#cursors.set(`${tier}:${part}`, ids.at(-1)!);
      else this.#cursors.delete(`${tier}:${part}`);
    }
    const { loads, maxOf } = this.#order;
    const loadOf = ({ projectId }: T): number => loads.get(projectId) ?? 0;
    const favoured = events.filter((event) => loadOf(event) <= (maxOf[tier] ?? Infinity));
    // Where only projects of others were found, the search goes on behind them.
    if (events.length === 0) this.#noneMs[tier] = this.#nowMs();
    return favoured.toSorted((one, other) => loadOf(one) - loadOf(other));
  }
}

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
