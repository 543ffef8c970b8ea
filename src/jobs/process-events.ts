import { FIRST_PROJECT, processPartition } from "../domain/progression/batch.ts";
import { createPlanCache, type PlanCache } from "../domain/progression/plan.ts";
import { processedTopic } from "../domain/topics.ts";
import type { App } from "../app.ts";
import type { Job } from "./job.ts";

/** Partitions processed at the same time by one process. */
export const PROCESS_CONCURRENCY = 4;

const plans = new WeakMap<App, PlanCache>();

const plansOf = (app: App): PlanCache => {
  const known = plans.get(app) ?? createPlanCache();
  plans.set(app, known);
  return known;
};

/** Key: a partition. Processes its queued events until none are left. */
export const processEvents: Job = {
  name: "process-events",
  concurrency: PROCESS_CONCURRENCY,
  run: async (app, key) => {
    const part = Number(key);
    const options = {
      transact: app.transact,
      plans: plansOf(app),
      claimLimit: app.limits.claimEvents,
      onError: (error: unknown, event: object) =>
        app.log.error({ err: error, event }, "an event could not be processed"),
    };
    let afterProject = FIRST_PROJECT;
    for (;;) {
      const done = await processPartition(options, part, afterProject);
      if (done.isBusy) return;
      if (done.events === 0 && afterProject === FIRST_PROJECT) return;
      afterProject = done.lastProject;
      if (done.events === 0) continue;
      app.metrics.eventsProcessed.inc(done.events);
      app.metrics.batches.inc();
      app.topics.publish(processedTopic(part), part);
      await app.limits.pause?.();
    }
  },
};
