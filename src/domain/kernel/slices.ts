import { Script } from "node:vm";
import { threadCpuMs } from "./timeouts.ts";

/** Thrown where guarded work was interrupted. */
export class TookTooLong extends Error {
  readonly cpuMs: number;
  /**
   * Whether the work itself took the time, and not a machine that stood still meanwhile: by its CPU time, of
   * which a container on a busy machine may have little.
   */
  readonly isGuilty: boolean;

  constructor(ms: number, cpuMs: number) {
    super(`took more than ${ms} ms without a pause`);
    this.cpuMs = cpuMs;
    this.isGuilty = cpuMs >= ms / 4;
  }
}

const WORK = Symbol.for("laurel.guarded");
const slot = globalThis as { [WORK]?: () => void };
const entry = new Script("globalThis[Symbol.for('laurel.guarded')]()");

/**
 * Runs synchronous work, and interrupts it after `ms` wherever it is, also within one expression: nobody else
 * in the process would be served any more. Costs 0.15 ms of CPU, so it is for slices of work. Work that is
 * interrupted runs no `finally`, and nothing that it changed in memory may be used afterwards.
 * @throws TookTooLong when it was interrupted, and errors of the work
 */
export const guarded = (ms: number, work: () => void): void => {
  const sinceMs = threadCpuMs();
  slot[WORK] = work;
  try {
    entry.runInThisContext({ timeout: ms });
  } catch (error) {
    if ((error as NodeJS.ErrnoException)?.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    throw new TookTooLong(ms, threadCpuMs() - sinceMs);
  } finally {
    delete slot[WORK];
  }
};

/**
 * Shares the event loop of a process: long work for one caller runs in slices, and everyone else is served in
 * between. All long work of the process takes turns, one slice per iteration of the loop, so that a hundred
 * long requests delay the others no more than one does.
 */

/** CPU time that one slice may take before it yields, in ms. */
export const SLICE_MS = 10;

const waiting: (() => void)[] = [];
let isPlanned = false;

const wakeNext = (): void => {
  const wake = waiting.shift();
  isPlanned = waiting.length > 0;
  if (isPlanned) setImmediate(wakeNext);
  wake?.();
};

/** Resolves when the event loop has served the others, after earlier waiters. */
export const nextSlice = (): Promise<void> =>
  new Promise((resolve) => {
    waiting.push(resolve);
    if (isPlanned) return;
    isPlanned = true;
    setImmediate(wakeNext);
  });

/** `items.map(make)` in slices of SLICE_MS; one item is never divided. */
export const mapInSlices = async <T, R>(
  items: readonly T[],
  make: (item: T, place: number) => R,
): Promise<R[]> => {
  const made: R[] = [];
  let startMs = performance.now();
  for (const [place, item] of items.entries()) {
    made.push(make(item, place));
    if (performance.now() - startMs < SLICE_MS || place === items.length - 1) continue;
    await nextSlice();
    startMs = performance.now();
  }
  return made;
};

/** Work that can be interrupted at each `yield`. */
export type Steps<T> = Generator<void, T, void>;

/** Thrown where work has taken all the time that it may. */
export class TimeIsOver extends Error {
  constructor(ms: number) {
    super(`took more than ${ms} ms`);
  }
}

/** Work that shares the event loop, and may have a maximum of time. */
export class Pace {
  readonly #maxMs: number;
  readonly #openedMs = performance.now();
  #sliceMs = this.#openedMs;

  /** @param maxMs from now on */
  constructor(maxMs = Infinity) {
    this.#maxMs = maxMs;
  }

  get isOver(): boolean {
    return performance.now() - this.#openedMs > this.#maxMs;
  }

  /** To be called between pieces of work. @throws TimeIsOver */
  check(): void {
    if (this.isOver) throw new TimeIsOver(this.#maxMs);
  }

  /** Yields when a slice is over; to be called between pieces of work. */
  async pause(): Promise<void> {
    if (performance.now() - this.#sliceMs < SLICE_MS) return;
    await nextSlice();
    this.#sliceMs = performance.now();
  }

  /** Runs `steps` in slices; the work between two yields is never divided. @throws TimeIsOver */
  async run<T>(steps: Steps<T>): Promise<T> {
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) return step.value;
      if (performance.now() - this.#sliceMs < SLICE_MS) continue;
      this.check();
      await this.pause();
    }
  }
}

/** Runs `steps` in slices and returns the result. */
export const inSlices = <T>(steps: Steps<T>): Promise<T> => new Pace().run(steps);

/** Runs work in steps or slices without interruption and returns the result. */
export const atOnce = <T>(steps: Generator<unknown, T, void>): T => {
  for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return step.value;
};
