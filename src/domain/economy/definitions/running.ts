import type { SqlEntityManager } from "@mikro-orm/sql";
import { conflict } from "../../kernel/errors.ts";
import { COUNTERS_MAX, PROJECT_MAX_BYTES } from "../../kernel/limits.ts";
import { refuseNewLoops, standingLoops } from "../loops/loops.ts";
import type { Work } from "../../kernel/work.ts";
import { readRunningState, type RunningState } from "./running-state.ts";

/** Transactions that make many changes and are looked at once, at their end. */
const together = new WeakSet<SqlEntityManager>();

type RunningChange = {
  projectId: string;
  /** Of the refusal where the project becomes too large. */
  reason: string;
  /** The change is that of one rule, and `lockRunnable` has found that it closes no loop. */
  isLoopChecked?: true;
  /** A project that is copied: its loops may come along. */
  copied?: string;
  /** The change takes long itself, so that loops are looked for within the transaction. */
  isLong?: true;
};

/**
 * The one way to change what runs in a project: rules, definitions, leaderboards. Refuses the change when the
 * project has become larger than it may be, where one that was larger before may still shrink, and when rules
 * could set one another off without end as they could not before. Call it under the project's config lock;
 * inside another call of the same transaction only the outer one looks.
 * @throws DomainError CONFLICT with `reason`; EndlessLoops; an Unprepared, for `transact`
 */
export const changeRunning = async <T>(
  work: Work,
  { projectId, reason, isLoopChecked, copied, isLong }: RunningChange,
  change: () => Promise<T>,
): Promise<T> => {
  if (together.has(work.em)) return change();
  const before = await readRunningState(work, projectId);
  const standing = await standingLoops(work, copied === undefined ? [projectId] : [projectId, copied]);
  together.add(work.em);
  try {
    const changed = await change();
    await work.em.flush();
    const after = await readRunningState(work, projectId);
    refuseLarger(after, { before, reason });
    if (!isLoopChecked && after.links !== before.links)
      await refuseNewLoops(work, projectId, { state: after, standing, isLong });
    return changed;
  } finally {
    together.delete(work.em);
  }
};

const refuseLarger = (
  after: RunningState,
  { before, reason }: { before: RunningState; reason: string },
): void => {
  const refuse = (limit: string) => conflict(reason, `a project may have ${limit}`);
  if (after.bytes > Math.max(PROJECT_MAX_BYTES, before.bytes))
    throw refuse(`${PROJECT_MAX_BYTES} bytes of active rules, definitions and leaderboards together`);
  if (after.counters > Math.max(COUNTERS_MAX, before.counters))
    throw refuse(`${COUNTERS_MAX} different metrics of active rules, badges and segments together`);
};
