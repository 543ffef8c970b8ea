import { sql } from "kysely";
import type { Moment } from "../evaluation/boards/board.ts";
import { noEffects, type Effects } from "../evaluation/effects.ts";
import { announcePlayer, evaluateEvent, openTurn, settleTurn } from "../evaluation/evaluate.ts";
import { EventCost } from "../evaluation/event-cost.ts";
import { SCHEDULE_TYPE } from "../evaluation/language/patterns.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import type { LoopHit } from "../evaluation/rule-event.ts";
import type { StatsRecorder } from "../evaluation/running/stats.ts";
import type { SharedCounters } from "../evaluation/shared-counters.ts";
import { keepTrace, traceOf } from "../evaluation/trace/trace.ts";
import { type StepsHit, stepsHitOf, type TraceSink, type Turn } from "../evaluation/turn.ts";
import { threadCpuMs } from "../kernel/timeouts.ts";
import { guarded, nextSlice, SLICE_MS, TookTooLong } from "../kernel/slices.ts";
import { newId } from "../kernel/ids.ts";
import { unanswered } from "../kernel/statements.ts";
import { addPlayers, monthOf, type Work } from "../kernel/work.ts";
import { LOADED_ROWS_MAX, loadFirst, PAGE_BYTES_MAX, partsFor } from "./load-states.ts";
import { externalKey, type ExternalRef, insertPlayers, lockFreePlayers, lockPlayers } from "./load.ts";
import {
  CountersAsked,
  EventsHeld,
  learnAsked,
  openCounters,
  SHARED_KEYS_MAX,
  waitBriefly,
} from "./lock-shared-counters.ts";
import { countTry, type QueuedEvent } from "./queue.ts";
import { type EventVerdict, saveBatch } from "./save.ts";

/**
 * Counts the players whose first event of the month is processed by a batch, by tenant. The month is saved
 * with the player, whose row the batch has locked, so each counts once a month however often its events are
 * tried.
 */
class ActivePlayers {
  readonly #month: number;
  readonly #byTenant = new Map<string, number>();

  constructor({ serverNow }: Pick<Work, "serverNow">) {
    this.#month = monthOf(serverNow);
  }

  /** Notes an event of its own of a player. Months of servers whose clocks differ never count backwards. */
  note(player: PlayerState, { tenantId }: ProjectPlan): void {
    if (player.activeMonth !== null && player.activeMonth >= this.#month) return;
    player.activeMonth = this.#month;
    this.#byTenant.set(tenantId, (this.#byTenant.get(tenantId) ?? 0) + 1);
  }

  /**
   * Adds them to the usage of their tenants; the players must be saved in the same transaction.
   * @param part a partition that it holds
   */
  async save(work: Work, part: number): Promise<void> {
    await addPlayers(
      work,
      part,
      [...this.#byTenant].map(([tenantId, players]) => ({ tenantId, players })),
    );
  }
}

type Locked = {
  /** Keyed by `externalKey`. */
  players: Map<string, PlayerState>;
  /** The `externalKey` of each player created in this transaction. */
  made: Set<string>;
};

/**
 * Locks the existing players of a claim. Waits for players locked by others only as long as a request would
 * hold them, since the claim also contains events of other players and projects.
 * @throws EventsHeld for players that stay locked for longer
 */
const lockUnheld = async (work: Work, events: readonly QueuedEvent[]): Promise<Map<string, PlayerState>> => {
  const refs = new Map<string, ExternalRef>(events.map((event) => [externalKey(event), event]));
  const { players, held } = await lockFreePlayers(work, [...refs.values()]);
  if (held.length === 0) return players;
  const late = new Set(held.map(externalKey));
  const waited = await waitBriefly(work, () => lockPlayers(work, held));
  if (!waited) throw new EventsHeld(`${late.size} players`, (event) => late.has(externalKey(event)));
  for (const [key, player] of waited) players.set(key, player);
  return players;
};

/** Locks the players of a batch and creates those seen for the first time. @throws EventsHeld */
const lockOrCreate = async (
  work: Work,
  events: readonly QueuedEvent[],
  plans: ReadonlyMap<string, ProjectPlan>,
): Promise<Locked> => {
  const players = await lockUnheld(work, events);
  const missing = [...Map.groupBy(events, externalKey)].flatMap(([key, of]) => (players.has(key) ? [] : of));
  if (missing.length === 0) return { players, made: new Set() };
  const mayBeCreated = missing.filter((event) => mayCreate(event, plans.get(event.projectId)!));
  const refs = new Map<string, ExternalRef>(mayBeCreated.map((event) => [externalKey(event), event]));
  const rows = [...refs.values()].map((ref) => ({ ...ref, id: newId() }));
  const inserted = rows.length === 0 ? new Set() : await insertPlayers(work, rows);
  const made = rows.filter(({ id }) => inserted.has(id));
  const found = await deletingCreatedIfHeld(work, made, () => lockUnheld(work, missing));
  for (const [key, player] of found) players.set(key, player);
  return { players, made: new Set(made.map(externalKey)) };
};

/**
 * Runs `run`, which may throw EventsHeld, and deletes the players in `made` when it does: the claim goes on
 * without the affected events, and creates and announces the other players again.
 */
const deletingCreatedIfHeld = async <T>(
  work: Work,
  made: readonly ExternalRef[],
  run: () => Promise<T>,
): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    if (error instanceof EventsHeld) await deleteCreated(work, made);
    throw error;
  }
};

