import { percentile } from "../../bench/support/stats.ts";

/** Samples kept of one operation; beyond it each new one takes the place of a random one. */
const SAMPLES_MAX = 200_000;

type Kept = { samplesMs: number[]; count: number };
export type Line = { name: string; count: number; p50: number; p95: number; p99: number; max: number };
/** What should have arrived and what did; a run in which they differ has failed. */
export type Delivery = { name: string; expected: number; received: number };

export type Summary = {
  scenario: string;
  clients: number;
  seconds: number;
  operations: Line[];
  deliveries: Delivery[];
  errors: { message: string; count: number }[];
  isOk: boolean;
};

/** A socket that fails before it is open gives the SDK no message, only a type. */
const textOf = (error: unknown): string =>
  error instanceof Error ? error.message || String(error) : JSON.stringify(error);

/** Counts what a load test does. Times are in ms. */
export class Tally {
  readonly #kept = new Map<string, Kept>();
  readonly #errors = new Map<string, number>();
  readonly #deliveries = new Map<string, Delivery>();

  time(name: string, ms: number): void {
    const kept = this.#kept.get(name) ?? { samplesMs: [], count: 0 };
    kept.count++;
    if (kept.samplesMs.length < SAMPLES_MAX) kept.samplesMs.push(ms);
    else {
      const at = Math.floor(Math.random() * kept.count);
      if (at < SAMPLES_MAX) kept.samplesMs[at] = ms;
    }
    this.#kept.set(name, kept);
  }

  /** Runs and times; what it throws counts as an error, and the answer is then undefined. */
  async measure<T>(name: string, run: () => Promise<T>): Promise<T | undefined> {
    const startMs = performance.now();
    try {
      const value = await run();
      this.time(name, performance.now() - startMs);
      return value;
    } catch (error) {
      this.fail(name, error);
      return undefined;
    }
  }

  fail(name: string, error: unknown): void {
    const text = `${name}: ${textOf(error)}`;
    this.#errors.set(text, (this.#errors.get(text) ?? 0) + 1);
  }

  delivered(name: string, { expected, received }: Omit<Delivery, "name">): void {
    const known = this.#deliveries.get(name) ?? { name, expected: 0, received: 0 };
    known.expected += expected;
    known.received += received;
    this.#deliveries.set(name, known);
  }

  get operations(): number {
    return [...this.#kept.values()].reduce((sum, { count }) => sum + count, 0);
  }

  get errors(): number {
    return [...this.#errors.values()].reduce((sum, count) => sum + count, 0);
  }

  summary(about: Pick<Summary, "scenario" | "clients" | "seconds">): Summary {
    const operations = [...this.#kept].map(([name, { samplesMs, count }]): Line => {
      const sorted = samplesMs.toSorted((a, b) => a - b);
      const at = (p: number) => Math.round(percentile(sorted, p) * 100) / 100;
      return { name, count, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
    });
    const deliveries = [...this.#deliveries.values()];
    const errors = [...this.#errors].map(([message, count]) => ({ message, count }));
    const isComplete = deliveries.every(({ expected, received }) => expected === received);
    return { ...about, operations, deliveries, errors, isOk: errors.length === 0 && isComplete };
  }
}
