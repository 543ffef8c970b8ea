import { areSchedulesDue, type ScheduleCursor, stepSchedules } from "../domain/rules/schedules.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/**
 * Runs scheduled rules for their players, a page of each due schedule in turn, so that a project with many
 * players does not delay another.
 */
export const runSchedules: Job = {
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: areSchedulesDue,
  run: async (app) => {
    let isMore = true;
    while (isMore) {
      isMore = false;
      let cursor: ScheduleCursor | undefined;
      for (;;) {
        const at = cursor;
        const step = await app.transact((work) => stepSchedules(work, at));
        if (!step) break;
        cursor = step.cursor;
        isMore ||= !step.isFull;
        await app.limits.pause?.();
      }
    }
  },
};
