import { percentile, table } from "../bench/support/turns.ts";

/** What should have arrived and what did; a run in which they differ has failed. */
type Delivery = { name: string; expected: number; received: number };

/** What a run has come to; times in ms. */
export type Summary = ReturnType<Tally["summary"]>;

/** A socket that fails before it is open gives the SDK no message, only a type. */
const textOf = (error: unknown): string =>
  error instanceof Error ? error.message || String(error) : JSON.stringify(error);

/** Counts what a load test does. Times are in ms. */
export class Tally {
  readonly #samplesMs = new Map<string, number[]>();
  readonly #errors = new Map<string, number>();
  readonly #deliveries = new Map<string, Delivery>();

  time(name: string, ms: number): void {
    const samplesMs = this.#samplesMs.get(name);
    if (samplesMs) samplesMs.push(ms);
    else this.#samplesMs.set(name, [ms]);
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

  /** How far the run has come, for a line of progress. */
  get progress(): string {
    const operations = [...this.#samplesMs.values()].reduce((sum, { length }) => sum + length, 0);
    const errors = [...this.#errors.values()].reduce((sum, count) => sum + count, 0);
    return `${operations} operations, ${errors} errors`;
  }

  summary(about: { scenario: string; clients: number; seconds: number }) {
    const operations = [...this.#samplesMs].map(([name, samplesMs]) => {
      const sorted = samplesMs.toSorted((a, b) => a - b);
      const at = (p: number) => Math.round(percentile(sorted, p) * 100) / 100;
      return { name, count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
    });
    const deliveries = [...this.#deliveries.values()];
    const errors = [...this.#errors].map(([message, count]) => ({ message, count }));
    const isComplete = deliveries.every(({ expected, received }) => expected === received);
    return { ...about, operations, deliveries, errors, isOk: errors.length === 0 && isComplete };
  }
}

/** A summary for people. */
export const summaryText = (summary: Summary): string => {
  const { scenario, clients, seconds, operations, deliveries, errors, isOk } = summary;
  const lines = operations.map(({ name, count, p50, p95, p99, max }) =>
    [name, count, p50, p95, p99, max].map(String),
  );
  const parts = [
    `${scenario}: ${clients} clients, ${seconds} s: ${isOk ? "ok" : "FAILED"}`,
    table(["operation (ms)", "count", "p50", "p95", "p99", "max"], lines),
    ...deliveries.map(({ name, expected, received }) => `${name}: ${received} of ${expected}`),
    ...errors.map(({ message, count }) => `${count} x ${message}`),
  ];
  return `${parts.join("\n")}\n`;
};
