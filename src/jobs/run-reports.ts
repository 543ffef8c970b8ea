import type { App } from "../app.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import {
  areReportsDue,
  type DueCursor,
  findDueReport,
  queueDueReport,
} from "../domain/analytics/reports/due.ts";
import { findUntold, type RunOf, tellOfRun } from "../domain/analytics/reports/tell.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Does something to each of a walk. One that fails holds nobody up: it is tried again by the next run. */
const doEach = async <T extends { id: string }>(
  { limits, log }: App,
  find: (after: T | undefined) => Promise<T | undefined>,
  act: (one: T) => Promise<void>,
): Promise<void> => {
  for (let one = await find(undefined); one; one = await find(one)) {
    try {
      await act(one);
    } catch (err) {
      throwOutage(err);
      log.error({ err, of: one }, "a report of analytics failed");
    }
    await limits.pause?.();
  }
};

/**
 * Queues the runs of reports that are due, and tells of those that have ended. The reports themselves are
 * computed as long-running jobs of their projects.
 */
export const runReports: Job = {
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: areReportsDue,
  run: async (app) => {
    const { transact, mail, config } = app;
    await doEach<DueCursor>(
      app,
      (after) => transact((work) => findDueReport(work, after)),
      (due) => transact((work) => queueDueReport(work, due)),
    );
    const parts = { mail, publicUrl: config.publicUrl };
    await doEach<RunOf>(
      app,
      (after) => transact((work) => findUntold(work, after)),
      (run) => transact((work) => tellOfRun(work, run, parts)),
    );
  },
};
