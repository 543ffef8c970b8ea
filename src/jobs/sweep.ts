import type { App } from "../app.ts";
import { lookForWork, requeueDueEvents, type WaitingWork } from "../domain/progression/waiting-work.ts";
import type { AnyJob, Job } from "./job.ts";
import type { JobName } from "./names.ts";
import { EVERY_KEY } from "./runner.ts";

/**
 * Creates the job that finds work whose wake was lost (a crash, Redis unavailable), events whose retry is
 * due, and jobs that have something to do by now.
 */
export const createSweep = (jobs: Readonly<Partial<Record<JobName, AnyJob>>>): Job => {
  const timed = (Object.entries(jobs) as [JobName, AnyJob][]).flatMap(([name, { isDue }]) =>
    isDue ? [{ name, isDue }] : [],
  );
  const look = ({ read, clock }: App): Promise<WaitingWork> => {
    const now = clock();
    return lookForWork(
      read,
      now,
      timed.map(({ isDue }) => isDue(now)),
    );
  };
  return {
    concurrency: 1,
    everyMs: 1_000,
    run: async (app) => {
      let found = await look(app);
      if (found.areEventsDue) {
        await app.transact(requeueDueEvents);
        found = await look(app);
      }
      // In this process, not through the queue: events are processed also while Redis is unavailable.
      for (const part of found.events) app.queue.wakeHere("process-events", String(part));
      for (const part of found.outbox) app.queue.wake("relay-outbox", String(part));
      for (const [i, { name }] of timed.entries())
        if (found.conditions[i]) app.queue.wakeHere(name, EVERY_KEY);
    },
  };
};
