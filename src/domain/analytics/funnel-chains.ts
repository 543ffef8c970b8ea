import type { PlayerEvents } from "./packed.ts";
import type { Steps } from "../kernel/slices.ts";

/**
 * Matching of steps and events, where one event serves one step: augmenting paths, after H. W. Kuhn: The
 * Hungarian Method for the Assignment Problem, Naval Research Logistics Quarterly 2, 1955.
 */

type Matching = {
  /** Events that each step may be, by step: any numbers; as many as there are steps are enough. */
  candidates: readonly (readonly number[])[];
  /** An event that is taken already. */
  taken?: number | undefined;
};

/** Returns whether a step gets an event, perhaps as others take another one. */
const give = (
  { candidates, taken }: Matching,
  step: number,
  { owners, asked }: { owners: Map<number, number>; asked: Set<number> },
): boolean => {
  for (const event of candidates[step]!) {
    if (event === taken || asked.has(event)) continue;
    asked.add(event);
    const owner = owners.get(event);
    if (owner !== undefined && !give({ candidates, taken }, owner, { owners, asked })) continue;
    owners.set(event, step);
    return true;
  }
  return false;
};

/** Returns how many steps, from the first one on, can all be done at once. */
const stepsFromFirst = (matching: Matching): number => {
  const owners = new Map<number, number>();
  const { length } = matching.candidates;
  let step = 0;
  while (step < length && give(matching, step, { owners, asked: new Set() })) step++;
  return step;
};

/** An exclusion: events with the mark `bit` between the events of two steps, which count from 0. */
export type Exclusion = { bit: number; from: number; to: number };

/** What a funnel asks of one player. Bit i of an event's marks says whether it may be step i. */
export type FunnelTask = {
  order: "ordered" | "strict" | "any";
  steps: number;
  windowMs: number;
  /** In which the first step must be; half-open, in ms. */
  startMs: number;
  endMs: number;
  exclude: readonly Exclusion[];
};

/** How far a player came. */
export type Chain = {
  /** Steps done; 0: none. */
  level: number;
  /** The event with which it begins: its place among the player's, and among those that may be step 0. */
  entry: number;
  entryNo: number;
  /** Times of the steps in ms; empty where they have no order. */
  times: readonly number[];
};

/** Others are served after so many events, less one. */
const YIELD_MASK = 63;

const NO_CHAIN: Chain = { level: 0, entry: -1, entryNo: -1, times: [] };

const mayBe = ({ marks }: PlayerEvents, event: number, step: number): boolean =>
  ((marks[event]! >> step) & 1) === 1;

const isInRange = ({ at }: PlayerEvents, event: number, { startMs, endMs }: FunnelTask): boolean =>
  at[event]! >= startMs && at[event]! < endMs;

const isEntry = (events: PlayerEvents, event: number, task: FunnelTask): boolean =>
  mayBe(events, event, 0) && isInRange(events, event, task);

/**
 * A player's events by moments: those of the same time have no order. Knows for each step, and each
 * exclusion, the next moment that has an event of it, so that a chain takes a jump per step.
 */
class Moments {
  readonly #events: PlayerEvents;
  readonly #steps: number;
  /** The first event of each moment, and behind the last one the number of events. */
  readonly #starts: number[] = [];
  readonly size: number;
  /** By mark: for each moment the first one, from it on, that has an event with it. */
  readonly #next: number[][] = [];
  #candidates: Map<number, number[][]> | undefined;
  /** How many steps a moment with several events does from one on. */
  #done: Map<number, number> | undefined;

  constructor(events: PlayerEvents, { steps, exclude }: FunnelTask) {
    this.#events = events;
    this.#steps = steps;
    for (let i = 0; i < events.size; i++)
      if (i === 0 || events.at[i] !== events.at[i - 1]) this.#starts.push(i);
    this.size = this.#starts.length;
    this.#starts.push(events.size);
    const bits = exclude.reduce((most, { bit }) => Math.max(most, bit + 1), steps);
    for (let bit = 0; bit < bits; bit++) this.#next.push(this.#nextOf(bit));
  }

