/**
 * Shares the event loop of a process: long work for one caller is done in slices, and between two slices
 * everyone else is served. All long work of the process takes turns, one slice in each turn of the loop, so
 * that a hundred long requests at once delay the others no more than one does.
 */

/** CPU that one slice may take before it gives way, in ms. */
export const SLICE_MS = 10;

const waiting: (() => void)[] = [];
let isPlanned = false;

const wakeNext = (): void => {
  const wake = waiting.shift();
  isPlanned = waiting.length > 0;
  if (isPlanned) setImmediate(wakeNext);
  wake?.();
};

/** Resolves when the event loop has served the others, after those who waited before. */
export const nextTurn = (): Promise<void> =>
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
    await nextTurn();
    startMs = performance.now();
  }
  return made;
};

/** Work that can rest at each `yield`. */
export type Steps<T> = Generator<void, T, void>;

/** The result of `steps`, done in slices of SLICE_MS; what is between two yields is never divided. */
export const inSlices = async <T>(steps: Steps<T>): Promise<T> => {
  let startMs = performance.now();
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done === true) return step.value;
    if (performance.now() - startMs < SLICE_MS) continue;
    await nextTurn();
    startMs = performance.now();
  }
};

/** The result of work in steps or pieces, done without a rest. */
export const atOnce = <T>(steps: Generator<unknown, T, void>): T => {
  for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return step.value;
};
