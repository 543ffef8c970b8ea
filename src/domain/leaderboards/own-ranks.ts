import type { PeriodRef, RankStore } from "../evaluation/boards/ranks.ts";
import { periodTopic, type Topics } from "../kernel/events/topics.ts";
import type { EntryChange } from "../kernel/events/events.ts";
import type { OwnChanges } from "../kernel/own-changes.ts";

type Parts = { changes: OwnChanges; topics: Pick<Topics, "publish"> };

/**
 * Creates what brings kept entries of a list into the index. Whoever reads the list meanwhile waits for it.
 */
const bringer = ({ changes, topics }: Parts, apply: RankStore["apply"]) => {
  const applying = new Map<string, Promise<void>>();
  const applyAll = async ({ projectId, periodId }: PeriodRef, entries: EntryChange[]): Promise<void> => {
    await applying.get(periodId)?.catch(() => undefined);
    try {
      const moved = await apply(projectId, periodId, entries);
      if (moved) topics.publish(periodTopic(projectId, periodId), moved);
    } catch (error) {
      changes.keepEntries({ projectId, periodId, entries });
      throw error;
    }
  };
  return async (ref: PeriodRef): Promise<void> => {
    const { projectId, periodId } = ref;
    const entries = changes.takeEntries(projectId, periodId);
    if (entries.length === 0) return applying.get(periodId);
    const applied = applyAll(ref, entries);
    applying.set(periodId, applied);
    try {
      await applied;
    } finally {
      if (applying.get(periodId) === applied) applying.delete(periodId);
    }
  };
};

/**
 * A rank index whose reads contain what requests of this process have committed, also where the relay has not
 * come to it: entries are applied before their list is read. The relay applies them too, and finds nothing
 * new.
 */
export const withOwnChanges = (ranks: RankStore, parts: Parts): RankStore => {
  const { changes } = parts;
  const apply: RankStore["apply"] = async (projectId, periodId, entries) => {
    const moved = await ranks.apply(projectId, periodId, entries);
    changes.areInIndex({ projectId, periodId, entries });
    return moved;
  };
  const bring = bringer(parts, apply);
  /** A read of a list, after what belongs into it. */
  const after =
    <A extends unknown[], R>(read: (ref: PeriodRef, ...rest: A) => Promise<R>) =>
    async (ref: PeriodRef, ...rest: A): Promise<R> => {
      await bring(ref);
      return read(ref, ...rest);
    };
  return {
    apply,
    page: after(ranks.page),
    around: after(ranks.around),
    standing: after(ranks.standing),
    standings: after(ranks.standings),
    after: after(ranks.after),
    freeze: after(ranks.freeze),
    frozen: ranks.frozen,
    rebuild: async (ref) => {
      await ranks.rebuild(ref);
      changes.note(ref.projectId);
    },
    drop: async (projectId, periodId) => {
      await ranks.drop(projectId, periodId);
      changes.note(projectId);
    },
  };
};
