import type { EventCost } from "../../../src/domain/evaluation/event-cost.ts";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { evaluateEvent } from "../../../src/domain/evaluation/evaluate.ts";
import type { PlayerState } from "../../../src/domain/evaluation/player-state.ts";
import type { ProjectPlan } from "../../../src/domain/evaluation/project-plan.ts";
import { createSharedCounters, type SharedCounters } from "../../../src/domain/evaluation/shared-counters.ts";
import { compileRules, type PublishedRule } from "../../../src/domain/evaluation/running/compile.ts";
import type { ObservedRule, Outcome } from "../../../src/domain/evaluation/running/outcome.ts";
import type { TraceSink } from "../../../src/domain/evaluation/turn.ts";
import { aPass, aPlan, aPlayerState, type PlanParts } from "./plan.ts";
import { aRule, NOW } from "./rules.ts";

/** A project's rules and definitions as designers write them. */
export type ProjectParts = Omit<PlanParts, "rules"> & { rules?: readonly (Json | PublishedRule)[] };

const isPublished = (rule: Json | PublishedRule): rule is PublishedRule => "definition" in rule;

/** A plan of whole rules, compiled as a worker would. */
export const aProject = ({ rules = [], ...more }: ProjectParts = {}): ProjectPlan =>
  aPlan({
    ...more,
    rules: compileRules(rules.map((rule) => (isPublished(rule) ? rule : aRule(rule)))),
  });

export type EvaluateOptions = {
  player?: PlayerState;
  type?: string;
  at?: number;
  nowMs?: number;
  id?: string;
  properties?: Json;
  shared?: SharedCounters;
  trace?: TraceSink;
  cost?: EventCost;
};

/** Evaluates one tracked event with everything it brings about. */
export const evaluate = (plan: ProjectPlan, options: EvaluateOptions = {}) => {
  const { player = aPlayerState(), type = "tried", properties = {}, at, id, nowMs } = options;
  const event = {
    type,
    properties,
    ...(at === undefined ? {} : { at }),
    ...(id === undefined ? {} : { id }),
  };
  const pass = aPass({ plan, player, event, ...(nowMs === undefined ? {} : { nowMs }) });
  const shared = options.shared ?? createSharedCounters(new Map(), true);
  const outcomes: { key: string; outcome: Outcome }[] = [];
  const turn = { ...pass.turn, shared };
  turn.root.trace = options.trace;
  if (options.cost) turn.root.cost = options.cost;
  turn.root.observe = ({ key }: ObservedRule, outcome: Outcome) => void outcomes.push({ key, outcome });
  const problem = evaluateEvent(turn);
  const told = pass.effects.outbox.map(({ type: name, data }) => ({ type: name, data: data as Json }));
  return {
    ...pass,
    turn,
    outcomes,
    problem,
    told,
    types: told.map(({ type: name }) => name),
    reasons: outcomes.map(({ key, outcome }) => `${key} ${outcome.reason}`),
  };
};

/** Sends one event of each moment to a player of its own, all sharing their counters. */
export const fireAt = (
  plan: ReturnType<typeof aProject>,
  moments: readonly number[],
  properties: Json = {},
) => {
  let shared = createSharedCounters(new Map(), true);
  const nowMs = Math.max(NOW, ...moments);
  return moments.map((at) => {
    const done = evaluate(plan, { at, nowMs, shared, properties, player: aPlayerState() });
    shared = done.turn.shared;
    return { at, ...done, outcome: done.outcomes[0]!.outcome };
  });
};
