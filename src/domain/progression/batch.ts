import { sql } from "kysely";
import { SCHEDULE_TYPE } from "../evaluation/language/triggers.ts";
import type { BatchStats, StatsRecorder } from "../evaluation/running/stats.ts";
import { keepTrace, traceOf } from "../evaluation/trace/keep-trace.ts";
import { PacedBudget, paced } from "../kernel/pace.ts";
import type { Work } from "../kernel/work.ts";
import { unanswered } from "../kernel/statements.ts";
import { loadFitting, lockOrCreate, unmakePlayers, unmakingHeld } from "./batch-players.ts";
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

/** Who hears of what a batch does. */
export type BatchEars = {
  /** Counts what rules do; what was undone is not counted. */
  stats?: StatsRecorder;
  /** Hears, after the commit, of the events that were taken up. */
  onSeen?: (events: readonly QueuedEvent[], nowMs: number) => void;
  /** Hears, after the commit, of every event whose loop was cut. */
  onLoop?: (hit: LoopHit) => void;
  /**
   * Hears of every event whose steps did not suffice, at once: a claim that is undone has taken them too, and
   * tells of its events again when it is repeated.
   */
  onSteps?: (hit: StepsHit) => void;
  /** Hears, after the commit, of every plan that does without something. */
  onLeftOut?: (plan: ProjectPlan) => void;
};

/** `steps`: what the batch may take; once it is spent, the events that are left stay in the queue. */
type BatchInput = {
  events: readonly QueuedEvent[];
  plans: Map<string, ProjectPlan>;
  steps?: ClaimBudget;
};

/**
 * Evaluates events in their order and saves what they bring about, in a constant number of statements.
 * @returns the events that were evaluated: the first ones, and at least one
 * @throws what any of the events throws; then nothing of the batch may be committed
 */
export const runBatch = async (
  work: Work,
  { events: claimed, plans, steps = new ClaimBudget(Infinity) }: BatchInput,
  { stats, onSeen, onLoop, onSteps, onLeftOut }: BatchEars,
): Promise<readonly QueuedEvent[]> => {
  const lacking = [...plans.values()].filter(({ leftOut }) => leftOut.length > 0);
  if (onLeftOut && lacking.length > 0) work.afterCommit(() => lacking.forEach(onLeftOut));
  const { players, made } = await lockOrCreate(work, claimed, plans);
  const nowMs = work.now.getTime();
  const { fitting, states } = await loadFitting(work, { events: claimed, players, plans });
  const { keys, covered } = await sharedKeys(plans, fitting, nowMs, steps);
  const makers = claimed.filter((event) => made.has(externalKey(event)));
  const shared = await unmakingHeld(work, makers, () => lockUnheldCounters(work, keys));
  const counts = stats?.openBatch();
  const scene: Scene = {
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
  };
  const { events, verdicts } = await applyAll(work, fitting.slice(0, covered), { scene, made });
  await unmakePlayers(
    work,
    claimed.slice(events.length).filter((event) => made.has(externalKey(event))),
  );
  const { effects, loops } = scene;
  const done = events.map(({ projectId, part, seq }) => ({ projectId, part, seq }));
  await saveBatch(work, { players: states, effects, shared, verdicts, done });
  if (onSeen) work.afterCommit(() => onSeen(events, nowMs));
  if (counts) work.afterCommit(() => counts.commit(effects, nowMs));
  if (onLoop && loops.length > 0) work.afterCommit(() => loops.forEach(onLoop));
  return events;
};

/** After so long between two events PostgreSQL is told that the transaction goes on, in ms. */
const STAND_STILL_MS = 1_000;

type Applied = { events: readonly QueuedEvent[]; verdicts: EventVerdict[] };

/**
 * Evaluates events until the batch has spent its steps, and gives way to others in between.
 * @param made who was made by the batch, by `externalKey`: announced with their first event
 */
const applyAll = async (
  work: Work,
  events: readonly QueuedEvent[],
  { scene, made }: { scene: Scene; made: Set<string> },
): Promise<Applied> => {
  const verdicts: EventVerdict[] = [];
  const { steps } = scene;
  let askedMs = performance.now();
  for (const [i, event] of events.entries()) {
    // Without a rest: what it has is to be saved before the transaction has stood still for long.
    if (i > 0 && steps.isSpent) return { events: events.slice(0, i), verdicts };
    if (i > 0) await steps.rest();
    if (performance.now() - askedMs > STAND_STILL_MS) {
      await unanswered(work.db, sql`select`);
      askedMs = performance.now();
    }
    const verdict = applyTimed(event, scene, made);
    if (verdict) verdicts.push(verdict);
  }
  return { events, verdicts };
};

