import { newId } from "../kernel/ids.ts";
import {
  FROZEN_COPIES_MAX,
  FROZEN_KEPT_MS,
  FROZEN_MAX,
  FROZEN_SHARED_MS,
  type PeriodRef,
  type RankPage,
  type RankStore,
} from "../evaluation/boards/ranks.ts";

/** Maximum number of copies of all projects in one process: a few hundred megabytes in the worst case. */
const COPIES_IN_MEMORY_MAX = 100;

type Copy = { projectId: string; periodId: string; madeAtMs: number; page: RankPage };

/** Frozen copies of boards in this process's memory, oldest first. `read` reads the first places. */
export const createFrozenCopies = (
  read: (ref: PeriodRef, limit: number) => Promise<RankPage>,
): Pick<RankStore, "freeze" | "frozen"> => {
  const copies = new Map<string, Copy>();

  const makeRoom = (projectId: string, nowMs: number): void => {
    for (const [token, { madeAtMs }] of copies) if (isOver(madeAtMs, nowMs)) copies.delete(token);
    const own = [...copies].filter(([, copy]) => copy.projectId === projectId);
    if (own.length >= FROZEN_COPIES_MAX) copies.delete(own[0]![0]);
    else if (copies.size >= COPIES_IN_MEMORY_MAX) copies.delete(copies.keys().next().value!);
  };

  return {
    freeze: async (ref, now) => {
      const { projectId, periodId } = ref;
      const nowMs = now.getTime();
      for (const [token, copy] of copies) {
        if (copy.periodId === periodId && Math.abs(nowMs - copy.madeAtMs) <= FROZEN_SHARED_MS) return token;
      }
      const page = await read(ref, FROZEN_MAX);
      makeRoom(projectId, nowMs);
      const token = newId();
      copies.set(token, { projectId, periodId, madeAtMs: nowMs, page });
      return token;
    },
    frozen: async ({ projectId, periodId }, token, { now, offset, limit }) => {
      const copy = copies.get(token);
      if (copy?.projectId !== projectId || copy.periodId !== periodId) return undefined;
      if (isOver(copy.madeAtMs, now.getTime())) return undefined;
      const { standings, total } = copy.page;
      return { standings: standings.slice(offset, offset + limit), total };
    },
  };
};

const isOver = (madeAtMs: number, nowMs: number): boolean => nowMs - madeAtMs > FROZEN_KEPT_MS;
