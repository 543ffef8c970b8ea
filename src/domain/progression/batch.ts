import { SCHEDULE_TYPE } from "../rules/running/schedules.ts";
import type { BatchStats, StatsRecorder } from "../rules/insight/stats.ts";
import { failedTrace, keepTrace, traceOf } from "../rules/insight/traces.ts";
import { outboxRow, savepoint, type Transact, type Work } from "../work.ts";
import { lockOrCreate, noteTimes } from "./batch-players.ts";
import { announcePlayer, evaluateEvent, noEffects, openTurn, settleTurn } from "./evaluate.ts";
import { externalKey, loadStates, lockPlayers } from "./load.ts";
import { TOLD_MAX } from "./loop-guard.ts";
import { loadPlans, type PlanCache, type ProjectPlan } from "./plan.ts";
import {
  CLAIM_PROJECTS,
  claimEvents,
  lockPartition,
  postponeEvent,
  type QueuedEvent,
  RETRY_DELAYS_MS,
} from "./queue.ts";
import { type EventVerdict, saveBatch } from "./save.ts";
import { lockSharedCounters, noSharedCounters, type SharedCounters } from "./shared-counters.ts";
import { sharedKeysOf, sharesCounters } from "./shared-needs.ts";
import type { Effects } from "./effects.ts";
import type { LoopHit, PlayerState, TraceSink, Turn } from "./turn.ts";

export type ProcessOptions = {
  transact: Transact;
  plans: PlanCache;
  /** Events of one project in one claim. */
  claimLimit: number;
  onError: (error: unknown, event: QueuedEvent) => void;
  /** Counts what rules do; what was undone is not counted. */
  stats?: StatsRecorder;
  /** Hears, after the commit, of the events that were taken up. */
  onSeen?: (events: readonly QueuedEvent[], nowMs: number) => void;
  /** Hears, after the commit, of every event whose loop was cut. */
  onLoop?: (hit: LoopHit) => void;
};

/**
 * `lastProject` is where the next claim goes on: FIRST_PROJECT when it begins anew. `isAll`: the claim took
 * everything that was in the queue when it looked; what has come since has rung.
 */
export type Processed = { events: number; isBusy: boolean; isAll: boolean; lastProject: string };

export const FIRST_PROJECT = "00000000-0000-0000-0000-000000000000";
const NOTHING: Processed = { events: 0, isBusy: false, isAll: false, lastProject: FIRST_PROJECT };

/**
 * Processes one claim of a partition in one transaction: lock, claim, lock players, load, evaluate, save. A
 * constant number of statements whatever the number of events. When that fails, the claim is undone and its
 * events are tried one by one under savepoints, so that a poisoned event delays and fails only itself, and
 * definitions that cannot be read only their own project.
 */
export const processPartition = async (
  options: ProcessOptions,
  part: number,
  afterProject: string,
): Promise<Processed> => {
  try {
    return await processClaim(options, { part, afterProject }, runTogether);
  } catch {
    // What it was is logged below, by the event that does it again alone.
    return processClaim(options, { part, afterProject }, runOneByOne);
  }
};

type Claim = { events: readonly QueuedEvent[]; projectIds: readonly string[]; part: number };
type RunClaim = (work: Work, claim: Claim, options: ProcessOptions) => Promise<void>;

const processClaim = (
  options: ProcessOptions,
  { part, afterProject }: { part: number; afterProject: string },
  run: RunClaim,
): Promise<Processed> =>
  options.transact(async (work) => {
    if (!(await lockPartition(work, part))) return { ...NOTHING, isBusy: true };
    const events = await claimEvents(work, part, { afterProject, limit: options.claimLimit });
    if (events.length === 0) return { ...NOTHING, isAll: afterProject === FIRST_PROJECT };
    const projectIds = [...new Set(events.map((event) => event.projectId))];
    await run(work, { events, projectIds, part }, options);
    // Fewer projects than a claim takes: there is none after these, so the next claim begins anew.
    const lastProject = projectIds.length < CLAIM_PROJECTS ? FIRST_PROJECT : projectIds.at(-1)!;
    const isAll =
      afterProject === FIRST_PROJECT && lastProject === FIRST_PROJECT && events.length < options.claimLimit;
    return { events: events.length, isBusy: false, isAll, lastProject };
  });