/** Applies an event and charges what it takes to the claim, also when it throws. */
const applyTimed = (event: QueuedEvent, scene: Scene, made: Set<string>): EventVerdict | undefined => {
  const { steps, uncharged } = scene;
  const sinceMs = steps.cpuMs();
  const accounts = openAccounts();
  const player = scene.players.get(externalKey(event));
  const loading = player && uncharged.delete(player) ? loadSteps(player) : 0;
  try {
    const firings = made.delete(externalKey(event)) ? announce(event, scene, accounts) : undefined;
    return applyEvent(event, scene, { firings, accounts });
  } finally {
    const plan = scene.plans.get(event.projectId)!;
    steps.take(event, plan, { steps: loading + eventSteps(plan, accounts), sinceMs });
  }
};

const eventSteps = ({ segmentIndex, boards }: ProjectPlan, accounts: EventAccounts): number =>
  EVENT_STEPS + segmentIndex.readers.length + 10 * boards.length + stepsOf(accounts) + writtenOf(accounts);

/** Counters of one project that a claim locks in one statement; those of its first event may be more. */
export const SHARED_KEYS_MAX = 5_000;

/**
 * The counters that players share which the first `covered` of the events could touch. The next event would
 * be of a project that needs SHARED_KEYS_MAX already. At least one event is covered. What looking for them
 * takes is charged to their project.
 */
export const sharedKeys = async (
  plans: ReadonlyMap<string, ProjectPlan>,
  events: readonly QueuedEvent[],
  nowMs: number,
  steps: ClaimBudget,
): Promise<{ keys: SharedKey[]; covered: number }> => {
  const looked = new PacedBudget(Infinity);
  const all: SharedKey[] = [];
  let covered = events.length;
  for (const plan of [...plans.values()].filter(sharesCounters)) {
    const own = events.filter(({ projectId }) => projectId === plan.projectId);
    const coming = own.map(({ eventType, occurredAt }) => ({
      type: eventType,
      at: Math.min(occurredAt.getTime(), nowMs),
    }));
    const before = looked.spent;
    const first = await paced(firstSharedKeys(plan, coming, SHARED_KEYS_MAX), looked);
    steps.takeAhead(plan, looked.spent - before);
    for (const key of first.keys) all.push(key);
    if (first.covered < own.length) covered = Math.min(covered, events.indexOf(own[first.covered]!));
  }
  return { keys: all, covered };
};

type Scene = {
  plans: Map<string, ProjectPlan>;
  /** By `externalKey`. */
  players: Map<string, PlayerState>;
  effects: Effects;
  shared: SharedCounters;
  nowMs: number;
  counts: BatchStats | undefined;
  steps: ClaimBudget;
  loops: LoopHit[];
  onSteps: BatchEars["onSteps"];
  /** Players whose loading has not been charged yet: their first event is. */
  uncharged: Set<PlayerState>;
};

type Firings = Turn["root"]["firings"];
type Before = { firings: Firings | undefined; accounts: EventAccounts };
type TurnMore = { trace?: TraceSink | undefined; firings?: Firings | undefined; accounts: EventAccounts };

const turnOf = (queued: QueuedEvent, player: PlayerState, scene: Scene, more: TurnMore): PlanTurn => {
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
const announce = (queued: QueuedEvent, scene: Scene, accounts: EventAccounts): Firings => {
  const player = scene.players.get(externalKey(queued))!;
  const turn = turnOf(queued, player, scene, { accounts });
  announcePlayer(turn, "EVENT");
  settleTurn(turn, player.xp);
  if (turn.root.loop) scene.loops.push(turn.root.loop);
  return turn.root.firings;
};

const applyEvent = (queued: QueuedEvent, scene: Scene, before: Before): EventVerdict | undefined => {
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
  const turn = turnOf(queued, player, scene, { trace, ...before });
  const problem = evaluateEvent(turn);
  keepTrace(turn, trace);
  if (turn.root.loop) scene.loops.push(turn.root.loop);
  const hit = stepsHitOf(turn);
  if (hit) scene.onSteps?.(hit);
  return problem === undefined ? undefined : reject(problem);
};

const unknownPlayer = ({ eventType }: QueuedEvent): string =>
  eventType.startsWith("system.")
    ? "the target is unknown and this project does not create unknown targets"
    : "the player is unknown and this project does not create players";
