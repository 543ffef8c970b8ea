import { isReservedType } from "../events.ts";
import type { Metric } from "../metrics/metric.ts";
import type { RuleEvent } from "../progression/turn.ts";
import { type Act, type Firing } from "./actions/action.ts";
import { canFail, compileAction } from "./actions/index.ts";
import type { Test } from "./conditions/condition.ts";
import { identifyActions, type RuleDocument } from "./document.ts";
import { compileGroup, type ConditionNode } from "./groups.ts";
import { type CompiledLimits, compileLimits } from "./limits.ts";
import { compilePath, type Reader } from "./paths.ts";

/** A published version of a rule. */
export type PublishedRule = {
  id: string;
  key: string;
  version: number;
  createdAt: Date;
  definition: RuleDocument;
};

/** A rule ready to run. `order` is its place among all rules of the project: priority, then age, then id. */
export type CompiledRule = {
  id: string;
  key: string;
  version: number;
  order: number;
  /** From inclusive, until exclusive, in ms; infinite where there is no bound. */
  activeFromMs: number;
  activeUntilMs: number;
  test: Test;
  limits: CompiledLimits | undefined;
  actions: readonly Act[];
  /** An action after the first may fail, so that earlier ones may have to be undone. */
  needsUndo: boolean;
  stopOnMatch: boolean;
  exclusiveGroup: string | undefined;
  definition: RuleDocument;
};

/** The compiled rules of a project. */
export type RuleSet = {
  size: number;
  /** The rules that listen to the event's type and are not ruled out by a property at once, in order. */
  candidates(event: RuleEvent): readonly CompiledRule[];
  /** All rules that listen to a type, in order. */
  listeners(eventType: string): readonly CompiledRule[];
  /** Everything that runs, in order. */
  all: readonly CompiledRule[];
  /** What the rules' conditions count. */
  metrics: readonly Metric[];
};

/** Event types whose rules are remembered; integrators may send any number of types. */
const TYPES_REMEMBERED_MAX = 2_000;

export const compileRule = ({ id, key, version, definition }: PublishedRule, order = 0): CompiledRule => {
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
    limits: compileLimits(id, definition.limits),
    actions: actions.map((action) => compileAction(action, firing(action.id))),
    needsUndo: actions.slice(1).some(canFail),
    stopOnMatch,
    exclusiveGroup,
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
  const byPattern = groupByPattern(compiled);
  const known = new Map<string, TypeIndex>();
  const indexOf = (eventType: string): TypeIndex => {
    const found = known.get(eventType);
    if (found) return found;
    const index = indexType(listenersOf(byPattern, eventType));
    if (known.size >= TYPES_REMEMBERED_MAX) known.delete(known.keys().next().value!);
    known.set(eventType, index);
    return index;
  };
  return {
    size: compiled.length,
    candidates: (event) => candidatesOf(indexOf(event.type), event),
    listeners: (eventType) => indexOf(eventType).all,
    all: compiled,
    metrics: [],
  };
};

const groupByPattern = (rules: readonly CompiledRule[]): Map<string, CompiledRule[]> => {
  const byPattern = new Map<string, CompiledRule[]>();
  for (const rule of rules) {
    for (const pattern of new Set(rule.definition.triggers.flatMap(({ eventTypes }) => eventTypes))) {
      const listed = byPattern.get(pattern);
      if (listed) listed.push(rule);
      else byPattern.set(pattern, [rule]);
    }
  }
  return byPattern;
};

/** The patterns that match a type: itself, `a.*` and `a.b.*` of `a.b.c`, and `*` for a custom event. */
export const patternsOf = (eventType: string): string[] => {
  const patterns = [eventType];
  for (let dot = eventType.indexOf("."); dot !== -1; dot = eventType.indexOf(".", dot + 1)) {
    patterns.push(`${eventType.slice(0, dot)}.*`);
  }
  return isReservedType(eventType) ? patterns : [...patterns, "*"];
};

const listenersOf = (byPattern: ReadonlyMap<string, CompiledRule[]>, eventType: string): CompiledRule[] => {
  const found = new Set(patternsOf(eventType).flatMap((pattern) => byPattern.get(pattern) ?? []));
  return [...found].toSorted((a, b) => a.order - b.order);
};

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
    for (const value of new Set(key.values)) byValue.set(value, [...(byValue.get(value) ?? []), rule]);
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