/** Deletes players that were created in this transaction and not announced yet. */
const deleteCreated = async (work: Work, refs: readonly ExternalRef[]): Promise<void> => {
  if (refs.length === 0) return;
  const rows = refs.map(({ projectId, externalUserId }) => ({ p: projectId, u: externalUserId }));
  await sql`
    delete from players t using json_to_recordset(${JSON.stringify(rows)}::json) as r(p uuid, u text)
    where t.project_id = r.p and t.external_user_id = r.u`.execute(work.db);
};

/**
 * Returns whether an event may create its player; the settings differ for events of integrators and of rules.
 */
const mayCreate = ({ eventType }: QueuedEvent, { settings }: ProjectPlan): boolean =>
  eventType.startsWith("system.") ? settings.createUnknownTargets : settings.autoCreatePlayers;

/** Sets on each player the moments of its upcoming events, so that what is stored per period is loaded. */
const noteMoments = (
  players: ReadonlyMap<string, PlayerState>,
  events: readonly QueuedEvent[],
  nowMs: number,
): void => {
  const moments = new Map<PlayerState, Moment[]>();
  for (const event of events) {
    const player = players.get(externalKey(event));
    if (!player) continue;
    const own = moments.get(player) ?? [];
    own.push({ at: Math.min(event.occurredAt.getTime(), nowMs), properties: event.properties });
    moments.set(player, own);
  }
  for (const [player, own] of moments) Object.assign(player, { moments: own, lists: new Map() });
};

type Loading = {
  events: readonly QueuedEvent[];
  players: ReadonlyMap<string, PlayerState>;
  plans: ReadonlyMap<string, ProjectPlan>;
};

/**
 * Loads the state of a batch's players, in the order of its events, as far as it fits into memory at once.
 * @returns the leading events whose players were loaded, at least one, and those players
 */
const loadFitting = async (
  work: Work,
  { events, players, plans }: Loading,
): Promise<{ fitting: readonly QueuedEvent[]; states: PlayerState[] }> => {
  const all = [...plans.values()];
  const limits = { bytesMax: PAGE_BYTES_MAX, rowsMax: LOADED_ROWS_MAX, parts: partsFor(all) };
  for (let size = events.length; ; size = Math.ceil(size / 2)) {
    const some = events.slice(0, size);
    const states = [...new Set(some.flatMap((event) => players.get(externalKey(event)) ?? []))];
    noteMoments(players, some, work.now.getTime());
    const count = await loadFirst(work, states, all, limits);
    if (count === undefined) continue;
    const left = new Set(states.slice(count));
    const end = some.findIndex((event) => left.has(players.get(externalKey(event))!));
    return { fitting: end === -1 ? some : some.slice(0, end), states: states.slice(0, count) };
  }
};

