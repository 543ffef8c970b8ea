import { findDueRollups } from "../domain/analytics/rollups/due.ts";
import { forgetUncounted } from "../domain/analytics/rollups/halted.ts";
import { haltRollups, rollUp } from "../domain/analytics/rollups/roll-up.ts";
import { TooLarge } from "../domain/analytics/rollups/write-documents.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { App } from "../app.ts";
import type { Job } from "./job.ts";

const EVERY_MS = 60_000;
/** Projects of one run. */
const PROJECTS_AT_ONCE = 500;
/** Rows that are forgotten in one transaction. */
const ROWS_AT_ONCE = 1_000;

/** Moves the rollups of a project on by one step. @returns whether there is more to do at once */
const moveOn = async (app: App, projectId: string): Promise<boolean> => {
  try {
    return await app.transact((work) => rollUp(work, projectId));
  } catch (err) {
    if (err instanceof TooLarge) await app.transact((work) => haltRollups(work, projectId));
    const outage = outageOf(err);
    // It is nobody's fault, and would be met by each of the others.
    if (outage !== undefined && outage !== "busy") throw err;
    // The others go on, and this one is tried again.
    app.log.error({ err, projectId }, "rollups of analytics failed");
    return false;
  }
};

/** Adds what came to the rollups of analytics, and takes away what stopped to count. */
export const rollUpAnalytics: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: EVERY_MS,
  run: async (app) => {
    let due = await app.transact((work) => findDueRollups(work, PROJECTS_AT_ONCE));
    // In turns: a project with years to roll up keeps no other waiting.
    while (due.length > 0) {
      const left: string[] = [];
      for (const projectId of due) {
        if (await moveOn(app, projectId)) left.push(projectId);
        await app.limits.pause?.();
      }
      due = left;
    }
    while (await app.transact((work) => forgetUncounted(work, ROWS_AT_ONCE))) await app.limits.pause?.();
  },
};
