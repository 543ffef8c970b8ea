import { FIRST_PROJECT, processPartition } from "../domain/progression/batch.ts";
import { createPlanCache, type PlanCache } from "../domain/progression/plan.ts";
import type { LoopHit } from "../domain/progression/turn.ts";
import { createLoopWatch, type LoopWatch, pauseLoopingRule } from "../domain/rules/running/loop-watch.ts";
import { processedTopic } from "../domain/topics.ts";
import type { App } from "../app.ts";
import { eventTypesOf } from "./flush-event-types.ts";
import { ruleStatsOf } from "./flush-rule-stats.ts";
import type { Job } from "./job.ts";

/** Partitions processed at the same time by one process. */
export const PROCESS_CONCURRENCY = 4;
/** A partition that another worker has is looked at again after this. */
const BUSY_RETRY_MS = 25;

const plans = new WeakMap<App, PlanCache>();

const plansOf = (app: App): PlanCache => {
  const known = plans.get(app) ?? createPlanCache();
  plans.set(app, known);
  return known;
};

const watches = new WeakMap<App, LoopWatch>();

const watchOf = (app: App): LoopWatch => {
  const known = watches.get(app) ?? createLoopWatch();
  watches.set(app, known);
  return known;
};

/** Key: a partition. Processes its queued events until none are left. */
export const processEvents: Job = {
  name: "process-events",
  concurrency: PROCESS_CONCURRENCY,
  run: async (app, key) => {
    const part = Number(key);
    const loops: LoopHit[] = [];
    const options = {
      transact: app.transact,
      plans: plansOf(app),
      claimLimit: app.limits.claimEvents,
      stats: ruleStatsOf(app),
      onSeen: eventTypesOf(app).seen,
      onError: (error: unknown, event: object) =>
        app.log.error({ err: error, event }, "an event could not be processed"),
      onLoop: (hit: LoopHit) => void loops.push(hit),
    };
    let afterProject = FIRST_PROJECT;
    for (;;) {
      const done = await processPartition(options, part, afterProject);
      await pauseLooping(app, loops.splice(0));
      if (done.isBusy) return comeAgain(app, key);
      if (done.events === 0 && done.isAll) return;
      afterProject = done.lastProject;
      if (done.events === 0) continue;
      app.metrics.eventsProcessed.inc(done.events);
      app.metrics.batches.inc();
      app.topics.publish(processedTopic(part), part);
      if (done.isAll) return;
      await app.limits.pause?.();
    }
  },
};

/**
 * Another worker has the partition. It may have looked for events before those came that this wake tells of,
 * so somebody has to look once more; without this they would wait for the sweep.
 */
const comeAgain = (app: App, key: string): void => {
  setTimeout(() => app.queue.wakeHere(processEvents.name, key), BUSY_RETRY_MS).unref();
};

const pauseLooping = async (app: App, loops: readonly LoopHit[]): Promise<void> => {
  for (const hit of loops) {
    if (!watchOf(app).hit(hit, app.clock().getTime())) continue;
    app.log.warn({ hit }, "a rule that loops is paused");
    await app.transact((work) => pauseLoopingRule(work, hit));
  }
};
