import { DomainError } from "./errors.ts";
import { setTimeout as delay } from "node:timers/promises";

/** Default maximum of items per run, and interval between runs in ms. */
const RUN_MAX = 200;
const EVERY_MS = 5;

type Waiting<I, O> = { item: I; resolve(answer: O): void; reject(error: unknown): void };

/** Requests one item, together with others requested at the same time. */
export type Grouped<I, O> = (item: I) => Promise<O>;

type GroupedParts<I, O> = {
  /** Returns results in the order of the items; an error is passed to each of them. */
  run(items: readonly I[]): Promise<readonly O[]>;
  /** Items with the same key share runs. Absent: all do. */
  keyOf?: (item: I) => string;
  runMax?: number;
  /** Minimum interval between runs of a key, so that more items share one under load. */
  everyMs?: number;
};

/**
 * Batches requests for single items: items that arrive during a run share the next one, so that a crowd costs
 * one run per round trip. A run starts after all of its items have arrived, so no result is older than its
 * request, and a lone request does not wait. The number of waiting items is bounded by the callers.
 */
export const grouped = <I, O>(parts: GroupedParts<I, O>): Grouped<I, O> => {
  const { run, keyOf = () => "", runMax = RUN_MAX, everyMs = EVERY_MS } = parts;
  const lines = new Map<string, Waiting<I, O>[]>();

  const runOnce = async (group: readonly Waiting<I, O>[]): Promise<void> => {
    try {
      const answers = await run(group.map(({ item }) => item));
      for (const [n, { resolve }] of group.entries()) resolve(answers[n]!);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  };

  const serve = async (key: string, line: Waiting<I, O>[]): Promise<void> => {
    // Items requested in the same event-loop iteration join the first run.
    await new Promise(setImmediate);
    while (line.length > 0) {
      const pause = delay(everyMs);
      await runOnce(line.splice(0, runMax));
      if (line.length < runMax) await pause;
    }
    lines.delete(key);
  };

  return (item) =>
    new Promise<O>((resolve, reject) => {
      const key = keyOf(item);
      const line = lines.get(key);
      const waiting = { item, resolve, reject };
      if (line) return void line.push(waiting);
      const opened = [waiting];
      lines.set(key, opened);
      void serve(key, opened);
    });
};

/**
 * Returns what runs `load` when it is first called, and gives its result from then on. A failure is not kept:
 * the next call tries again, since a process may have been out of file descriptors or of memory.
 */
export const onceLoaded = <T>(load: () => Promise<T>): (() => Promise<T>) => {
  let loaded: Promise<T> | undefined;
  return () => {
    if (!loaded) {
      loaded = load();
      loaded.catch(() => (loaded = undefined));
    }
    return loaded;
  };
};

/** The client of a request has disconnected, so that what was begun for it alone ends. */
export class ClientGone extends DomainError {
  constructor() {
    super("SERVICE_UNAVAILABLE", "The client has gone");
  }
}

/**
 * Returns the result of the flight of `key`: one in progress, or a new one, which those who come meanwhile
 * join. A flight that ended because the client for whom it was begun has gone says nothing to others: they
 * begin another.
 */
export const joinFlight = async <T>(
  flights: Map<string, Promise<T>>,
  key: string,
  begin: () => Promise<T>,
): Promise<T> => {
  for (;;) {
    const others = flights.get(key);
    if (!others) return beginFlight(flights, key, begin);
    try {
      return await others;
    } catch (error) {
      if (!(error instanceof ClientGone)) throw error;
    }
  }
};

/** A flight is over before anybody hears of its end, so whoever begins another finds none. */
const beginFlight = <T>(
  flights: Map<string, Promise<T>>,
  key: string,
  begin: () => Promise<T>,
): Promise<T> => {
  const flight = begin().finally(() => void flights.delete(key));
  flights.set(key, flight);
  return flight;
};