/** Callbacks that a batch notifies about its outcome. */
export type BatchObserver = {
  /** Counts rule evaluations; those of a batch that is rolled back are not counted. */
  stats?: StatsRecorder;
  /** Called with an event whose try has failed. */
  onError: (error: unknown, event: QueuedEvent) => void;
  /** Called before events are evaluated, when their players are locked and read, and before they are saved. */
  onEvaluating?: (isEvaluating: boolean) => Promise<void>;
  /** How long one event may be evaluated, in ms. */
  eventMaxMs?: number;
  /** Called with the project of an event that has taken `slowMs` of the process. */
  onSlow?: (projectId: string, ms: number) => void;
  slowMs?: number;
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

/** CPU time of evaluating the events of a claim, in ms: its partitions and players are locked meanwhile. */
const CLAIM_MS = 150;
/** Bytes that a claim writes in one statement, as `EventCost` counts them. */
const CLAIM_WRITTEN_MAX = 10 * 1024 * 1024;

/** What a claim has taken. Once it is spent, the remaining events stay in the queue. */
export class ClaimBudget {
  cpuMs = 0;
  written = 0;

  get isSpent(): boolean {
    return this.cpuMs > CLAIM_MS || this.written > CLAIM_WRITTEN_MAX;
  }
}

type BatchInput = {
  events: readonly QueuedEvent[];
  plans: Map<string, ProjectPlan>;
  budget?: ClaimBudget;
};

/** How long one event may be evaluated, in ms: less than its transaction may stand still (`BATCH`). */
const EVENT_MAX_MS = 2_000;

/**
 * Evaluates events in order and saves their effects, in a constant number of statements. The clocks of their
 * projects agree: `work` is at their time. An event that takes longer than it may is interrupted, and counts
 * a try; nothing else of the batch is then done.
 * @returns the leading events that were evaluated, at least one; or the one that took too long
 * @throws whatever evaluation of an event throws; then nothing of the batch may be committed
 */
export const runBatch = async (
  work: Work,
  { events: claimed, plans, budget = new ClaimBudget() }: BatchInput,
  observer: BatchObserver,
): Promise<readonly QueuedEvent[]> => {
  const { stats, onSteps, onLeftOut, onError } = observer;
  const lacking = [...plans.values()].filter(({ leftOut }) => leftOut.length > 0);
  if (onLeftOut && lacking.length > 0) work.afterCommit(() => lacking.forEach(onLeftOut));
  const { players, made } = await lockOrCreate(work, claimed, plans);
  const nowMs = work.now.getTime();
  const { fitting, states } = await loadFitting(work, { events: claimed, players, plans });
  const coming = fitting.map(({ projectId, eventType, occurredAt }) => {
    const plan = plans.get(projectId)!;
    return { plan, type: eventType, atMs: Math.min(occurredAt.getTime(), nowMs) };
  });
  const makers = claimed.filter((event) => made.has(externalKey(event)));
  const { shared, covered } = await deletingCreatedIfHeld(work, makers, () =>
    openCounters(work, coming, true),
  );
  const counts = stats?.openBatch();
  const batch: BatchState = {
    plans,
    players,
    effects: noEffects(),
    shared,
    nowMs,
    counts,
    budget,
    loops: [],
    onSteps,
    active: new ActivePlayers(work),
  };
  await observer.onEvaluating?.(true);
  const { events, verdicts, late } = await applyAll(work, fitting.slice(0, covered), {
    batch,
    made,
    observer,
  });
  await observer.onEvaluating?.(false);
  if (late) {
    await deleteCreated(work, makers);
    if (!late.isGuilty) throw new EventsHeld("the process, which stood still", () => true);
    const { event, error } = late;
    await countTry(work, { event, error, onError });
    return [event];
  }
  const asked = shared.asked();
  if (asked.length > 0) throw new CountersAsked(work, asked, events.length);
  await deleteCreated(
    work,
    claimed.slice(events.length).filter((event) => made.has(externalKey(event))),
  );
  const { effects } = batch;
  const done = events.map(({ projectId, part, seq }) => ({ projectId, part, seq }));
  await saveBatch(work, { players: states, effects, shared, verdicts, done });
  await batch.active.save(work, Math.min(...claimed.map(({ part }) => part)));
  tellAfterCommit(work, { events, batch }, observer);
  return events;
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

const asksForMany = ({ shared }: BatchState): boolean => shared.asked().length > SHARED_KEYS_MAX;

/** Time between two events after which a statement keeps the transaction from its idle timeout, in ms. */
const STAND_STILL_MS = 1_000;

/** An event that was interrupted; `isGuilty` as of TookTooLong. */
type Late = { event: QueuedEvent; error: Error; isGuilty: boolean };
type Applied = { events: readonly QueuedEvent[]; verdicts: EventVerdict[]; late?: Late };
type Applying = { batch: BatchState; made: Set<string>; observer: BatchObserver };

/**
 * Evaluates events in slices until the claim has spent its budget, yielding to the event loop in between.
 * @param made players created by the batch, by `externalKey`: announced with their first event
 */
const applyAll = async (work: Work, events: readonly QueuedEvent[], applying: Applying): Promise<Applied> => {
  const { budget } = applying.batch;
  const verdicts: EventVerdict[] = [];
  let [count, askedMs] = [0, performance.now()];
  while (count === 0 || (count < events.length && !budget.isSpent && !asksForMany(applying.batch))) {
    // Not after the last: the results must be saved before the transaction has been idle for long.
    if (count > 0) await nextSlice();
    if (performance.now() - askedMs > STAND_STILL_MS) {
      await unanswered(work.db, sql`select`);
      askedMs = performance.now();
    }
    const applied = applySlice(events.slice(count), applying, verdicts);
    if (typeof applied === "object") return { events: [], verdicts, late: applied };
    count += applied;
  }
  return { events: events.slice(0, count), verdicts };
};

/** Evaluates the first of some events. @returns how many, or the one that was interrupted */
const applySlice = (
  events: readonly QueuedEvent[],
  { batch, made, observer }: Applying,
  verdicts: EventVerdict[],
): number | Late => {
  const { onSlow, slowMs = Infinity, eventMaxMs = EVENT_MAX_MS } = observer;
  const [fromMs, untilMs] = [threadCpuMs(), performance.now() + SLICE_MS];
  let count = 0;
  const apply = (): void => {
    do {
      const verdict = applyNoting(events[count]!, batch, made);
      if (verdict) verdicts.push(verdict);
      count++;
    } while (
      count < events.length &&
      performance.now() < untilMs &&
      !batch.budget.isSpent &&
      !asksForMany(batch)
    );
  };
  try {
    guarded(eventMaxMs, apply);
  } catch (error) {
    const late = lateOf(events[count]!, error);
    if (late.isGuilty) onSlow?.(late.event.projectId, threadCpuMs() - fromMs);
    return late;
  }
  const cpuMs = threadCpuMs() - fromMs;
  batch.budget.cpuMs += cpuMs;
  // A slice ends with an event that takes as long.
  if (cpuMs >= slowMs) onSlow?.(events[count - 1]!.projectId, cpuMs);
  return count;
};

/** @throws errors but TookTooLong */
const lateOf = (event: QueuedEvent, error: unknown): Late => {
  if (!(error instanceof TookTooLong)) throw error;
  return { event, error: new Error(`evaluation ${error.message}`), isGuilty: error.isGuilty };
};

/** As `applyOwn`; what the event asks for, the next ones of its type have locked. */
const applyNoting = (event: QueuedEvent, batch: BatchState, made: Set<string>): EventVerdict | undefined => {
  const before = batch.shared.asked().length;
  const verdict = applyOwn(event, batch, made);
  const asked = batch.shared.asked().slice(before);
  const of = { plan: batch.plans.get(event.projectId)!, type: event.eventType };
  if (asked.length > 0) learnAsked(of, asked);
  return verdict;
};

/** Applies an event to its player, who is announced before where the batch has created it. */
const applyOwn = (event: QueuedEvent, batch: BatchState, made: Set<string>): EventVerdict | undefined => {
  const key = externalKey(event);
  const cost = new EventCost();
  // A later event of the batch has created the player: at this one there is none yet.
  if (made.has(key) && !mayCreate(event, batch.plans.get(event.projectId)!))
    return applyEvent(event, { ...batch, players: new Map() }, { firings: undefined, cost });
  const firings = made.delete(key) ? announce(event, batch, cost) : undefined;
  const verdict = applyEvent(event, batch, { firings, cost });
  batch.budget.written += cost.written.spent + cost.others;
  return verdict;
};

type BatchState = {
  plans: Map<string, ProjectPlan>;
  /** Keyed by `externalKey`. */
  players: Map<string, PlayerState>;
  effects: Effects;
  shared: SharedCounters;
  nowMs: number;
  counts: ReturnType<StatsRecorder["openBatch"]> | undefined;
  budget: ClaimBudget;
  loops: LoopHit[];
  onSteps: BatchObserver["onSteps"];
  active: ActivePlayers;
};

type Firings = Turn["root"]["firings"];
type Before = { firings: Firings | undefined; cost: EventCost };
type TurnMore = { trace?: TraceSink | undefined; firings?: Firings | undefined; cost: EventCost };

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
  return openTurn({ ...parts, ...more, observe: counts?.observerOf(projectId) });
};

/**
 * Announces a player that the batch created, as an effect of the player's first event.
 * @returns the firings of its rules: the event itself continues from these, as do its ledger keys
 */
const announce = (queued: QueuedEvent, batch: BatchState, cost: EventCost): Firings => {
  const player = batch.players.get(externalKey(queued))!;
  const turn = turnOf(queued, player, batch, { cost });
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
