import { randomUUID } from "node:crypto";
import type { EventCost } from "../../../src/domain/evaluation/event-cost.ts";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { evaluateEvent } from "../../../src/domain/evaluation/evaluate.ts";
import type { PlayerState } from "../../../src/domain/evaluation/player-state.ts";
import type { ProjectPlan } from "../../../src/domain/evaluation/project-plan.ts";
import { createSharedCounters, type SharedCounters } from "../../../src/domain/evaluation/shared-counters.ts";
import {
  compileRules,
  type PublishedRule,
  type RuleSet,
} from "../../../src/domain/evaluation/running/compile.ts";
import type { ObservedRule, Outcome } from "../../../src/domain/evaluation/running/outcome.ts";
import type { TraceSink, Turn } from "../../../src/domain/evaluation/turn.ts";
import { aPass, aPlan, aPlayerState, type PlanParts } from "./plan.ts";
import type { Board } from "../../../src/domain/evaluation/boards/board.ts";
import type { LedgerRow } from "../../../src/domain/evaluation/effects.ts";
import { RuleDocument } from "../../../src/domain/evaluation/language/document.ts";

export const NOW = Date.parse("2026-06-15T12:00:00Z");

export const aPlayer = aPlayerState;

export type RecordedTurn = Turn & {
  emitted: { type: string; data: Json }[];
  rows: LedgerRow[];
  warnings: string[];
};

export type TurnOptions = {
  player?: PlayerState;
  type?: string;
  properties?: Json;
  at?: number;
  nowMs?: number;
  timezone?: string;
  boards?: readonly Board[];
};

/** A pass over one player that remembers what happened in it. */
export const aTurn = ({ player = aPlayer(), boards = [], ...options }: TurnOptions = {}): RecordedTurn => {
  const { type = "tried", properties = {}, at = NOW, nowMs = NOW, timezone = "UTC" } = options;
  const plan = aPlan({ timezone, boards });
  const { turn, effects, warnings } = aPass({ plan, player, event: { type, at, properties }, nowMs });
  return {
    ...turn,
    get emitted() {
      return effects.outbox.map(({ type: name, data }) => ({ type: name, data: data as Json }));
    },
    rows: effects.ledger,
    warnings,
  };
};

/** A whole rule from the part that a test is about. */
export const aDocument = (more: Json = {}): RuleDocument =>
  RuleDocument.parse({
    key: "a-rule",
    name: "A rule",
    triggers: [{ kind: "EVENT", eventTypes: ["tried"] }],
    actions: [{ type: "grant_xp", amount: 1 }],
    ...more,
  });

let made = 0;

export const aRule = (more: Json = {}): PublishedRule => {
  const definition = aDocument({ key: `rule-${++made}`, ...more });
  return { id: randomUUID(), key: definition.key, version: 1, createdAt: new Date(NOW + made), definition };
};

export const ruleSetOf = (...documents: Json[]): RuleSet => compileRules(documents.map(aRule));

export const grantedXp = ({ rows }: RecordedTurn): number =>
  rows.reduce((sum, { amount }) => sum + amount, 0);

/** A project's rules and definitions as designers write them. */
export type ProjectParts = Omit<PlanParts, "rules"> & { rules?: readonly (Json | PublishedRule)[] };

const isPublished = (rule: Json | PublishedRule): rule is PublishedRule => "definition" in rule;

/** A plan of whole rules, compiled as a worker would. */
export const aProject = ({ rules = [], ...more }: ProjectParts = {}): ProjectPlan =>
  aPlan({
    ...more,
    rules: compileRules(rules.map((rule) => (isPublished(rule) ? rule : aRule(rule)))),
  });

type EvaluateOptions = {
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
  const shared = options.shared ?? createSharedCounters("FROM_ZERO");
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
  let shared = createSharedCounters("FROM_ZERO");
  const nowMs = Math.max(NOW, ...moments);
  return moments.map((at) => {
    const done = evaluate(plan, { at, nowMs, shared, properties, player: aPlayerState() });
    shared = done.turn.shared;
    return { at, ...done, outcome: done.outcomes[0]!.outcome };
  });
};
