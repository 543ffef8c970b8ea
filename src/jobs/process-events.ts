import type { App } from "../app.ts";
import type { ProjectPlan } from "../domain/evaluation/project-plan.ts";
import type { LoopHit } from "../domain/evaluation/rule-event.ts";
import type { StepsHit } from "../domain/evaluation/turn.ts";
import { processedTopic } from "../domain/kernel/events/chat-views.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import type { Work } from "../domain/kernel/work.ts";
import { ClaimShares } from "../domain/progression/claim-shares.ts";
import {
  type Processed,
  type ProcessOptions,
  processPartitions,
  processSuspects,
} from "../domain/progression/claim.ts";
import { settleDeaths } from "../domain/progression/deaths.ts";
import { InHand, lineOf } from "../domain/progression/in-hand.ts";
import { observedPlans, type PlanCache } from "../domain/progression/plan.ts";
import { FIRST_PROJECT, type QueuedEvent } from "../domain/progression/queue.ts";
import {
  createRuleWatch,
  LOOPS_MAX,
  pauseExpensiveRule,
  pauseLoopingRule,
  pauseUnfitRule,
  type RuleWatch,
  STEPS_HITS_MAX,
} from "../domain/rules/lifecycle/loop-watch.ts";
import type { AnyJob, HeldKeys, Job, JobTogether } from "./job.ts";

/** Partitions processed concurrently by one process. */
const PROCESS_CONCURRENCY = 4;
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

/** Returns a function that logs an event's failed attempt. */
const logFailedEvent =
  ({ log }: App) =>
  (err: unknown, event: object): void =>
    log.error({ err, event }, "an event could not be processed");

type ClaimOptions = Omit<ProcessOptions, "onLeft">;

const optionsOf = (
  app: App,
  kept: ProcessState,
  { hand, loops, hits, lacking }: ClaimFindings & { hand: InHand },
): ClaimOptions => ({
  transact: app.transact,
  hand,
  plans: kept.plans,
  shares: kept.shares,
  claimLimit: app.limits.claimEvents,
  claimTogether: app.limits.claimTogether,
  stats: app.ruleStats,
  onSeen: app.eventTypes.seen,
  onError: logFailedEvent(app),
  onLoop: (hit: LoopHit) => void loops.push(hit),
  onSteps: (hit: StepsHit) => void hits.set(hit.rootEventId, hit),
  onLeftOut: (plan: ProjectPlan) => void lacking.set(plan.projectId, plan),
});

/** Returns what the process of an app has in hand. */
type HandOf = (app: App) => InHand;

/** Creates what a process has in hand with its first use. */
const createHandOf = (): HandOf => {
  let hand: InHand | undefined;
  return ({ handNotes }) => (hand ??= new InHand(handNotes));
};

/** Key: a partition. Processes claims of the waiting partitions until they are empty. */
export const createProcessEvents = (handOf = createHandOf()): JobTogether => {
  const kept = createKept();
  return {
    concurrency: PROCESS_CONCURRENCY,
    runTogether: (app, keys, held) => claimTogether({ app, kept, hand: handOf(app) }, keys, held),
    atStop: (app) => handOf(app).close(),
  };
};

type Claiming = { app: App; kept: ProcessState; hand: InHand };

/** @returns the partitions to claim again */
const claimTogether = async (
  of: Claiming,
  keys: readonly string[],
  held: HeldKeys,
): Promise<readonly string[]> => {
  const { kept, hand } = of;
  await hand.begin();
  const places = kept.cursors;
  const taken = keys.map((key) => ({ part: Number(key), afterProject: places.get(key) ?? FIRST_PROJECT }));
  const onLeft = (left: readonly { part: number }[]): void =>
    held.leave(left.map(({ part }) => String(part)));
  const done = await hand.beside(() =>
    claimOnce(of, keys, (options) => processPartitions({ ...options, onLeft }, taken)),
  );
  for (const part of done.parts) places.delete(String(part));
  for (const { part, afterProject } of done.again) places.set(String(part), afterProject);
  const again = done.again.map(({ part }) => String(part));
  if (done.suspects.length === 0) return again;
  // Events in other partitions need not wait for the suspects.
  const suspected = new Set(done.suspects.map(({ part }) => String(part)));
  held.leave(again.filter((key) => !suspected.has(key)));
  held.done(keys.filter((key) => !suspected.has(key)));
  const isProgress = await runSuspects(of, done.suspects);
  return isProgress ? [...suspected] : again.filter((key) => suspected.has(key));
};

/** Groups of suspects that are run before the next claim of their partitions. */
const GROUPS_MAX = 4;

/**
 * Runs the next groups of suspects, each alone in this process.
 * @returns whether any suspect was run; those that were not may be tried again later
 */
