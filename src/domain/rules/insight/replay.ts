import { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import { EVENT_STEPS, openAccounts, stepsOf } from "../../evaluation/event-accounts.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { StepBudget } from "../../kernel/step-budget.ts";
import { evaluateEvent, noEffects, openTurn } from "../../evaluation/evaluate.ts";
import { createSharedCounters, type SharedCounters } from "../../evaluation/shared-counters.ts";
import type { Effects } from "../../evaluation/effects.ts";
import type { HistoryEvent } from "./history.ts";
import { assetName, type Histogram } from "../../evaluation/running/stats.ts";
import { failingLeaf } from "../../evaluation/trace/trace-rules.ts";
import { createTrace, type EventTrace } from "../../evaluation/trace/trace.ts";
import { truncateTrace } from "../../evaluation/trace/keep-trace.ts";

/** Maximum number of traces shown of firings, and of events that did not fire. */
const SAMPLES_OF_EACH = 10;
/** Maximum characters of one sample as JSON. */
const SAMPLE_MAX_CHARACTERS = 8_192;
/** Maximum number of conditions named in the result. */
const TOP_CONDITIONS = 10;
const DAY_LENGTH = "2026-01-31".length;

const Counts = z.record(z.string(), z.number());

/** Progress of a replay, as a job stores it between its steps. */
export const ReplayState = z.object({
  events: z.number(),
  failed: z.number(),
  players: z.number(),
  playersReached: z.number(),
  playersCut: z.number(),
  evaluated: z.number(),
  fired: z.number(),
  /** Actions on other players or for later times, which are not followed. */
  sent: z.number(),
  reasons: Counts,
  leafFails: Counts,
  cost: Counts,
  days: z.record(z.string(), z.object({ evaluated: z.number(), fired: z.number(), cost: Counts })),
  shared: z.array(
    z.object({ s: z.string(), w: z.number(), u: z.number(), t: z.array(z.number()).nullable() }),
  ),
  fires: z.array(z.unknown()),
  misses: z.array(z.unknown()),
});
export type ReplayState = z.output<typeof ReplayState>;

const nothing = (): ReplayState => ({
  events: 0,
  failed: 0,
  players: 0,
  playersReached: 0,
  playersCut: 0,
  evaluated: 0,
  fired: 0,
  sent: 0,
  reasons: {},
  leafFails: {},
  cost: {},
  days: {},
  shared: [],
  fires: [],
  misses: [],
});

export type ReplayedPlayer = {
  state: PlayerState;
  events(): number;
  note(hasFired: boolean): void;
  end(): void;
};

/** A replay of a plan with one rule. `state` is up to date between events, except for shared counters. */
export type Replay = {
  plan: ProjectPlan;
  state: ReplayState;
  shared: SharedCounters;
  player(player: PlayerState): ReplayedPlayer;
  /** Returns the complete state, to continue from. */
  end(): ReplayState;
};

const counterOf = ({ projectId }: ProjectPlan, { s: scope, w: windowNo }: ReplayState["shared"][number]) => ({
  projectId,
  scope,
  windowNo,
});

/** Continues a replay, or begins one. Limits over all players continue where they were. */
export const startOf = (plan: ProjectPlan, before: ReplayState | undefined): Replay => {
  const state = before ?? nothing();
  const shared = createSharedCounters(new Map(), true);
  for (const counter of state.shared) {
    if (counter.u > 0) shared.add(counterOf(plan, counter), counter.u);
    if (counter.t) shared.setTimes(counterOf(plan, counter), counter.t);
  }
  const end = (): ReplayState => ({
    ...state,
    shared: shared.changes().map(({ s, w, u, t }) => ({ s, w, u, t: t === null ? null : [...t] })),
  });
  return { plan, state, shared, player: (player) => replayedPlayer(state, player), end };
};

const replayedPlayer = (state: ReplayState, player: PlayerState): ReplayedPlayer => {
  // State that the replay is to produce must not exist before it begins.
  const { l: _limits, c: _counters, g: _capped, ...doc } = player.doc;
  const own: PlayerState = { ...player, doc, streaks: new Map() };
  const before = state.events;
  let isReached = false;
  return {
    state: own,
    events: () => state.events - before,
    note: (hasFired) => void (isReached ||= hasFired),
    end: () => {
      if (state.events === before) return;
      state.players++;
      if (isReached) state.playersReached++;
    },
  };
};

/** Whether evaluation must be traced: only for events that can trigger the rule. */
const isWatched = ({ rules }: ProjectPlan, type: string): boolean =>
  rules.listeners(type).length > 0 || rules.all.some(followsPlayer);

const followsPlayer = ({ definition }: ProjectPlan["rules"]["all"][number]): boolean =>
  definition.triggers.some(
    (trigger) => "eventTypes" in trigger && trigger.eventTypes.some((type) => type.startsWith("player.")),
  );

/** Evaluates one past event of a player, and adds up the rule's effects. `steps` is charged for it. */
export const replay = (
  run: Replay,
  one: ReplayedPlayer,
  { event, steps }: { event: HistoryEvent; steps: StepBudget },
): void => {
  const { plan, state, shared } = run;
  const effects = noEffects();
  const trace = isWatched(plan, event.type) ? createTrace(plan.rules, { eventId: event.id }) : undefined;
  const root = { id: event.id, type: event.type, at: event.at, properties: event.properties, depth: 0 };
  const parts = { plan, player: one.state, event: root, nowMs: event.at, effects, shared };
  state.events++;
  const accounts = openAccounts();
  try {
    evaluateEvent(openTurn({ ...parts, trace, isTracked: true, accounts }));
  } catch {
    // It failed when it was live, too, or would have; the others are sufficient.
    state.failed++;
    return;
  } finally {
    steps.spend(EVENT_STEPS + stepsOf(accounts));
  }
  if (trace) one.note(addUp(state, { trace: trace.result(), effects, at: event.at, steps }));
};

type Evaluated = { trace: EventTrace; effects: Effects; at: number; steps: StepBudget };

const dayOf = (state: ReplayState, at: number) => {
  const name = new Date(at).toISOString().slice(0, DAY_LENGTH);
  return (state.days[name] ??= { evaluated: 0, fired: 0, cost: {} });
};

const bump = (histogram: Histogram, name: string, n = 1): void => {
  histogram[name] = (histogram[name] ?? 0) + n;
};

/** @returns whether the rule fired */
const addUp = (state: ReplayState, { trace, effects, at, steps }: Evaluated): boolean => {
  const rules = rulesIn(trace);
  if (rules.length === 0) return false;
  const day = dayOf(state, at);
  for (const { reason, fired, conditions } of rules) {
    bump(state.reasons, reason);
    state.evaluated++;
    day.evaluated++;
    const leaf = conditions && reason === "CONDITIONS_NOT_MET" ? failingLeaf(conditions) : undefined;
    if (leaf !== undefined) bump(state.leafFails, leaf);
    if (!fired) continue;
    state.fired++;
    day.fired++;
  }
  for (const { cause, asset, currencyKey, amount } of effects.ledger) {
    if (cause.kind !== "RULE") continue;
    bump(state.cost, assetName(asset, currencyKey), amount);
    bump(day.cost, assetName(asset, currencyKey), amount);
  }
  state.sent += effects.spawned.length;
  const hasFired = rules.some(({ fired }) => fired);
  keepSample(hasFired ? state.fires : state.misses, trace, steps);
  return hasFired;
};

const rulesIn = ({ rules, derived }: EventTrace): EventTrace["rules"] => [
  ...rules,
  ...derived.flatMap(rulesIn),
];

const keepSample = (samples: unknown[], trace: EventTrace, steps: StepBudget): void => {
  if (samples.length >= SAMPLES_OF_EACH) return;
  const short = truncateTrace(trace, steps);
  if (JSON.stringify(short).length <= SAMPLE_MAX_CHARACTERS) samples.push(short);
};

const NOTES = [
  "Other rules did not run.",
  "Players began as they are now, but with counters, streaks and limits from nothing.",
  "Limits over all players and budgets were used up in the order of players, not of time.",
];

/** Returns the job's result. Days are in UTC. */
export const resultOf = ({ state }: Replay): Json => ({
  events: state.events,
  eventsFailed: state.failed,
  players: state.players,
  playersReached: state.playersReached,
  playersCut: state.playersCut,
  evaluated: state.evaluated,
  fired: state.fired,
  reasons: state.reasons,
  cost: state.cost,
  perDay: Object.entries(state.days)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([day, counts]) => ({ day, ...counts })),
  topFailingConditions: Object.entries(state.leafFails)
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, TOP_CONDITIONS)
    .map(([path, events]) => ({ path, events })),
  samples: [...state.fires, ...state.misses],
  notes: [
    ...NOTES,
    ...(state.sent > 0 ? [`${state.sent} actions for other players or for later were not followed.`] : []),
  ],
});
