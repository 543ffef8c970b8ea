/** What a client did and what it knows of it. Times are monotonic, in ms. */
export type Operation<V = unknown, R = unknown> = {
  /** The client. */
  process: string;
  op: string;
  value: V;
  invokedMs: number;
  /** Infinity when the client never learnt how it ended: it may take effect whenever. */
  endedMs: number;
  /** `fail`: it was refused and did nothing. `info`: nobody knows. */
  outcome: "ok" | "fail" | "info";
  result?: R;
  /** Why it is not ok. */
  error?: Error;
};

/** An answer that says that nothing was done. */
export class Refused extends Error {}

export type RunOptions<R> = {
  /** After which the client waits no longer; default 3,000. */
  timeoutMs?: number;
  /** What came of it when the client had stopped waiting. */
  onLate?: (result: R) => void;
};

const TIMEOUT_MS = 3_000;

/** What clients did, in the order in which they began. */
export class History {
  readonly operations: Operation[] = [];

  /**
   * Records one operation. What `attempt` gives is its result; a Refused is a fail; any other error, or no
   * answer in time, leaves it open what happened. It never rejects.
   */
  async run<V, R>(
    [process, op]: readonly [process: string, op: string],
    value: V,
    attempt: () => Promise<R>,
    { timeoutMs = TIMEOUT_MS, onLate }: RunOptions<R> = {},
  ): Promise<Operation<V, R>> {
    const operation: Operation<V, R> = {
      process,
      op,
      value,
      invokedMs: performance.now(),
      endedMs: Infinity,
      outcome: "info",
    };
    this.operations.push(operation);
    let timer: NodeJS.Timeout | undefined;
    let isLate = false;
    const timeout = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        isLate = true;
        reject(new Error("no answer in time"));
      }, timeoutMs);
    });
    const attempted = attempt();
    attempted.then(
      (result) => isLate && onLate?.(result),
      () => undefined,
    );
    try {
      const result = await Promise.race([attempted, timeout]);
      Object.assign(operation, { outcome: "ok", result, endedMs: performance.now() });
    } catch (error) {
      operation.error = error as Error;
      if (error instanceof Refused) Object.assign(operation, { outcome: "fail", endedMs: performance.now() });
    } finally {
      clearTimeout(timer);
    }
    return operation;
  }

  /** Operations of a kind; whoever recorded them knows their shapes. */
  of<V, R>(...names: readonly string[]): Operation<V, R>[] {
    return this.operations.filter(({ op }) => names.includes(op)) as Operation<V, R>[];
  }
}

/** Whether `a` had ended when `b` began, so that everybody must see them in this order. */
export const isBefore = (a: Operation, b: Operation, marginMs = 0): boolean =>
  a.endedMs + marginMs < b.invokedMs;
