import type { App } from "../app.ts";
import type { ProjectPlan } from "../domain/evaluation/project-plan.ts";
import type { LoopHit } from "../domain/evaluation/rule-event.ts";
import type { StepsHit } from "../domain/evaluation/turn.ts";
import { eventsTopic, processedTopic } from "../domain/kernel/topics.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { statementOf } from "../domain/kernel/read.ts";
import type { Work } from "../domain/kernel/work.ts";
import {
  ClaimOrder,
  processApart,
  type Processed,
  type ProcessOptions,
  processPartitions,
} from "../domain/progression/claim.ts";
import { groupsOf, Turns } from "../domain/progression/claim-notes.ts";
import { observedPlans } from "../domain/progression/plan.ts";
import { FIRST_PROJECT, type QueuedEvent } from "../domain/progression/queue.ts";
import {
  createRuleWatch,
  LOOPS_MAX,
  pauseExpensiveRule,
  pauseLoopingRule,
  pauseUnfitRule,
  STEPS_HITS_MAX,
} from "../domain/rules/lifecycle/publishing.ts";
import type { HeldKeys, JobTogether } from "./job.ts";

/** Partitions processed concurrently by one process. */
const PROCESS_CONCURRENCY = 4;
/** Delay before a partition held by another worker is tried again. */
const BUSY_RETRY_MS = 25;

/** Creates the state that a process keeps between claims. */
const createKept = () => {
  const order = new ClaimOrder();
  return {
    order,
    plans: observedPlans((projectId, over) => order.rest(projectId, over)),
    turns: new Turns(),
    /** Detect rules that the engine repeatedly had to hold. */
    loops: createRuleWatch(LOOPS_MAX),
    steps: createRuleWatch(STEPS_HITS_MAX),
    /** Where the next claim of a partition continues, unless it starts over. */
    cursors: new Map<string, string>(),
    /** Number of consecutive claims of a partition that were rolled back because the database was busy. */
    busyInRow: new Map<string, number>(),
    /** Plans whose missing parts were reported. */
    reported: new WeakSet<ProjectPlan>(),
  };
};
type ProcessState = ReturnType<typeof createKept>;

/** Findings of a claim that concern held rules. */
type ClaimFindings = {
  loops: LoopHit[];
  /** By event: a claim that is rolled back reports it again. */
  hits: Map<string, StepsHit>;
  /** Incomplete plans, by project. */
  lacking: Map<string, ProjectPlan>;
  /** Events that were evaluated or failed. */
  tried: QueuedEvent[];
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

type ClaimOptions = Omit<ProcessOptions, "onLeft">;

const optionsOf = (
  app: App,
  kept: ProcessState,
  { loops, hits, lacking, tried }: ClaimFindings,
): ClaimOptions => ({
  transact: app.transact,
  ...besideOf(app),
  plans: kept.plans,
  order: kept.order,
  claimLimit: app.limits.claimEvents,
  claimTogether: app.limits.claimTogether,
  stats: app.ruleStats,
  onSeen: (events, nowMs) => {
    tried.push(...events);
    app.eventTypes.seen(events, nowMs);
  },
  onError: (err: unknown, event: QueuedEvent) => {
    tried.push(event);
    app.log.error({ err, event }, "an event could not be processed");
  },
  onDied: (part: number, events: number) =>
    app.log.warn({ part, events }, "a process died with events in hand; they are evaluated apart"),
  onLoop: (hit: LoopHit) => void loops.push(hit),
  onSteps: (hit: StepsHit) => void hits.set(hit.rootEventId, hit),
  onLeftOut: (plan: ProjectPlan) => void lacking.set(plan.projectId, plan),
});

/** A statement outside of transactions, which is a transaction of its own on a server. */
const besideOf = ({ readAs }: App): Pick<ClaimOptions, "beside"> =>
  readAs ? { beside: async (statement) => void (await readAs()(statementOf(statement))) } : {};

/** Key: a partition. Processes claims of the waiting partitions until they are empty. */
export const createProcessEvents = (): JobTogether => {
  const kept = createKept();
  return {
    concurrency: PROCESS_CONCURRENCY,
    runTogether: (app, keys, held, isWoken) => claimTogether({ app, kept }, keys, { ...held, isWoken }),
  };
};

type Claiming = { app: App; kept: ProcessState };

/** @returns the partitions to claim again */
const claimTogether = async (
  of: Claiming,
  keys: readonly string[],
  held: HeldKeys & { isWoken: boolean },
): Promise<readonly string[]> => {
  const { cursors: places, turns } = of.kept;
  const taken = keys.map((key) => ({ part: Number(key), afterProject: places.get(key) ?? FIRST_PROJECT }));
  const onLeft = (left: readonly { part: number }[]): void =>
    held.leave(left.map(({ part }) => String(part)));
  const done = await turns.beside(() =>
    claimOnce(of, keys, (options) => processPartitions({ ...options, isWoken: held.isWoken, onLeft }, taken)),
  );
  for (const part of done.parts) places.delete(String(part));
  for (const { part, afterProject } of done.again) places.set(String(part), afterProject);
  const again = done.again.map(({ part }) => String(part));
  if (done.apart.length === 0) return again;
  // Events in other partitions need not wait for those.
  const own = new Set(done.apart.map(({ part }) => String(part)));
  held.leave(again.filter((key) => !own.has(key)));
  held.done(keys.filter((key) => !own.has(key)));
  let isProgress = false;
  for (const group of groupsOf(done.apart).slice(0, GROUPS_MAX)) {
    const { events } = await turns.alone(() =>
      claimOnce(of, [String(group[0]!.part)], (options) => processApart(options, group)),
    );
    isProgress ||= events > 0;
  }
  return isProgress ? [...own] : again.filter((key) => own.has(key));
};

/** Groups of events that are evaluated apart before the next claim of their partitions. */
const GROUPS_MAX = 20;

/** Makes a claim of partitions, and does what follows from it. */
const claimOnce = async (
  { app, kept }: Claiming,
  keys: readonly string[],
  claim: (options: ClaimOptions) => Promise<Processed>,
): Promise<Processed> => {
  const held: ClaimFindings = { loops: [], hits: new Map(), lacking: new Map(), tried: [] };
  const options = optionsOf(app, kept, held);
  const done = await claimOf(kept, keys, (busyInRow) => claim({ ...options, busyInRow }));
  for (const part of done.busy) retryLater(app, String(part));
  const recheck = (parts: readonly number[]): void => {
    for (const part of parts) app.queue.wakeHere("process-events", String(part));
  };
  void done.preparing?.then(recheck);
  if (done.closed.length > 0) void done.reopened.then(() => recheck(done.closed));
  for (const part of done.parts) app.topics.publish(processedTopic(part), part);
  void tellTried(app, held);
  // Waiting for another transaction on one project's definitions must not delay the events of others.
  void pauseHeld(app, kept, held);
  if (done.events > 0) {
    app.metrics.eventsProcessed.inc(done.events);
    app.metrics.batches.inc();
    await app.limits.pause?.();
  }
  return done;
};

/** Tells those who watch events as they are processed. Never rejects. */
const tellTried = ({ topics }: App, { tried }: ClaimFindings): Promise<void> =>
  topics.publishIfSubscribed(
    [...Map.groupBy(tried, ({ projectId }) => projectId)].map(([projectId, events]) => [
      eventsTopic(projectId),
      () => events.map(({ eventId, eventType, externalUserId }) => [eventId, eventType, externalUserId]),
    ]),
    true,
  );

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
