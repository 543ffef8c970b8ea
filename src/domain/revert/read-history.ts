import { PacedBudget } from "../kernel/pace.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import type { Work } from "../kernel/work.ts";
import { type HistoryEvent, playerHistory } from "../rules/insight/history.ts";

/** Maximum number of one player's events read to revert one event, and of steps for them. */
const EVENTS_READ_MAX = 50_000;
const STEPS_READ_MAX = 20_000_000;

type Whose = { projectId: string; playerId: string };

/**
 * Reads the processed events of a player in the order of their arrival, with the one to be reverted.
 * @returns whether that was all: false for a player with too many, or when `visit` has taken too many steps
 */
export const readHistory = async (
  work: Work,
  whose: Whose,
  visit: (event: HistoryEvent, steps: StepBudget) => void,
): Promise<boolean> => {
  const steps = new PacedBudget(STEPS_READ_MAX);
  let read = 0;
  for await (const page of playerHistory(work, whose)) {
    read += page.length;
    for (const event of page) {
      if (read > EVENTS_READ_MAX || steps.isSpent) return false;
      visit(event, steps);
      await steps.pause();
    }
  }
  return true;
};
