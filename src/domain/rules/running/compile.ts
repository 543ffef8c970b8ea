import type { Metric } from "../../metrics/metric.ts";
import type { RuleEvent } from "../../progression/turn.ts";
import { type Act, type Firing } from "../actions/action.ts";
import { canFail, compileAction } from "../actions/index.ts";
import type { Test } from "../conditions/condition.ts";
import { compileControls, type RuleControls } from "./controls.ts";
import { identifyActions, type RuleDocument } from "../language/document.ts";
import { compileGroup, type ConditionNode } from "../language/groups.ts";
import { conditionMetrics } from "../language/needs.ts";
import { compilePath, type Reader } from "../language/paths.ts";
import { createTypeIndex } from "../language/patterns.ts";

/** A published version of a rule. */
export type PublishedRule = {
  id: string;
  key: string;
  version: number;
  createdAt: Date;
  definition: RuleDocument;
  /** Set for a rule in SHADOW: it is evaluated, and nothing of what it would do is done. */
  isShadow?: boolean;
};

/** A rule ready to run. `order` is its place among all rules of the project: priority, then age, then id. */
export type CompiledRule = RuleControls & {
  id: string;
  key: string;
  version: number;
  order: number;
  /** From inclusive, until exclusive, in ms; infinite where there is no bound. */
  activeFromMs: number;
  activeUntilMs: number;
  test: Test;
  actions: readonly Act[];
  /** An action after the first may fail, so that earlier ones may have to be undone. */
  needsUndo: boolean;
  stopOnMatch: boolean;
  exclusiveGroup: string | undefined;
  isShadow: boolean;
  definition: RuleDocument;
};

/** The compiled rules of a project. */
export type RuleSet = {
  size: number;
  /**
   * The rules that listen to the event's type and are not ruled out by a property at once, in order; of
   * `system.schedule` the one rule that it is for.
   */
  candidates(event: RuleEvent): readonly CompiledRule[];
  /** All rules that listen to a type, in order. */
  listeners(eventType: string): readonly CompiledRule[];
  /** The rule that a `system.schedule` event is for; undefined when it no longer runs. */
  schedule(ruleId: string): CompiledRule | undefined;
  /** Everything that runs, in order. */
  all: readonly CompiledRule[];
  /** What the rules' conditions count. */
  metrics: readonly Metric[];
};

export const compileRule = (rule: PublishedRule, order = 0): CompiledRule => {
  const { id, key, version, definition, isShadow = false } = rule;
  const { schedule, stopOnMatch, exclusiveGroup } = definition;
  const actions = identifyActions(definition.actions);
  const firing = (actionId: string): Firing => ({ ruleId: id, ruleKey: key, ruleVersion: version, actionId });
  return {
    id,
    key,
    version,
    order,
    activeFromMs: schedule?.activeFrom === undefined ? -Infinity : Date.parse(schedule.activeFrom),
    activeUntilMs: schedule?.activeUntil === undefined ? Infinity : Date.parse(schedule.activeUntil),
    test: compileGroup(definition.conditions),
    ...compileControls({ id, key, isShadow, definition }),
    actions: actions.map((action) => compileAction(action, firing(action.id))),
    needsUndo: actions.slice(1).some(canFail),
    stopOnMatch,
    exclusiveGroup,
    isShadow,
    definition,
  };
};

const byOrder = (a: PublishedRule, b: PublishedRule): number =>
  b.definition.priority - a.definition.priority ||
  a.createdAt.getTime() - b.createdAt.getTime() ||
  (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** Compiles a project's published rules and indexes them by event type and by equal properties. */
export const compileRules = (rules: readonly PublishedRule[]): RuleSet => {
  const compiled = rules.toSorted(byOrder).map((rule, order) => compileRule(rule, order));
  const listening = compiled.map((rule) => ({ rule, patterns: patternsOfRule(rule.definition) }));
  const indexOf = createTypeIndex(listening, (found) => indexType(found.map(({ rule }) => rule)));
  const byId = new Map(compiled.map((rule) => [rule.id, rule]));
  const schedule = (ruleId: string) => byId.get(ruleId);
  return {
    size: compiled.length,
    candidates: (event) => {
      if (event.ruleId === undefined) return candidatesOf(indexOf(event.type), event);
      const rule = schedule(event.ruleId);
      return rule ? [rule] : NO_RULES;
    },
    listeners: (eventType) => indexOf(eventType).all,
    schedule,
    all: compiled,
    metrics: compiled.flatMap(({ definition }) => conditionMetrics(definition.conditions)),
  };
};

const patternsOfRule = ({ triggers }: RuleDocument): string[] =>
  triggers.flatMap((trigger) => ("eventTypes" in trigger ? trigger.eventTypes : []));

/** The rules of one event type. `always` are those that no property lookup can rule out. */
type TypeIndex = {
  all: readonly CompiledRule[];
  always: readonly CompiledRule[];
  lookups: readonly { read: Reader; byValue: ReadonlyMap<unknown, CompiledRule[]> }[];
};

const indexType = (rules: readonly CompiledRule[]): TypeIndex => {
  const always: CompiledRule[] = [];
  const byPath = new Map<string, Map<unknown, CompiledRule[]>>();
  for (const rule of rules) {
    const key = equalityOf(rule.definition);
    if (!key) {
      always.push(rule);
      continue;
    }
    const byValue = byPath.get(key.path) ?? new Map<unknown, CompiledRule[]>();
    byPath.set(key.path, byValue);
    for (const value of new Set(key.values)) {
      const listed = byValue.get(value);
      if (listed) listed.push(rule);
      else byValue.set(value, [rule]);
    }
  }
  const lookups = [...byPath].map(([path, byValue]) => ({ read: compilePath(path), byValue }));
  return { all: rules, always, lookups };
};

/** A property and the values without which the rule cannot match, from the top-level `all`. */
const equalityOf = ({
  conditions,
}: RuleDocument): { path: string; values: readonly unknown[] } | undefined => {
  if (!("all" in conditions)) return undefined;
  for (const node of conditions.all) {
    const values = literalsOf(node);
    if (values) return { path: (node as { path: string }).path, values };
  }
  return undefined;
};

const literalsOf = (node: ConditionNode): readonly unknown[] | undefined => {
  if (!("type" in node) || node.type !== "event_property") return undefined;
  if (node.op === "in" && Array.isArray(node.value)) return node.value;
  const isLiteral = node.value === null || typeof node.value !== "object";
  return node.op === "eq" && isLiteral && node.value !== undefined ? [node.value] : undefined;
};

const NO_RULES: readonly CompiledRule[] = [];

const candidatesOf = ({ always, lookups }: TypeIndex, event: RuleEvent): readonly CompiledRule[] => {
  let found = always;
  let lists = always.length === 0 ? 0 : 1;
  for (const { read, byValue } of lookups) {
    const listed = byValue.get(read(event.properties)) ?? NO_RULES;
    if (listed.length === 0) continue;
    found = lists === 0 ? listed : [...found, ...listed];
    lists++;
  }
  return lists > 1 ? found.toSorted((a, b) => a.order - b.order) : found;
};