  #nextOf(bit: number): number[] {
    const next: number[] = [];
    // From one event with the mark to the next, each moment leads to the latter.
    for (let moment = 0; moment < this.size; moment++) {
      let has = false;
      for (let i = this.#starts[moment]!; i < this.#starts[moment + 1]! && !has; i++)
        has = mayBe(this.#events, i, bit);
      if (has) while (next.length <= moment) next.push(moment);
    }
    while (next.length <= this.size) next.push(this.size);
    return next;
  }

  startOf(moment: number): number {
    return this.#starts[moment]!;
  }

  at(moment: number): number {
    return this.#events.at[this.#starts[moment]!]!;
  }

  /** The first moment from `moment` on that has an event with a mark; `size`: none. */
  next(bit: number, moment: number): number {
    return this.#next[bit]![Math.min(moment, this.size)]!;
  }

  /** How many steps from `step` on are done at a moment, by events other than `taken`. */
  stepsDone(moment: number, step: number, taken?: number): number {
    const first = this.#starts[moment]!;
    if (this.#starts[moment + 1]! - first === 1)
      return step < this.#steps && taken === undefined && mayBe(this.#events, first, step) ? 1 : 0;
    if (taken !== undefined) return this.#match(moment, step, taken);
    const key = moment * this.#steps + step;
    this.#done ??= new Map();
    let done = this.#done.get(key);
    if (done === undefined) this.#done.set(key, (done = this.#match(moment, step)));
    return done;
  }

  #match(moment: number, step: number, taken?: number): number {
    this.#candidates ??= new Map();
    let all = this.#candidates.get(moment);
    if (!all) this.#candidates.set(moment, (all = this.#candidatesOf(moment)));
    return stepsFromFirst({ candidates: all.slice(step), taken });
  }

  /** The events of a moment by step: one more than there are steps suffice for any of them to be taken. */
  #candidatesOf(moment: number): number[][] {
    const candidates = Array.from({ length: this.#steps }, (): number[] => []);
    for (let i = this.#starts[moment]!; i < this.#starts[moment + 1]!; i++)
      for (const [step, those] of candidates.entries())
        if (those.length <= this.#steps && mayBe(this.#events, i, step)) those.push(i);
    return candidates;
  }
}

/** Takes the earliest event for each step after `entry`. Returns the moments of the steps; empty if void. */
const chainFrom = (moments: Moments, task: FunnelTask, entry: number, first: number): number[] => {
  const { steps, windowMs, exclude } = task;
  const lastMs = moments.at(first) + windowMs;
  const taken = [first];
  const take = (moment: number, count: number): void => {
    for (let i = 0; i < count; i++) taken.push(moment);
  };
  take(first, moments.stepsDone(first, 1, entry));
  while (taken.length < steps) {
    const moment = moments.next(taken.length, taken.at(-1)! + 1);
    if (moment === moments.size || moments.at(moment) > lastMs) break;
    take(moment, moments.stepsDone(moment, taken.length));
  }
  const isVoid = exclude.some(
    ({ bit, from, to }) => taken.length > to && moments.next(bit, taken[from]! + 1) < taken[to]!,
  );
  return isVoid ? [] : taken;
};

/** Whether a chain is longer than another one, or does its steps earlier. */
const isBetter = (taken: readonly number[], best: readonly number[]): boolean => {
  if (taken.length !== best.length) return taken.length > best.length;
  const place = taken.findIndex((moment, step) => moment !== best[step]);
  return place >= 0 && taken[place]! < best[place]!;
};

/** The marks of the events of one moment, of which there is mostly one. */
class TriedMarks {
  #first = -1;
  #others: Set<number> | undefined;

  /** Returns whether an event before had these marks. */
  had(marks: number): boolean {
    if (this.#first === -1) {
      this.#first = marks;
      return false;
    }
    if (marks === this.#first || this.#others?.has(marks)) return true;
    (this.#others ??= new Set()).add(marks);
    return false;
  }
}

/** The longest chain of steps in their order, whatever lies between them; of equals the earliest one. */
function* orderedChain(events: PlayerEvents, task: FunnelTask): Steps<Chain> {
  const moments = new Moments(events, task);
  let best: Chain = NO_CHAIN;
  let bestTaken: number[] = [];
  let entryNo = -1;
  for (let moment = moments.next(0, 0); moment < moments.size; moment = moments.next(0, moment + 1)) {
    const tried = new TriedMarks();
    for (let entry = moments.startOf(moment); entry < moments.startOf(moment + 1); entry++) {
      if (!isEntry(events, entry, task)) continue;
      if ((++entryNo & YIELD_MASK) === YIELD_MASK) yield;
      // Of one time, events with the same marks come equally far.
      if (tried.had(events.marks[entry]!)) continue;
      const taken = chainFrom(moments, task, entry, moment);
      if (!isBetter(taken, bestTaken)) continue;
      bestTaken = taken;
      best = { level: taken.length, entry, entryNo, times: taken.map((one) => moments.at(one)) };
    }
    if (best.level === task.steps) return best;
  }
  return best;
}

/** The longest chain of steps that are neighbours among all events of the player. */
function* strictChain(events: PlayerEvents, task: FunnelTask): Steps<Chain> {
  let best = NO_CHAIN;
  let entryNo = -1;
  for (let entry = 0; entry < events.size && best.level < task.steps; entry++) {
    if ((entry & YIELD_MASK) === YIELD_MASK) yield;
    if (!isEntry(events, entry, task)) continue;
    entryNo++;
    const lastMs = events.at[entry]! + task.windowMs;
    let level = 1;
    while (
      level < task.steps &&
      entry + level < events.size &&
      events.at[entry + level]! <= lastMs &&
      mayBe(events, entry + level, level)
    )
      level++;
    if (level <= best.level) continue;
    best = { level, entry, entryNo, times: [...events.at.subarray(entry, entry + level)] };
  }
  return best;
}

/**
 * Counts events in a window by the sets of steps that they may be, and so knows how many steps can be done at
 * once. P. Hall: On Representatives of Subsets, Journal of the London Mathematical Society 10 (1), 1935: the
 * most is the smallest sum of the events that may be one of some steps and the number of other steps.
 */
class StepsInWindow {
  readonly #steps: number;
  /** By set of steps, as bits: how many events may be one of them, less the number of steps. */
  readonly #surplus: Int32Array;

  constructor(steps: number) {
    this.#steps = steps;
    this.#surplus = new Int32Array(1 << steps);
    for (let set = 1; set < this.#surplus.length; set++)
      this.#surplus[set] = this.#surplus[set & (set - 1)]! - 1;
  }

  count(marks: number, by: 1 | -1): void {
    for (let set = 1; set < this.#surplus.length; set++) if ((set & marks) !== 0) this.#surplus[set]! += by;
  }

  get most(): number {
    let least = 0;
    for (const surplus of this.#surplus) if (surplus < least) least = surplus;
    return this.#steps + least;
  }
}

/** The most different steps within one window that begins with an event of one; of equals the earliest. */
function* mostStepsInWindow(events: PlayerEvents, task: FunnelTask): Steps<Chain> {
  const { steps, windowMs } = task;
  const inWindow = new StepsInWindow(steps);
  let best = NO_CHAIN;
  let end = 0;
  for (let entry = 0; entry < events.size && best.level < steps; entry++) {
    if ((entry & YIELD_MASK) === YIELD_MASK) yield;
    for (; end < events.size && events.at[end]! <= events.at[entry]! + windowMs; end++) {
      if ((end & YIELD_MASK) === YIELD_MASK) yield;
      inWindow.count(events.marks[end]!, 1);
    }
    const isOfStep = (events.marks[entry]! & ((1 << steps) - 1)) !== 0;
    if (isOfStep && isInRange(events, entry, task) && inWindow.most > best.level)
      best = { level: inWindow.most, entry, entryNo: entry, times: [] };
    inWindow.count(events.marks[entry]!, -1);
  }
  return best;
}

/** Returns how far a player came in a funnel. */
export const judgeFunnel = (events: PlayerEvents, task: FunnelTask): Steps<Chain> => {
  if (task.order === "strict") return strictChain(events, task);
  return task.order === "any" ? mostStepsInWindow(events, task) : orderedChain(events, task);
};
