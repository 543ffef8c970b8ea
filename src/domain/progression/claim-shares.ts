import { setTimeout as delay } from "node:timers/promises";
import { CLAIM_PROJECTS, FIRST_PROJECT } from "./queue.ts";
import { type Order, TenantLoads } from "./tenant-loads.ts";

/** Steps of one project in one claim that make it dear: half of what a claim may take. */
export const DEAR_STEPS = 1_000_000;
/** Steps in one claim with which a dear project stays so. */
const STILL_DEAR_STEPS = DEAR_STEPS / 4;
/** How long a project is dear after the last such claim, in ms. */
export const DEAR_MS = 10_000;
/** How long a project counts as a neighbour after it was last seen, in ms. */
export const NEIGHBOUR_MS = 10_000;
/** Claims of a process that may have events of dear projects at once: one less than it makes. */
export const DEAR_CLAIMS_MAX = 3;
/**
 * CPU that evaluation of one event never takes unless its steps are far too few, in ms: half as long as the
 * transaction of a claim may stand still (`BATCH` in patience.ts).
 */
export const SLOW_EVENT_MS = 1_500;
/** How long the events of a project with such an event stay in the queue, in times of what it has taken. */
const REST_TIMES = 4;
/** The longest such rest, in ms. */
const REST_MAX_MS = 60_000;
/** Dear projects that a process remembers; the one that became dear first is forgotten. */
const DEAR_PROJECTS_MAX = 1_000;

/** How soon events of a tier are looked for again where there were none, in ms. */
const LOOK_AGAIN_MS = 20;

/** Projects that wait for something at once; the events of more are found, and left, by each claim. */
const WAITING_MAX = 100;

/** What a claim has taken up of a project. */
export type Taken = {
  /** Whose the project is; absent: the project stands for itself. */
  tenantId?: string;
  /** For evaluation that takes longer than its steps say, those of its time. */
  steps: number;
  events: number;
  /** CPU of the slowest event, in ms. */
  slowestMs: number;
};

type Charged = { steps: number; untilMs: number };

type Dear = {
  untilMs: number;
  /** Steps of one of its events, on average. */
  stepsEach: number;
  /** The last claim found its events and came to none of them: the next one begins with them. */
  isOwed: boolean;
  /** The claim that alone may have its events. */
  holder: ClaimShare | undefined;
  /** No claim has its events until `untilMs`, when `over` resolves. */
  rest: { untilMs: number; over: Promise<void> } | undefined;
};

/**
 * Shares the claims of a process among projects. One that takes much of a claim is dear: while it has
 * neighbours, one claim at once may have its events, and the others go on with those of everybody else.
 * Claims with events of any dear project are DEAR_CLAIMS_MAX at once. A project that is alone has all claims.
 * After an event of SLOW_EVENT_MS, for which the whole process stood still, its project rests for longer than
 * that, in which nothing of others is lost: not even if such an event undoes all claims that are under way.
 * Tenants who take more than their share let all others go first (`TenantLoads`).
 * What is remembered here decides who goes first, and nothing else: it may be lost.
 */
export class ClaimShares {
  readonly #nowMs: () => number;
  readonly #dear = new Map<string, Dear>();
  readonly #charged = new Map<string, Charged>();
  /** Projects whose events are not to be looked at, until when. */
  readonly #waiting = new Map<string, Promise<void>>();
  readonly #neighbours = new Neighbours();
  readonly #loads: TenantLoads;
  /** Where the next look for events of a tier begins, by tier and partition; else at the beginning. */
  readonly #tierCursors = new Map<string, string>();
  /** When a look for events of each tier last found none. */
  readonly #noneMs: number[] = [];

