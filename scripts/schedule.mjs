// Which suites of tests run side by side.
import { availableParallelism } from "node:os";

/**
 * The seconds that a suite takes beside two others, and the cores that it keeps busy with its servers. Suites
 * that wait for timers, restarts and lost connections leave room for one more.
 */
const COSTS = {
  cluster: { seconds: 562, cores: 0.65 },
  kills: { seconds: 518, cores: 0.5 },
  cli: { seconds: 504, cores: 0.8 },
  domain: { seconds: 316, cores: 0.8 },
  http: { seconds: 268, cores: 0.8 },
  sweeps: { seconds: 278, cores: 0.8 },
  "http-2": { seconds: 264, cores: 0.8 },
  embedded: { seconds: 292, cores: 0.8 },
  hostile: { seconds: 183, cores: 0.8 },
  access: { seconds: 144, cores: 0.8 },
  idempotency: { seconds: 119, cores: 0.8 },
  steps: { seconds: 60, cores: 0.8 },
  operators: { seconds: 80, cores: 0.8 },
  faults: { seconds: 311, cores: 0.5 },
  "faults-2": { seconds: 180, cores: 0.5 },
  alone: { seconds: 45, cores: 1 },
};
const UNKNOWN = { seconds: 0, cores: 1 };

/** Suites whose tests watch the clock: one other suite at most runs beside them. */
const CLOCK = new Set(["faults", "faults-2"]);
/** What runs beside those. */
const BESIDE_CLOCK = new Set(["http-2"]);
/** Suites that compare rates of two moments: nothing runs beside them. */
const ALONE = new Set(["alone"]);

const costOf = (name) => COSTS[name] ?? UNKNOWN;

/** Suites run side by side until they would keep more cores busy than there are, by a quarter. */
const capacityOf = (cores) => Math.max(2, cores) * 1.25;

const mayJoin = (name, running, capacity) => {
  if (running.length === 0) return true;
  const all = [...running, name];
  if (all.some((one) => ALONE.has(one))) return false;
  const others = all.filter((one) => !CLOCK.has(one));
  if (others.length < all.length && others.length > 1) return false;
  return all.reduce((sum, one) => sum + costOf(one).cores, 0) <= capacity;
};

/** The longest first, then those that watch the clock with what runs beside them, and last those alone. */
export const inOrder = (names) => {
  const place = (name) => [CLOCK, BESIDE_CLOCK, ALONE].findIndex((some) => some.has(name));
  return names.toSorted((a, b) => place(a) - place(b) || costOf(b).seconds - costOf(a).seconds);
};

/**
 * Runs `run` for each name, the longest first, each as soon as there is room beside those that run.
 * @returns what `run` resolved to, in the order of `inOrder`
 */
export const runTogether = async (names, run, cores = availableParallelism()) => {
  const capacity = capacityOf(cores);
  const order = inOrder(names);
  const waiting = [...order];
  const running = new Map();
  const done = new Map();
  const mayRun = (name) => {
    // Kept for those that watch the clock, as long as they wait.
    const isKept = BESIDE_CLOCK.has(name) && waiting.some((one) => CLOCK.has(one));
    return !isKept && mayJoin(name, [...running.keys()], capacity);
  };
  const start = async (name) => {
    done.set(name, await run(name));
    running.delete(name);
  };
  while (waiting.length + running.size > 0) {
    for (let next = waiting.find(mayRun); next !== undefined; next = waiting.find(mayRun)) {
      waiting.splice(waiting.indexOf(next), 1);
      running.set(next, start(next));
    }
    await Promise.race(running.values());
  }
  return order.map((name) => done.get(name));
};