const runSuspects = async (of: Claiming, suspects: readonly QueuedEvent[]): Promise<boolean> => {
  const { app, hand } = of;
  let [left, isProgress] = [suspects, false];
  for (let n = 0; n < GROUPS_MAX; n++) {
    // Another process may have died with some of them just now.
    await hand.glance();
    const group = hand.groupOf(left, app.limits.claimTogether);
    if (group.length === 0) break;
    const parts = [...new Set(group.map(({ part }) => String(part)))];
    const { events } = await hand.alone(() =>
      claimOnce(of, parts, (options) => processSuspects(options, group)),
    );
    isProgress ||= events > 0;
    // Which of them were left is not known: nothing behind them may be run before the next claim.
    const gone = new Set(events < group.length ? group.map(lineOf) : []);
    left = left.filter((event) => !group.includes(event) && !gone.has(lineOf(event)));
  }
  return isProgress;
};

/** Makes a claim of partitions, and does what follows from it. */
const claimOnce = async (
  { app, kept, hand }: Claiming,
  keys: readonly string[],
  claim: (options: ClaimOptions) => Promise<Processed>,
): Promise<Processed> => {
  const held: ClaimFindings = { loops: [], hits: new Map(), lacking: new Map() };
  const options = optionsOf(app, kept, { hand, ...held });
  const done = await claimOf(kept, keys, (busyInRow) => claim({ ...options, busyInRow }));
  for (const part of done.busy) retryLater(app, String(part));
  const recheck = (parts: readonly number[]): void => {
    for (const part of parts) app.queue.wakeHere("process-events", String(part));
  };
  void done.preparing?.then(recheck);
  if (done.closed.length > 0) void done.reopened.then(() => recheck(done.closed));
  for (const part of done.parts) app.topics.publish(processedTopic(part), part);
  // Waiting for another transaction on one project's definitions must not delay the events of others.
  void pauseHeld(app, kept, held);
  if (done.events > 0) {
    app.metrics.eventsProcessed.inc(done.events);
    app.metrics.batches.inc();
    await app.limits.pause?.();
  }
  return done;
};

/**
 * Tries again later, because another worker has the partition. It may have looked for events before those
 * arrived that this wake announces, so the partition must be checked once more; otherwise they would wait for
 * the sweep.
 */
const retryLater = (app: App, key: string): void => {
  setTimeout(() => app.queue.wakeHere("process-events", key), BUSY_RETRY_MS).unref();
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

/** How often a process shows that it is alive and looks for those that have died, in ms. */
const LOOK_EVERY_MS = 500;

type EventJobName = "process-events" | "watch-processes";

/** Creates the jobs that process events, which share what their process has in hand. */
export const createEventJobs = (): Readonly<Record<EventJobName, AnyJob>> => {
  const handOf = createHandOf();
  return { "process-events": createProcessEvents(handOf), "watch-processes": createWatchProcesses(handOf) };
};

/** Looks for processes that died with events in hand, and settles what they have left. */
const createWatchProcesses = (handOf: HandOf): Job => {
  const logged = new Set<string>();
  let settling: Promise<void> | undefined;
  return {
    concurrency: 1,
    everyMs: LOOK_EVERY_MS,
    run: async (app) => {
      const hand = handOf(app);
      await hand.look();
      logDead(app, hand, logged);
      // Not awaited: while the database is slow, this process has to show that it is alive.
      if (hand.dead.length > 0) settling ??= settle(app, hand).finally(() => (settling = undefined));
    },
    atStop: async () => settling,
  };
};

/** Logs each dead process once. */
const logDead = ({ log }: App, { dead }: InHand, logged: Set<string>): void => {
  const ids = new Set(dead.map(({ id }) => id));
  for (const id of logged) if (!ids.has(id)) logged.delete(id);
  for (const { id, noted } of dead.filter((one) => !logged.has(one.id))) {
    logged.add(id);
    log.warn({ noted }, "a process died with events in hand; those that still wait are run apart, in halves");
  }
};

/** Settles what the dead have left, and wakes the partitions of the suspects. Never rejects. */
const settle = async (app: App, hand: InHand): Promise<void> => {
  try {
    const onLost = (err: unknown, noted: object): void =>
      app.log.error({ err, noted }, "what a dead process has left cannot be settled, and is forgotten");
    await settleDeaths(hand, { transact: app.transact, onError: logFailedEvent(app), onLost });
  } catch (err) {
    // The next look tries again.
    if (outageOf(err) === undefined) app.log.error({ err }, "what a dead process has left is not settled");
  }
  for (const part of hand.suspectParts) app.queue.wakeHere("process-events", String(part));
};
