/** Items of this process that are checked together, at an interval, while there are any. */
export type Ticker<T> = { add(item: T): void; remove(item: T): void; count(): number };

export type TickerParts<T> = {
  everyMs: number;
  run(items: readonly T[]): Promise<void>;
  onError: (error: unknown) => void;
};

const all = new Set<() => void>();

/** Runs all tickers now, after a time in which messages may have been lost. */
export const tickAll = (): void => {
  for (const tick of all) tick();
};

/** Runs never overlap: a slow one skips the ticks it misses. */
export const createTicker = <T>({ everyMs, run, onError }: TickerParts<T>): Ticker<T> => {
  const items = new Set<T>();
  let timer: NodeJS.Timeout | undefined;
  let isRunning = false;
  const tick = async (): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    try {
      await run([...items]);
    } catch (error) {
      onError(error);
    } finally {
      isRunning = false;
    }
  };
  const tickNow = () => void tick();
  return {
    add: (item) => {
      items.add(item);
      all.add(tickNow);
      timer ??= setInterval(() => void tick(), everyMs).unref();
    },
    remove: (item) => {
      items.delete(item);
      if (items.size > 0) return;
      clearInterval(timer);
      timer = undefined;
      all.delete(tickNow);
    },
    count: () => items.size,
  };
};
