import type { RawBuilder } from "kysely";
import { type Pages, pagesIn } from "../../kernel/cursor.ts";
import type { Work } from "../../kernel/work.ts";

/** A stretch of time, half-open. */
export type Stretch = { startMs: number; endMs: number };

/** The first stretch is so short that its rows come at once, in ms; the next ones have about so many rows. */
const FIRST_MS = 3_600_000;
const ROWS = 200_000;
/** How much longer, or shorter, a stretch is than the one before it, at most. */
const FACTOR = 8;
/** A stretch that took longer than so many ms, and so many ms for each row, was looked for among all rows. */
const SLOW = { ms: 1_000, rowMs: 0.005 };

/** Returns how long the next stretch should be. */
class Lengths {
  #ms = FIRST_MS;
  #rows = ROWS;

  get ms(): number {
    return this.#ms;
  }

  /** @param tookMs how long the database took for the first rows of the last stretch */
  next(rows: number, tookMs: number): void {
    if (tookMs > SLOW.ms + SLOW.rowMs * rows) this.#rows *= FACTOR;
    const factor = this.#rows / Math.max(1, rows);
    this.#ms *= Math.max(1 / FACTOR, Math.min(FACTOR, factor));
  }
}

/**
 * Reads rows that are ordered by time stretch by stretch, as part of a transaction of one snapshot: the first
 * rows come before the others are found, and no more than those of a stretch are sorted at once.
 * @param queryOf the rows of a stretch, in their order
 */
export const pagesByStretch = <Row extends object>(
  work: Work,
  { startMs, endMs }: Stretch,
  queryOf: (stretch: Stretch) => RawBuilder<unknown>,
): Pages<Row> => {
  let [atMs, lengths] = [startMs, new Lengths()];
  let open: Pages<Row> | undefined;
  let [rows, tookMs] = [0, 0];
  const close = async (): Promise<void> => {
    await open?.close();
    open = undefined;
  };
  const begin = async (): Promise<Row[]> => {
    const toMs = Math.min(endMs, Math.ceil(atMs + lengths.ms));
    const beganMs = performance.now();
    open = await pagesIn<Row>(work, queryOf({ startMs: atMs, endMs: toMs }));
    const page = await open.next();
    [atMs, rows, tookMs] = [toMs, 0, performance.now() - beganMs];
    return page;
  };
  const next = async (): Promise<Row[]> => {
    let page = open ? await open.next() : [];
    while (page.length === 0) {
      if (open) lengths.next(rows, tookMs);
      await close();
      if (atMs >= endMs) return [];
      page = await begin();
    }
    rows += page.length;
    return page;
  };
  const rewind = async (): Promise<void> => {
    await close();
    [atMs, lengths] = [startMs, new Lengths()];
  };
  return { next, rewind, close };
};