const runTogether: RunClaim = async (work, { events, projectIds, part }, options) => {
  const plans = await loadPlans(work, projectIds, options.plans);
  await runBatch(work, { events, part, plans }, options);
};

/** The plan of one project, or what was thrown when it was loaded. */
type LoadedPlan = { plans: Map<string, ProjectPlan> } | { error: unknown };

const runOneByOne: RunClaim = async (work, { events, projectIds, part }, options) => {
  const loaded = new Map<string, LoadedPlan>();
  for (const projectId of projectIds) loaded.set(projectId, await tryPlan(work, projectId, options.plans));
  await lockAhead(work, events, [...loaded.values()]);
  for (const event of events) {
    await runAlone(work, { event, part, plan: loaded.get(event.projectId)!, options });
  }
};

const tryPlan = async (work: Work, projectId: string, cache: PlanCache): Promise<LoadedPlan> => {
  try {
    return { plans: await savepoint(work, () => loadPlans(work, [projectId], cache)) };
  } catch (error) {
    return { error };
  }
};

/**
 * Takes the locks of a whole claim at once, in the one order that everybody keeps: events that are tried one
 * by one would take them in theirs, and wait for others in a ring.
 */
const lockAhead = async (
  work: Work,
  events: readonly QueuedEvent[],
  loaded: readonly LoadedPlan[],
): Promise<void> => {
  try {
    const plans = new Map(loaded.flatMap((plan) => ("plans" in plan ? [...plan.plans] : [])));
    await savepoint(work, async () => {
      await lockPlayers(work, events);
      await lockSharedCounters(work, sharedKeys(plans, events, work.now.getTime()));
    });
  } catch {
    // Each event then takes its own, and shows what is wrong.
  }
};

type Alone = { event: QueuedEvent; part: number; plan: LoadedPlan; options: ProcessOptions };

const runAlone = async (work: Work, { event, part, plan, options }: Alone): Promise<void> => {
  try {
    if ("error" in plan) throw plan.error;
    const { plans } = plan;
    await savepoint(work, () => runBatch(work, { events: [event], part, plans }, options));
  } catch (error) {
    options.onError(error, event);
    if (event.attempts < RETRY_DELAYS_MS.length) await postponeEvent(work, part, event);
    else await failEvent(work, { event, part, error });
  }
};

/** Gives an event up: FAILED for good, and `event.failed` says so. */
const failEvent = async (
  work: Work,
  { event, part, error }: { event: QueuedEvent; part: number; error: unknown },
): Promise<void> => {
  const { projectId, eventId, eventType, externalUserId, seq } = event;
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const attempts = event.attempts + 1;
  const failed = outboxRow(projectId, "event.failed", {
    eventId,
    eventType,
    externalUserId,
    error: message,
    attempts,
  });
  const batch = {
    players: [],
    effects: {
      ...noEffects(),
      outbox: [failed],
      traces: [failedTrace(event, { error: message, now: work.now })],
    },
    shared: noSharedCounters(),
    verdicts: [{ projectId, eventId, status: "FAILED" as const, error: message, attempts }],
    done: [{ projectId, part, seq }],
  };
  await saveBatch(work, batch);
};

type BatchInput = { events: readonly QueuedEvent[]; part: number; plans: Map<string, ProjectPlan> };

const runBatch = async (
  work: Work,
  { events, part, plans }: BatchInput,
  { stats, onSeen, onLoop }: ProcessOptions,
): Promise<void> => {
  const { players, made } = await lockOrCreate(work, events, plans);
  const states = [...new Set(players.values())];
  const nowMs = work.now.getTime();
  noteTimes(players, events, nowMs);
  await loadStates(work, states, [...plans.values()]);
  const shared = await lockSharedCounters(work, sharedKeys(plans, events, nowMs));
  const counts = stats?.openBatch();
  const scene: Scene = { plans, players, effects: noEffects(), shared, nowMs, counts, loops: [] };
  const verdicts = applyAll(events, scene, made);
  const { effects, loops } = scene;
  const done = events.map(({ projectId, seq }) => ({ projectId, part, seq }));
  await saveBatch(work, { players: states, effects, shared, verdicts, done });
  if (onSeen) work.afterCommit(() => onSeen(events, nowMs));
  if (counts) work.afterCommit(() => counts.commit(effects, nowMs));
  if (onLoop && loops.length > 0) work.afterCommit(() => loops.forEach(onLoop));
};

