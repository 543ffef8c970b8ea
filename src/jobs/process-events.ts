import { outageOf } from "../domain/kernel/outages.ts";
import { type Processed, processPartitions } from "../domain/progression/claim.ts";
import { ClaimShares } from "../domain/progression/claim-shares.ts";
import type { ProjectPlan } from "../domain/evaluation/project-plan.ts";
import { FIRST_PROJECT } from "../domain/progression/queue.ts";
import { observedPlans, type PlanCache } from "../domain/progression/plan.ts";
import type { StepsHit } from "../domain/evaluation/event-steps.ts";
import type { LoopHit } from "../domain/evaluation/rule-event.ts";
import type { Work } from "../domain/kernel/work.ts";
import {
  createRuleWatch,
  LOOPS_MAX,
  pauseExpensiveRule,
  pauseLoopingRule,
  pauseUnfitRule,
  type RuleWatch,
  STEPS_HITS_MAX,
} from "../domain/rules/lifecycle/loop-watch.ts";
import { processedTopic } from "../domain/kernel/events/topics.ts";
import type { App } from "../app.ts";
import type { JobTogether } from "./job.ts";

/** The name of the job, by which partitions are woken. */
export const PROCESS_EVENTS = "process-events";
/** Partitions processed concurrently by one process. */
export const PROCESS_CONCURRENCY = 4;
/** Delay before a partition held by another worker is tried again. */
const BUSY_RETRY_MS = 25;

/** State that a process keeps between claims. */
type ProcessState = {
  shares: ClaimShares;
  plans: PlanCache;
  /** Detects rules that the engine repeatedly had to hold. */
  loops: RuleWatch;
  steps: RuleWatch;
  /** Where the next claim of a partition continues, unless it starts over. */
  cursors: Map<string, string>;
  /** Number of consecutive claims of a partition that were rolled back because the database was busy. */
  busyInRow: Map<string, number>;
  /** Plans whose missing parts were reported. */
  reported: WeakSet<ProjectPlan>;
};

const createKept = (): ProcessState => {
  const shares = new ClaimShares();
  return {
    shares,
    plans: observedPlans({
      onSteps: (projectId, steps) => shares.charge(projectId, steps),
      onPreparing: (projectId, over) => shares.wait(projectId, over),
    }),
    loops: createRuleWatch(LOOPS_MAX),
    steps: createRuleWatch(STEPS_HITS_MAX),
    cursors: new Map(),
    busyInRow: new Map(),
    reported: new WeakSet(),
  };
};

/** Findings of a claim that concern held rules. */
type ClaimFindings = {
  loops: LoopHit[];
  /** By event: a claim that is rolled back reports it again. */
  hits: Map<string, StepsHit>;
  /** Incomplete plans, by project. */
  lacking: Map<string, ProjectPlan>;
};

/** Runs a claim, and counts for each partition how often in a row the database was too busy for it. */
const claimOf = async (
  { busyInRow: counts }: ProcessState,
  keys: readonly string[],
  claim: (busy: number) => Promise<Processed>,
): Promise<Processed> => {
  try {
    const done = await claim(Math.max(...keys.map((key) => counts.get(key) ?? 0)));
    for (const key of keys) counts.delete(key);
    return done;
  } catch (error) {
    if (outageOf(error) === "busy") for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
    throw error;
  }
};

const optionsOf = (app: App, kept: ProcessState, { loops, hits, lacking }: ClaimFindings) => ({
  transact: app.transact,
  plans: kept.plans,
  shares: kept.shares,
  claimLimit: app.limits.claimEvents,
  claimTogether: app.limits.claimTogether,
  stats: app.ruleStats,
  onSeen: app.eventTypes.seen,
  onError: (error: unknown, event: object) =>
    app.log.error({ err: error, event }, "an event could not be processed"),
  onLoop: (hit: LoopHit) => void loops.push(hit),
  onSteps: (hit: StepsHit) => void hits.set(hit.rootEventId, hit),
  onLeftOut: (plan: ProjectPlan) => void lacking.set(plan.projectId, plan),
});

/** Key: a partition. Processes claims of the waiting partitions until they are empty. */
export const createProcessEvents = (): JobTogether => {
  const kept = createKept();
  return {
    name: PROCESS_EVENTS,
    concurrency: PROCESS_CONCURRENCY,
    runTogether: (app, keys, { leave }) => claimTogether(app, kept, { keys, leave }),
  };
};

