import { sql } from "kysely";
import { SCHEDULE_TYPE } from "../evaluation/language/triggers.ts";
import type { BatchStats, StatsRecorder } from "../evaluation/running/stats.ts";
import { keepTrace, traceOf } from "../evaluation/trace/keep-trace.ts";
import { PacedBudget, paced } from "../kernel/pace.ts";
import { projectTime } from "../kernel/project-time.ts";
import type { Work } from "../kernel/work.ts";
import { unanswered } from "../kernel/statements.ts";
import { ActivePlayers } from "./active-players.ts";
import {
  loadFitting,
  lockOrCreate,
  deleteCreated,
  deletingCreatedIfHeld,
  mayCreate,
} from "./batch-players.ts";
import { ClaimBudget } from "./claim-budget.ts";
import { announcePlayer, evaluateEvent, noEffects, openTurn, settleTurn } from "../evaluation/evaluate.ts";
import {
  EVENT_STEPS,
  type EventAccounts,
  loadSteps,
  openAccounts,
  stepsOf,
  writtenOf,
} from "../evaluation/event-accounts.ts";
import { type StepsHit, stepsHitOf } from "../evaluation/event-steps.ts";
import { externalKey } from "./load.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import type { QueuedEvent } from "./queue.ts";
import type { LoopHit } from "../evaluation/rule-event.ts";
import { type EventVerdict, saveBatch } from "./save.ts";
import type { SharedCounters, SharedKey } from "../evaluation/shared-counters.ts";
import { lockUnheldCounters } from "./lock-shared-counters.ts";
import { firstSharedKeys, sharesCounters } from "../evaluation/shared-needs.ts";
import type { Effects } from "../evaluation/effects.ts";
import type { TraceSink, Turn } from "../evaluation/turn.ts";

/** Callbacks that a batch notifies about its outcome. */
export type BatchObserver = {
  /** Counts rule evaluations; those of a batch that is rolled back are not counted. */
  stats?: StatsRecorder;
  /** Called before events are evaluated: their players are locked and read. */
  onEvaluating?: () => void;
  /** Called when they are evaluated or have failed, before anything waits for the database; maybe twice. */
  onEvaluated?: () => void;
  /** Called after the commit with the events that were evaluated. */
  onSeen?: (events: readonly QueuedEvent[], nowMs: number) => void;
  /** Called after the commit for each event whose rule loop was cut off. */
  onLoop?: (hit: LoopHit) => void;
  /**
   * Called at once for each event that exceeded its step budget: a claim that is rolled back has spent the
   * steps too, and reports its events again when it is retried.
   */
  onSteps?: (hit: StepsHit) => void;
  /** Called after the commit for each plan with definitions left out. */
  onLeftOut?: (plan: ProjectPlan) => void;
};

/** `steps`: the budget of the batch; once it is spent, the remaining events stay in the queue. */
type BatchInput = {
  events: readonly QueuedEvent[];
  plans: Map<string, ProjectPlan>;
  steps?: ClaimBudget;
};

/**
 * Evaluates events in order and saves their effects, in a constant number of statements. The clocks of their
 * projects agree: `work` is at their time.
 * @returns the leading events that were evaluated, at least one
 * @throws whatever evaluation of an event throws; then nothing of the batch may be committed
 */