/** What events may tell that are saved in one statement; those of a claim that tells more go one by one. */
const TOLD_TOGETHER_MAX = 10 * TOLD_MAX;

/** @param made who was made by the batch, by `externalKey`: announced with their first event */
const applyAll = (events: readonly QueuedEvent[], scene: Scene, made: Set<string>): EventVerdict[] => {
  const verdicts: EventVerdict[] = [];
  for (const event of events) {
    const firings = made.delete(externalKey(event)) ? announce(event, scene) : undefined;
    const verdict = applyEvent(event, scene, firings);
    if (verdict) verdicts.push(verdict);
    if (events.length > 1 && scene.effects.outbox.length > TOLD_TOGETHER_MAX)
      throw new Error("the events of the claim bring about too much to be saved together");
  }
  return verdicts;
};

const sharedKeys = (plans: ReadonlyMap<string, ProjectPlan>, events: readonly QueuedEvent[], nowMs: number) =>
  [...plans.values()].filter(sharesCounters).flatMap((plan) => {
    const own = events.filter(({ projectId }) => projectId === plan.projectId);
    const coming = own.map(({ eventType, occurredAt }) => ({
      type: eventType,
      at: Math.min(occurredAt.getTime(), nowMs),
    }));
    return sharedKeysOf(plan, coming);
  });

type Scene = {
  plans: Map<string, ProjectPlan>;
  /** By `externalKey`. */
  players: Map<string, PlayerState>;
  effects: Effects;
  shared: SharedCounters;
  nowMs: number;
  counts: BatchStats | undefined;
  loops: LoopHit[];
};

type Firings = Turn["root"]["firings"];
type TurnMore = { trace?: TraceSink | undefined; firings?: Firings | undefined };

const turnOf = (queued: QueuedEvent, player: PlayerState, scene: Scene, more?: TurnMore): Turn => {
  const { eventId, eventType, properties, occurredAt, projectId } = queued;
  const { plans, effects, shared, nowMs, counts } = scene;
  const plan = plans.get(projectId)!;
  const at = Math.min(occurredAt.getTime(), nowMs);
  const event = {
    id: eventId,
    type: eventType,
    at,
    properties,
    depth: 0,
    ...(eventType === SCHEDULE_TYPE ? { ruleId: String(properties["ruleId"]) } : {}),
  };
  const parts = { plan, player, event, nowMs, effects, shared, isTracked: true };
  return openTurn({ ...parts, ...more, observe: counts?.observerOf(projectId).considered });
};

/**
 * Tells of a player whom the batch has made, as an effect of the player's first event.
 * @returns which rules fired for it: the event's own firings go on from there, as do their ledger keys
 */
const announce = (queued: QueuedEvent, scene: Scene): Firings => {
  const player = scene.players.get(externalKey(queued))!;
  const turn = turnOf(queued, player, scene);
  announcePlayer(turn, "EVENT");
  settleTurn(turn, player.xp);
  if (turn.root.loop) scene.loops.push(turn.root.loop);
  return turn.root.firings;
};

const applyEvent = (
  queued: QueuedEvent,
  scene: Scene,
  firings: Firings | undefined,
): EventVerdict | undefined => {
  const { projectId, eventId } = queued;
  const player = scene.players.get(externalKey(queued));
  const reject = (error: string): EventVerdict => ({
    projectId,
    eventId,
    status: "REJECTED",
    error,
    attempts: queued.attempts + 1,
  });
  if (!player) return reject(unknownPlayer(queued));
  if (player.status !== "ACTIVE") return reject(`the player is ${player.status}`);
  const trace = traceOf(scene.plans.get(projectId)!, eventId);
  const turn = turnOf(queued, player, scene, { trace, firings });
  const problem = evaluateEvent(turn);
  keepTrace(turn);
  if (turn.root.loop) scene.loops.push(turn.root.loop);
  return problem === undefined ? undefined : reject(problem);
};

const unknownPlayer = ({ eventType }: QueuedEvent): string =>
  eventType.startsWith("system.")
    ? "the target is unknown and this project does not create unknown targets"
    : "the player is unknown and this project does not create players";