type Claimed = { keys: readonly string[]; leave(keys: readonly string[]): void };

/** @returns the partitions to claim again */
const claimTogether = async (
  app: App,
  kept: ProcessState,
  { keys, leave }: Claimed,
): Promise<readonly string[]> => {
  const held: ClaimFindings = { loops: [], hits: new Map(), lacking: new Map() };
  const places = kept.cursors;
  const taken = keys.map((key) => ({ part: Number(key), afterProject: places.get(key) ?? FIRST_PROJECT }));
  const onLeft = (left: readonly { part: number }[]): void => leave(left.map(({ part }) => String(part)));
  const done = await claimOf(kept, keys, (busy) =>
    processPartitions({ ...optionsOf(app, kept, held), busyInRow: busy, onLeft }, taken),
  );
  for (const part of done.busy) retryLater(app, String(part));
  const recheck = (parts: readonly number[]): void => {
    for (const part of parts) app.queue.wakeHere(PROCESS_EVENTS, String(part));
  };
  void done.preparing?.then(recheck);
  if (done.closed.length > 0) void done.reopened.then(() => recheck(done.closed));
  for (const part of done.parts) {
    places.delete(String(part));
    app.topics.publish(processedTopic(part), part);
  }
  for (const { part, afterProject } of done.again) places.set(String(part), afterProject);
  // Waiting for another transaction on one project's definitions must not delay the events of others.
  void pauseHeld(app, kept, held);
  if (done.events > 0) {
    app.metrics.eventsProcessed.inc(done.events);
    app.metrics.batches.inc();
    await app.limits.pause?.();
  }
  return done.again.map(({ part }) => String(part));
};

/**
 * Tries again later, because another worker has the partition. It may have looked for events before those
 * arrived that this wake announces, so the partition must be checked once more; otherwise they would wait for
 * the sweep.
 */
const retryLater = (app: App, key: string): void => {
  setTimeout(() => app.queue.wakeHere(PROCESS_EVENTS, key), BUSY_RETRY_MS).unref();
};

/** Pauses the rules that were held too often. Never rejects. */
const pauseHeld = async (
  app: App,
  kept: ProcessState,
  { loops, hits, lacking }: ClaimFindings,
): Promise<void> => {
  const nowMs = app.clock().getTime();
  const looping = loops.filter(({ chain }) => kept.loops.hit(chain.at(-1)!.ruleId, nowMs));
  const expensive = [...hits.values()].filter(
    ({ spender }) => spender.kind === "rule" && kept.steps.hit(spender.id, nowMs),
  );
  for (const hit of looping) {
    app.log.warn({ hit }, "a rule that loops is paused");
    await pauseSafely(app, (work) => pauseLoopingRule(work, hit));
  }
  for (const hit of expensive) {
    app.log.warn({ hit }, "a rule that takes the steps of event after event is paused");
    await pauseSafely(app, (work) => pauseExpensiveRule(work, hit));
  }
  for (const plan of lacking.values()) await pauseUnfit(app, kept, plan);
};

/** Pauses the rules that a plan omits, once; other missing parts cannot be paused, and are only reported. */
const pauseUnfit = async (app: App, { reported }: ProcessState, plan: ProjectPlan): Promise<void> => {
  if (reported.has(plan)) return;
  reported.add(plan);
  const { projectId, leftOut } = plan;
  app.log.warn({ projectId, leftOut }, "stored definitions cannot be evaluated; rules among them are paused");
  for (const one of leftOut.filter(({ kind }) => kind === "rule"))
    await pauseSafely(app, (work) => pauseUnfitRule(work, projectId, one));
};

const PAUSE_TRIES = 5;

/** Pauses a rule; retries while other transactions work on its project's definitions. */
const pauseSafely = async (app: App, pause: (work: Work) => Promise<unknown>): Promise<void> => {
  for (let tries = 1; ; tries++) {
    try {
      await app.transact(pause);
      return;
    } catch (err) {
      if (tries < PAUSE_TRIES && outageOf(err) !== undefined) continue;
      app.log.warn({ err }, "a rule could not be paused");
      return;
    }
  }
};
