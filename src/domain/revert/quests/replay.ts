import { noEffects } from "../../evaluation/effects.ts";
import { changeEvent, openTurn } from "../../evaluation/evaluate.ts";
import { addToCounter, type CounterState } from "../../evaluation/metrics/compile.ts";
import { sampleOfEvent } from "../../evaluation/metrics/count.ts";
import { asReceived, isInPause } from "../../evaluation/live.ts";
import { noHoldings, nothingDirty, type PlayerState, type StepCount } from "../../evaluation/player-state.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { beginsByEvent, firstSteps } from "../../evaluation/quests/advance.ts";
import type { CompiledQuest, CompiledStep } from "../../evaluation/quests/compile.ts";
import {
  cycleAt,
  hasPeriods,
  isRested,
  type NextCycle,
  nextCycle,
  calendarFor,
} from "../../evaluation/quests/context.ts";
import {
  countEventFor,
  expireDue,
  inProgress,
  settleQuest,
  settleSteps,
  startQuest,
} from "../../evaluation/quests/progress.ts";
import type { QuestRow } from "../../evaluation/quests/row.ts";
import type { RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { createSharedCounters } from "../../evaluation/shared-counters.ts";
import { idFloor, NIL_ID, timeOfId } from "../../kernel/ids.ts";
import type { HistoryEvent } from "../../rules/insight/history.ts";
import type { CounterStarts, Owner } from "../counters-without.ts";

/** A cycle of a quest as events have made it. */
export type PlayedCycle = { row: QuestRow; counts: Readonly<Record<string, StepCount>> | undefined };

/** What a replay has come to. */
export type Played = {
  /** By key of the cycle. */
  cycles: ReadonlyMap<string, PlayedCycle>;
  /** The latest cycle; undefined where none has begun. */
  latest: QuestRow | undefined;
  /** Counters of LIFETIME steps, by id of the metric. */
  counters: ReadonlyMap<string, CounterState | undefined>;
  /** Rewards that events have given, by their keys. */
  given: ReadonlyMap<string, { eventId: string; bundle: RewardBundle }>;
  /** Ids of the events that have completed cycles, by key of the cycle. */
  completedBy: ReadonlyMap<string, string>;
};

export type Replaying = {
  owner: Owner;
  /** The version by which the cycles are done. */
  version: CompiledQuest;
  /** The stored cycles, oldest first; no others begin. */
  rows: readonly QuestRow[];
  starts: CounterStarts;
  nowMs: number;
  /** Ids of the events that are left out, with their times in ms. */
  without: ReadonlyMap<string, number>;
  /** The replay of all events, which visits each of them before this one does. */
  after?: Replay;
};

/** Plays a player's events again for one quest. */
export type Replay = {
  visit(event: HistoryEvent): void;
  /** Whether a cycle has begun so far. */
  hasBegun(cycleKey: string): boolean;
  /** To be called after the last event. */
  result(): Played;
};

/** A player who has nothing but a name and a time zone; what is given is noted, not granted. */
const scratchTurn = ({ owner, nowMs }: Replaying, given: Map<string, Given>): PlanTurn => {
  const player: PlayerState = {
    ...owner.player,
    ...noHoldings(),
    status: "ACTIVE",
    doc: {},
    docSize: { bytes: 0, isExact: false, isPruned: true },
    lists: new Map(),
    dirty: nothingDirty(),
  };
  const plan = { ...owner.project, hasListeners: () => false };
  const event = changeEvent(NIL_ID, nowMs);
  const shared = createSharedCounters("FROM_ZERO");
  const turn = openTurn({ plan, player, event, nowMs, effects: noEffects(), shared });
  return { ...turn, give: ({ event: { id } }, { key, bundle }) => given.set(key, { eventId: id, bundle }) };
};

type Given = { eventId: string; bundle: RewardBundle };

/** Whether the first steps can be done without an event, so that an event is not what begins the quest. */
const beginsByState = (version: CompiledQuest): boolean =>
  firstSteps(version).some(({ definition }) => definition.kind !== "EVENT");

/**
 * Of steps without events only the time is known at which each was done: it is done again from then on,
 * unless an event that is left out has done it.
 */
const withKnownStates = ({ version, rows, without }: Replaying): CompiledQuest => {
  const left = new Set(without.values());
  const byCycle = new Map(rows.map((row) => [row.cycleKey, row]));
  const known = (step: CompiledStep): CompiledStep => {
    if (step.definition.kind === "EVENT") return step;
    return {
      ...step,
      test: ({ player, event }) => {
        const cycleKey = player.quests.get(version.key)?.latest.cycleKey ?? "";
        const doneMs = byCycle.get(cycleKey)?.steps[step.definition.key]?.doneMs;
        return doneMs !== undefined && event.at >= doneMs && !left.has(doneMs);
      },
    };
  };
  return { ...version, phase: "RUNNING", steps: version.steps.map(known) };
};

/** A moment at which something other than an event has changed the quest: its start, or a state. */
type Moment = { atMs: number; row: QuestRow | undefined };

const momentsOf = ({ version, rows, without }: Replaying): Moment[] => {
  const isByState = beginsByState(version);
  const states = version.steps.filter(({ definition }) => definition.kind !== "EVENT");
  /** What a rule has started falls with the rule's event. */
  const isStartedApart = ({ startedBy, eventId = "" }: QuestRow): boolean =>
    startedBy === "RULE" ? !without.has(eventId) : startedBy !== "AUTO" || isByState;
  const moments = rows.flatMap((row): Moment[] => [
    ...(isStartedApart(row) ? [{ atMs: row.startedMs, row }] : []),
    ...states.flatMap(({ definition: { key } }): Moment[] => {
      const doneMs = row.steps[key]?.doneMs;
      return doneMs === undefined ? [] : [{ atMs: doneMs, row: undefined }];
    }),
  ]);
  return moments.toSorted((a, b) => a.atMs - b.atMs);
};

/** Opens playing a player's events again for one quest, from its first stored cycle on. */
export const openReplay = (replaying: Replaying): Replay => new QuestReplay(replaying);

class QuestReplay implements Replay {
  readonly #given = new Map<string, Given>();
  readonly #completedBy = new Map<string, string>();
  readonly #turn: PlanTurn;
  readonly #quest: CompiledQuest;
  readonly #byCycle: ReadonlyMap<string, QuestRow>;
  readonly #moments: Moment[];
  readonly #of: Replaying;

  constructor(replaying: Replaying) {
    this.#of = replaying;
    this.#turn = scratchTurn(replaying, this.#given);
    this.#quest = withKnownStates(replaying);
    this.#byCycle = new Map(replaying.rows.map((row) => [row.cycleKey, row]));
    this.#moments = momentsOf(replaying);
  }

  visit(event: HistoryEvent): void {
    const isCounted = this.#quest.stepsFor(event.type).length > 0;
    if (!isCounted && !this.#quest.isStateful) return;
    this.#passMoments(timeOfId(event.id));
    if (this.#of.without.has(event.id)) return;
    const { id, type, at, properties } = event;
    const turn = this.#at({ id, type, at, properties, depth: 0 });
    this.#countForLife(event);
    this.#play(turn, () => this.#startByItself(turn));
    this.#turn.effects.outbox.length = 0;
  }

  hasBegun(cycleKey: string): boolean {
    const state = this.#turn.player.quests.get(this.#quest.key);
    return state !== undefined && [state.latest, ...state.older].some((row) => row.cycleKey === cycleKey);
  }

  result(): Played {
    this.#passMoments(Infinity);
    const turn = this.#at(changeEvent(NIL_ID, this.#of.nowMs));
    expireDue(turn, this.#quest);
    const { quests, doc } = turn.player;
    const state = quests.get(this.#quest.key);
    const rows = state ? [...state.older, state.latest] : [];
    const cycles = new Map(
      rows.map((row): [string, PlayedCycle] => [row.cycleKey, { row, counts: doc.q?.[row.id] }]),
    );
    const counters = new Map(
      this.#quest.steps.flatMap(({ lifetime }): [string, CounterState | undefined][] =>
        lifetime ? [[lifetime.id, doc.c?.[lifetime.id] as CounterState | undefined]] : [],
      ),
    );
    const [given, completedBy] = [this.#given, this.#completedBy];
    return { cycles, latest: state?.latest, counters, given, completedBy };
  }

  #at(event: PlanTurn["event"]): PlanTurn {
    const root = { ...this.#turn.root, id: event.id, isTracked: event.id !== NIL_ID };
    return { ...this.#turn, event, root };
  }

  #passMoments(untilMs: number): void {
    for (let next = this.#moments[0]; next && next.atMs <= untilMs; next = this.#moments[0]) {
      this.#moments.shift();
      const turn = this.#at(changeEvent(NIL_ID, next.atMs));
      const { row } = next;
      this.#play(turn, () => row && this.#startAs(turn, row));
    }
  }

  #play(turn: PlanTurn, start: () => void): void {
    const quest = asReceived(this.#quest, turn);
    settleQuest(turn, quest);
    if (quest.phase === "PAUSED") return;
    if (!inProgress(turn, quest)) start();
    const running = inProgress(turn, quest);
    if (!running) return;
    countEventFor(turn, quest, running.row);
    settleSteps(turn, quest, inProgress(turn, quest)!.row);
    const { latest } = turn.player.quests.get(quest.key)!;
    if (latest.completedMs !== null) this.#completedBy.set(latest.cycleKey, turn.event.id);
  }

  /** Starts a cycle that a request or rule has started, or a state. */
  #startAs(turn: PlanTurn, row: QuestRow): void {
    const { repeat } = this.#quest.definition;
    const cycle = {
      ...cycleAt(repeat, calendarFor(repeat.timezone, turn), turn.event.at),
      key: row.cycleKey,
    };
    const latest = turn.player.quests.get(this.#quest.key)?.latest;
    if (latest?.cycleKey === row.cycleKey) return;
    startQuest(turn, this.#quest, { cycle, again: undefined }, row.startedBy);
  }

  #startByItself(turn: PlanTurn): void {
    const quest = this.#quest;
    const next = this.#nextCycle(turn);
    const row = next && this.#byCycle.get(next.cycle.key);
    if (row?.startedBy !== "AUTO" || !this.#mayBegin(turn, row) || beginsByState(quest)) return;
    if (beginsByEvent(turn, quest)) startQuest(turn, quest, next!, "AUTO");
  }

  /** Cycles without periods are numbered on from the first stored one. */
  #nextCycle(turn: PlanTurn): NextCycle | undefined {
    const quest = this.#quest;
    const state = turn.player.quests.get(quest.key);
    if (!isRested(quest, state?.latest, turn.event.at)) return undefined;
    const next = nextCycle(quest, turn, state, turn.event.at);
    if (!next || state || hasPeriods(quest.definition.repeat)) return next;
    return { ...next, cycle: { ...next.cycle, key: this.#of.rows[0]!.cycleKey } };
  }

  /** Without the event that a cycle began with, those that arrived later may begin it. */
  #mayBegin({ event }: PlanTurn, row: QuestRow): boolean {
    const { after, owner } = this.#of;
    if (!after) return event.id === row.eventId;
    const adventures = owner.project.adventures.ofQuest(this.#quest.key);
    const isShut = adventures.length > 0 && adventures.every(({ pauses }) => isInPause(pauses, event.id));
    return !isShut && after.hasBegun(row.cycleKey);
  }

  #countForLife(event: HistoryEvent): void {
    const { owner, starts } = this.#of;
    const counters = (this.#turn.player.doc.c ??= {});
    for (const place of this.#quest.stepsFor(event.type)) {
      const { lifetime } = this.#quest.steps[place]!;
      if (!lifetime || event.id < idFloor(Math.max(0, starts.get(lifetime.id) ?? 0))) continue;
      const counted = sampleOfEvent(lifetime, owner, event);
      if (!counted) continue;
      const { sample, moment } = counted;
      counters[lifetime.id] = addToCounter(lifetime, counters[lifetime.id] as CounterState, sample, moment);
    }
  }
}
