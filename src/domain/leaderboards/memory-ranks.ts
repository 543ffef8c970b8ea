import { createFrozenCopies } from "./frozen-copies.ts";
import { ALL_MOVED, joinMoved } from "../evaluation/boards/moved.ts";
import { createSizedCache } from "../kernel/sized-cache.ts";
import { RankIndex } from "./rank-index.ts";
import type { EntrySource, PeriodRef, RankStore } from "../evaluation/boards/ranks.ts";

/** Maximum number of periods in memory; one that is evicted is rebuilt on demand. */
export const PERIODS_IN_MEMORY_MAX = 1_000;

type Build = { index: RankIndex; done: Promise<void> };

/** `current` serves reads; `next` is being built; `queued` is a rebuild that waits for `next` to end. */
type Period = { current?: RankIndex; next?: Build; queued?: Promise<void> };

/**
 * The rank index in this process's memory. A period is loaded from `source` on its first read; concurrent
 * readers wait for the same build. Entries that are applied during a build go into it as well; versions
 * settle which value is newer. Entries for a period that nobody has read are dropped: they were committed
 * before they got here, so a later build reads them.
 */
export const createMemoryRanks = (source: EntrySource): RankStore => {
  const periods = createSizedCache<Period>({ items: PERIODS_IN_MEMORY_MAX });

  const periodOf = (ref: PeriodRef): Period => {
    const key = keyOf(ref);
    return periods.get(key) ?? periods.keep(key, {}, { owner: ref.projectId });
  };

  const build = (ref: PeriodRef, period: Period): Promise<void> => {
    const index = new RankIndex();
    const fill = async (): Promise<void> => {
      try {
        for await (const entries of source(ref.projectId, ref.periodId))
          for (const entry of entries) index.set(entry);
        period.current = index;
      } finally {
        delete period.next;
      }
    };
    const done = fill();
    period.next = { index, done };
    return done;
  };

  const read = async (ref: PeriodRef): Promise<RankIndex> => {
    const period = periodOf(ref);
    if (!period.current) await (period.next?.done ?? build(ref, period));
    return period.current!;
  };

  const rebuild = (ref: PeriodRef): Promise<void> => {
    const period = periodOf(ref);
    if (!period.next) return build(ref, period);
    // The current build may have read past the data that the caller needs: one more after it, for all waiting
    // callers.
    period.queued ??= (async () => {
      while (period.next) await period.next.done.catch(() => undefined);
      delete period.queued;
      await build(ref, period);
    })();
    return period.queued;
  };

  return {
    apply: async (projectId, periodId, entries) => {
      const { current, next } = periods.get(keyOf({ projectId, periodId })) ?? {};
      for (const entry of entries) next?.index.set(entry);
      if (!current) return ALL_MOVED;
      return entries.map((entry) => current.set(entry)).reduce(joinMoved, undefined);
    },
    ...readsOf(read),
    ...createFrozenCopies(async (ref, limit) => (await read(ref)).page(0, limit, ref.ties)),
    rebuild,
    drop: async (projectId, periodId) => void periods.drop(keyOf({ projectId, periodId })),
  };
};

type Reads = Pick<RankStore, "page" | "around" | "standing" | "standings" | "after">;

const readsOf = (read: (ref: PeriodRef) => Promise<RankIndex>): Reads => ({
  page: async (ref, offset, limit) => (await read(ref)).page(offset, limit, ref.ties),
  around: async (ref, playerId, limit) => (await read(ref)).around(playerId, limit, ref.ties),
  standing: async (ref, playerId) => (await read(ref)).standing(playerId, ref.ties),
  standings: async (ref, playerIds) => {
    const index = await read(ref);
    return playerIds.flatMap((playerId) => index.standing(playerId, ref.ties) ?? []);
  },
  after: async (ref, place, range) => (await read(ref)).after(place, range, ref.ties),
});

const keyOf = ({ projectId, periodId }: Pick<PeriodRef, "projectId" | "periodId">): string =>
  `${projectId}:${periodId}`;
