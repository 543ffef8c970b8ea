import { setTimeout as delay } from "node:timers/promises";

/** Items of one run, and how far runs are apart in ms, unless a group says otherwise. */
const RUN_MAX = 200;
const EVERY_MS = 5;

type Waiting<I, O> = { item: I; resolve(answer: O): void; reject(error: unknown): void };

/** Asks for one thing, together with what else is asked for. */
export type Grouped<I, O> = (item: I) => Promise<O>;

export type GroupedParts<I, O> = {
  /** Answers in the order of the items; what it throws is thrown to each of them. */
  run(items: readonly I[]): Promise<readonly O[]>;
  /** Items of one key share runs. Absent: all do. */
  keyOf?: (item: I) => string;
  runMax?: number;
  /** Runs of a key begin at least so far apart, so that more share one where many ask. */
  everyMs?: number;
};

/**
 * Asks for many things as for one: what comes while a run is on its way shares the next one, so that a crowd
 * costs a run for each round trip and not one each. A run begins after all of its items have come: no answer
 * is older than its question, and one that is alone waits for nothing. As many wait as are let in by who
 * asks.
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
    // What comes in the same turn of the event loop joins the first run.
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