export const runBatch = async (
  work: Work,
  { events: claimed, plans, steps = new ClaimBudget(Infinity) }: BatchInput,
  observer: BatchObserver,
): Promise<readonly QueuedEvent[]> => {
  const { stats, onEvaluating, onEvaluated, onSteps, onLeftOut } = observer;
  const lacking = [...plans.values()].filter(({ leftOut }) => leftOut.length > 0);
  if (onLeftOut && lacking.length > 0) work.afterCommit(() => lacking.forEach(onLeftOut));
  const { players, made } = await lockOrCreate(work, claimed, plans);
  const nowMs = work.now.getTime();
  const { fitting, states } = await loadFitting(work, { events: claimed, players, plans });
  const { keys, covered } = await sharedKeys(work, { plans, events: fitting }, steps);
  const makers = claimed.filter((event) => made.has(externalKey(event)));
  const shared = await deletingCreatedIfHeld(work, makers, () => lockUnheldCounters(work, keys));
  const counts = stats?.openBatch();
  const batch: BatchState = {
    plans,
    players,
    effects: noEffects(),
    shared,
    nowMs,
    counts,
    steps,
    loops: [],
    onSteps,
    uncharged: new Set(states),
    active: new ActivePlayers(work),
  };
  onEvaluating?.();
  try {
    const { events, verdicts } = await applyAll(work, fitting.slice(0, covered), { batch, made });
    await deleteCreated(
      work,
      claimed.slice(events.length).filter((event) => made.has(externalKey(event))),
    );
    const { effects } = batch;
    const done = events.map(({ projectId, part, seq }) => ({ projectId, part, seq }));
    await saveBatch(work, { players: states, effects, shared, verdicts, done }, onEvaluated);
    await batch.active.save(work, Math.min(...claimed.map(({ part }) => part)));
    tellAfterCommit(work, { events, batch }, observer);
    return events;
  } finally {
    onEvaluated?.();
  }
};

/** Tells what became of a batch that is saved, once it is committed. */
const tellAfterCommit = (
  work: Work,
  { events, batch }: { events: readonly QueuedEvent[]; batch: BatchState },
  { onSeen, onLoop }: BatchObserver,
): void => {
  const { loops, counts, effects, nowMs } = batch;
  if (onSeen) work.afterCommit(() => onSeen(events, nowMs));
  if (counts) work.afterCommit(() => counts.commit(effects, nowMs));
  if (onLoop && loops.length > 0) work.afterCommit(() => loops.forEach(onLoop));
};

/** Time between two events after which a statement keeps the transaction from its idle timeout, in ms. */
const STAND_STILL_MS = 1_000;

type Applied = { events: readonly QueuedEvent[]; verdicts: EventVerdict[] };

/**
 * Evaluates events until the batch has spent its steps, yielding to the event loop in between.
 * @param made players created by the batch, by `externalKey`: announced with their first event
 */
const applyAll = async (
  work: Work,
  events: readonly QueuedEvent[],
  { batch, made }: { batch: BatchState; made: Set<string> },
): Promise<Applied> => {
  const verdicts: EventVerdict[] = [];
  const { steps } = batch;
  let askedMs = performance.now();
  for (const [i, event] of events.entries()) {
    // Returns without yielding: the results must be saved before the transaction has been idle for long.
    if (i > 0 && steps.isSpent) return { events: events.slice(0, i), verdicts };
    if (i > 0) await steps.pause();
    if (performance.now() - askedMs > STAND_STILL_MS) {
      await unanswered(work.db, sql`select`);
      askedMs = performance.now();
    }
    const verdict = applyTimed(event, batch, made);
    if (verdict) verdicts.push(verdict);
  }
  return { events, verdicts };
};

/** Applies an event and charges its cost to the claim, even when it throws. */
const applyTimed = (event: QueuedEvent, batch: BatchState, made: Set<string>): EventVerdict | undefined => {
  const { steps, uncharged } = batch;
  const plan = batch.plans.get(event.projectId)!;
  // A later event of the batch has created the player: at this one there is none yet.
  if (made.has(externalKey(event)) && !mayCreate(event, plan))
    return applyEvent(
      event,
      { ...batch, players: new Map() },
      { firings: undefined, accounts: openAccounts() },
    );
  const sinceMs = steps.cpuMs();
  const accounts = openAccounts();
  const player = batch.players.get(externalKey(event));
  const loading = player && uncharged.delete(player) ? loadSteps(player) : 0;
  try {
    const firings = made.delete(externalKey(event)) ? announce(event, batch, accounts) : undefined;
    return applyEvent(event, batch, { firings, accounts });
  } finally {
    steps.take(event, plan, { steps: loading + eventSteps(plan, accounts), sinceMs });
  }
};

const eventSteps = ({ segmentIndex, boards }: ProjectPlan, accounts: EventAccounts): number =>
  EVENT_STEPS + segmentIndex.readers.length + 10 * boards.length + stepsOf(accounts) + writtenOf(accounts);

/**
 * Maximum number of a project's counters that a claim locks in one statement; its first event may need more.
 */
export const SHARED_KEYS_MAX = 5_000;

