import { processPartitions } from "../domain/progression/claim.ts";
import { FIRST_PROJECT } from "../domain/progression/queue.ts";
import { createPlanCache, type PlanCache } from "../domain/progression/plan.ts";
import type { LoopHit } from "../domain/progression/turn.ts";
import { createLoopWatch, type LoopWatch, pauseLoopingRule } from "../domain/rules/running/loop-watch.ts";
import { processedTopic } from "../domain/topics.ts";
import type { App } from "../app.ts";
import { eventTypesOf } from "./flush-event-types.ts";
import { ruleStatsOf } from "./flush-rule-stats.ts";
import type { JobTogether } from "./job.ts";

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

/** Where the next claim of a partition goes on, of those that do not begin anew. */
const cursors = new WeakMap<App, Map<string, string>>();

const cursorsOf = (app: App): Map<string, string> => {
  const known = cursors.get(app) ?? new Map<string, string>();
  cursors.set(app, known);
  return known;
};

const optionsOf = (app: App, loops: LoopHit[]) => ({
  transact: app.transact,
  plans: plansOf(app),
  claimLimit: app.limits.claimEvents,
  claimTogether: app.limits.claimTogether,
  stats: ruleStatsOf(app),
  onSeen: eventTypesOf(app).seen,
  onError: (error: unknown, event: object) =>
    app.log.error({ err: error, event }, "an event could not be processed"),
  onLoop: (hit: LoopHit) => void loops.push(hit),
});

/** Key: a partition. Processes a claim of those that wait, until none is left. */
export const processEvents: JobTogether = {
  name: "process-events",
  concurrency: PROCESS_CONCURRENCY,
  runTogether: async (app, keys, { leave }) => {
    const loops: LoopHit[] = [];
    const places = cursorsOf(app);
    const taken = keys.map((key) => ({ part: Number(key), afterProject: places.get(key) ?? FIRST_PROJECT }));
    const onLeft = (left: readonly { part: number }[]): void => leave(left.map(({ part }) => String(part)));
    const done = await processPartitions({ ...optionsOf(app, loops), onLeft }, taken);
    await pauseLooping(app, loops);
    for (const part of done.busy) comeAgain(app, String(part));
    for (const part of done.parts) {
      places.delete(String(part));
      app.topics.publish(processedTopic(part), part);
    }
    for (const { part, afterProject } of done.again) places.set(String(part), afterProject);
    if (done.events > 0) {
      app.metrics.eventsProcessed.inc(done.events);
      app.metrics.batches.inc();
      await app.limits.pause?.();
    }
    return done.again.map(({ part }) => String(part));
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