  /** @param nowMs a clock that only goes forward */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
    this.#loads = new TenantLoads(nowMs);
  }

  /** Opens the share of a claim that is about to begin; it is to be closed when its transaction is over. */
  open(): ClaimShare {
    const nowMs = this.#nowMs();
    for (const [id, { untilMs, holder }] of this.#dear) {
      if (!holder && untilMs <= nowMs) this.#dear.delete(id);
    }
    const holders = new Set([...this.#dear.values()].flatMap(({ holder }) => holder ?? []));
    const isFull = holders.size >= DEAR_CLAIMS_MAX;
    const rests = [...this.#dear.values()].flatMap(({ rest }) => (isOver(rest, nowMs) ? [] : rest!.over));
    const isClosed = ({ holder, rest }: Dear): boolean =>
      isFull || holder !== undefined || !isOver(rest, nowMs);
    const closed = [...this.#dear].filter(([, dear]) => isClosed(dear));
    const free = [...this.#dear].filter(([, dear]) => !isClosed(dear));
    const held = new Map(free.filter(([id]) => this.#neighbours.has(id, nowMs)));
    const waiting = [...this.#waiting.values()];
    return new ClaimShare({
      closed: [...new Set([...closed.map(([id]) => id), ...this.#waiting.keys()])],
      reopened: Promise.race([...[...holders].map(({ changed }) => changed), ...rests, ...waiting]),
      held,
      order: this.#loads.order(),
      isDue: (tier) => nowMs - (this.#noneMs[tier] ?? -Infinity) >= LOOK_AGAIN_MS,
      cursors: this.#tierCursors,
      onNone: (tier) => void (this.#noneMs[tier] = this.#nowMs()),
      onFound: (ids) => this.#neighbours.seen(ids, this.#nowMs()),
      onTaken: (id, taken) => {
        this.#loads.charge(id, taken.tenantId ?? id, taken.steps);
        this.#note(id, taken);
      },
    });
  }

  /** Counts steps that a project takes beside its events: DEAR_STEPS within DEAR_MS make it dear, too. */
  charge(id: string, steps: number): void {
    const nowMs = this.#nowMs();
    for (const [first, { untilMs }] of this.#charged) {
      if (untilMs > nowMs && this.#charged.size <= DEAR_PROJECTS_MAX) break;
      this.#charged.delete(first);
    }
    const charged = this.#charged.get(id) ?? { steps: 0, untilMs: nowMs + DEAR_MS };
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
    const known = this.#dear.get(id);
    if (steps < (known ? STILL_DEAR_STEPS : DEAR_STEPS)) return;
    const nowMs = this.#nowMs();
    const rest = slowestMs < SLOW_EVENT_MS ? known?.rest : restOf(slowestMs, nowMs);
    const untilMs = Math.max(nowMs + DEAR_MS, rest?.untilMs ?? 0);
    const dear = known ?? { untilMs, stepsEach: 0, isOwed: false, holder: undefined, rest };
    Object.assign(dear, { untilMs, stepsEach: events === 0 ? dear.stepsEach : steps / events, rest });
    this.#dear.set(id, dear);
    this.#makeRoom();
  }

  #makeRoom(): void {
    if (this.#dear.size <= DEAR_PROJECTS_MAX) return;
    const first = [...this.#dear].find(([, { holder }]) => holder === undefined);
    if (first) this.#dear.delete(first[0]);
  }
}

const restOf = (slowestMs: number, nowMs: number): NonNullable<Dear["rest"]> => {
  const restMs = Math.min(REST_MAX_MS, REST_TIMES * slowestMs);
  return { untilMs: nowMs + restMs, over: delay(restMs, undefined, { ref: false }) };
};

const isOver = (rest: Dear["rest"], nowMs: number): boolean => rest === undefined || rest.untilMs <= nowMs;

/** The project that was seen last, and the last one that is another. */
class Neighbours {
  #latest = { id: "", ms: -Infinity };
  #other = { id: "", ms: -Infinity };

  seen(ids: Iterable<string>, ms: number): void {
    for (const id of ids) {
      if (id !== this.#latest.id) this.#other = this.#latest;
      this.#latest = { id, ms };
    }
  }

  /** Whether another project than this one has been seen lately. */
  has(id: string, nowMs: number): boolean {
    const { ms } = this.#latest.id === id ? this.#other : this.#latest;
    return ms > nowMs - NEIGHBOUR_MS;
  }
}

type ShareParts = {
  closed: readonly string[];
  order: Order;
  isDue: (tier: number) => boolean;
  cursors: Map<string, string>;
  onNone: (tier: number) => void;
  reopened: Promise<void>;
  held: Map<string, Dear>;
  onFound: (ids: Iterable<string>) => void;
  onTaken: (id: string, taken: Taken) => void;
};

/** Which of the events that wait a claim may take. */
export class ClaimShare {
  /** Projects whose events stay in the queue, since other claims are at work on some of theirs. */
  readonly closed: readonly string[];
  /** Resolves, at the latest when those claims are over, when it is time to look for these events again. */
  readonly reopened: Promise<void>;
  readonly #parts: ShareParts;
  readonly #held: Map<string, Dear>;
  #change = Promise.withResolvers<void>();

  constructor(parts: ShareParts) {
    this.closed = parts.closed;
    this.reopened = parts.reopened;
    this.#parts = parts;
    this.#held = parts.held;
    for (const dear of this.#held.values()) dear.holder = this;
  }

  /** Resolves when the claim lets go of projects that it holds. */
  get changed(): Promise<void> {
    return this.#change.promise;
  }

  /** The tiers whose events are to be looked for before all others, each with the projects that it leaves. */
  get tiers(): { tier: number; putOff: readonly string[] }[] {
    const { order, isDue } = this.#parts;
    const tiers = order.putOff.map((putOff, tier) => ({ tier, putOff }));
    return tiers.filter(({ tier, putOff }) => putOff.length > 0 && isDue(tier));
  }

  /** After which project a look for events of a tier begins in a partition. */
  cursorOf(tier: number, part: number): string {
    return this.#parts.cursors.get(`${tier}:${part}`) ?? FIRST_PROJECT;
  }

  /**
   * Notes what a look for events of a tier has found in the partitions that it locked.
   * @returns the events, of whom has taken least first
   */
  foundTier<T extends { part: number; projectId: string }>(
    tier: number,
    parts: readonly number[],
    events: readonly T[],
  ): T[] {
    const { cursors, onNone, order } = this.#parts;
    if (events.length === 0) onNone(tier);
    for (const part of parts) {
      const own = events.filter((event) => event.part === part).map(({ projectId }) => projectId);
      const ids = [...new Set(own)].toSorted();
      if (ids.length >= CLAIM_PROJECTS) cursors.set(`${tier}:${part}`, ids.at(-1)!);
      else cursors.delete(`${tier}:${part}`);
    }
    const loadOf = ({ projectId }: T): number => order.loads.get(projectId) ?? 0;
    return events.toSorted((one, other) => loadOf(one) - loadOf(other));
  }

  /** How many events make up a batch that takes `stepsMax`, `max` at most: few, where they may be dear. */
  batchOf(max: number, stepsMax: number): number {
    const each = Math.max(0, ...[...this.#held.values()].map(({ stepsEach }) => stepsEach));
    return Math.max(1, Math.min(max, Math.ceil(stepsMax / each)));
  }

  /**
   * Takes note of what the claim has found, and lets go of dear projects that are not among it.
   * @returns the events in the order in which they are to be taken up: what is dear comes last, unless the
   * claim before this one did not come to it
   */
  found<T extends { projectId: string }>(events: readonly T[]): T[] {
    const ids = new Set(events.map(({ projectId }) => projectId));
    this.#parts.onFound(ids);
    this.#letGo([...this.#held.keys()].filter((id) => !ids.has(id)));
    const turn = (id: string): number => {
      const dear = this.#held.get(id);
      if (dear === undefined) return 1;
      return dear.isOwed ? 0 : 2;
    };
    return events.toSorted((a, b) => turn(a.projectId) - turn(b.projectId));
  }

  /** Notes what the claim took up of each project, and lets go of all. */
  close(taken: ReadonlyMap<string, Taken>): void {
    for (const [id, dear] of this.#held) dear.isOwed = (taken.get(id)?.events ?? 0) === 0;
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