/**
 * Returns the counters shared by players that the first `covered` events may touch, and `covered`, which is
 * at least 1: it ends before an event of a project that needs SHARED_KEYS_MAX already. The cost of the
 * look-up is charged to the project.
 */
export const sharedKeys = async (
  work: Pick<Work, "serverNow">,
  { plans, events }: { plans: ReadonlyMap<string, ProjectPlan>; events: readonly QueuedEvent[] },
  steps: ClaimBudget,
): Promise<{ keys: SharedKey[]; covered: number }> => {
  const looked = new PacedBudget(Infinity);
  const all: SharedKey[] = [];
  let covered = events.length;
  for (const plan of [...plans.values()].filter(sharesCounters)) {
    const own = events.filter(({ projectId }) => projectId === plan.projectId);
    const nowMs = projectTime(work, plan).getTime();
    const coming = own.map(({ eventType, occurredAt }) => ({
      type: eventType,
      at: Math.min(occurredAt.getTime(), nowMs),
    }));
    const before = looked.spent;
    const first = await paced(firstSharedKeys(plan, coming, SHARED_KEYS_MAX), looked);
    steps.chargeAhead(plan, looked.spent - before);
    for (const key of first.keys) all.push(key);
    if (first.covered < own.length) covered = Math.min(covered, events.indexOf(own[first.covered]!));
  }
  return { keys: all, covered };
};

type BatchState = {
  plans: Map<string, ProjectPlan>;
  /** Keyed by `externalKey`. */
  players: Map<string, PlayerState>;
  effects: Effects;
  shared: SharedCounters;
  nowMs: number;
  counts: BatchStats | undefined;
  steps: ClaimBudget;
  loops: LoopHit[];
  onSteps: BatchObserver["onSteps"];
  /** Players whose loading has not been charged yet; their first event is charged for it. */
  uncharged: Set<PlayerState>;
  active: ActivePlayers;
};

type Firings = Turn["root"]["firings"];
type Before = { firings: Firings | undefined; accounts: EventAccounts };
type TurnMore = { trace?: TraceSink | undefined; firings?: Firings | undefined; accounts: EventAccounts };

const turnOf = (queued: QueuedEvent, player: PlayerState, batch: BatchState, more: TurnMore): PlanTurn => {
  const { eventId, eventType, properties, occurredAt, projectId } = queued;
  const { plans, effects, shared, nowMs, counts } = batch;
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
 * Announces a player that the batch created, as an effect of the player's first event.
 * @returns the firings of its rules: the event itself continues from these, as do its ledger keys
 */
const announce = (queued: QueuedEvent, batch: BatchState, accounts: EventAccounts): Firings => {
  const player = batch.players.get(externalKey(queued))!;
  const turn = turnOf(queued, player, batch, { accounts });
  announcePlayer(turn, "EVENT");
  settleTurn(turn, player.xp);
  if (turn.root.loop) batch.loops.push(turn.root.loop);
  return turn.root.firings;
};

const applyEvent = (queued: QueuedEvent, batch: BatchState, before: Before): EventVerdict | undefined => {
  const { projectId, eventId } = queued;
  const player = batch.players.get(externalKey(queued));
  const reject = (error: string): EventVerdict => ({
    projectId,
    eventId,
    status: "REJECTED",
    error,
    attempts: queued.attempts + 1,
  });
  if (!player) return reject(unknownPlayer(queued));
  if (player.status !== "ACTIVE") return reject(`the player is ${player.status}`);
  const trace = traceOf(batch.plans.get(projectId)!, eventId);
  const turn = turnOf(queued, player, batch, { trace, ...before });
  const problem = evaluateEvent(turn);
  keepTrace(turn, trace);
  if (!queued.eventType.startsWith("system.")) batch.active.note(player, batch.plans.get(projectId)!);
  if (turn.root.loop) batch.loops.push(turn.root.loop);
  const hit = stepsHitOf(turn);
  if (hit) batch.onSteps?.(hit);
  return problem === undefined ? undefined : reject(problem);
};

const unknownPlayer = ({ eventType }: QueuedEvent): string =>
  eventType.startsWith("system.")
    ? "the target is unknown and this project does not create unknown targets"
    : "the player is unknown and this project does not create players";
