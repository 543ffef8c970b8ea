import { DOCUMENT_MAX_BYTES, type LeftOut, TOO_LARGE_TO_RUN, whyNot } from "./outcome.ts";
import type { Metric } from "../metrics/compile.ts";
import { bytesOf } from "../../kernel/hostile-json.ts";
import type { Spender } from "../event-cost.ts";
import type { RuleEvent } from "../rule-event.ts";
import { atOnce, type Steps } from "../../kernel/slices.ts";
import { createSizedCache } from "../../kernel/caches.ts";
import { msOf } from "../../kernel/iso-time.ts";
import type { Act, Firing } from "../actions/action.ts";
import { canFail, compileAction } from "../actions/action-kinds.ts";
import type { Test } from "../conditions/condition.ts";
import { compileGroup, conditionMetrics, type ConditionNode, countConditions } from "../language/groups.ts";
import { compileControls, type RuleControls } from "./limits.ts";
import { identifyActions, type RuleDocument } from "../language/document.ts";
import { expressionMetrics, resolveReadings } from "../language/expressions.ts";
import { compilePath, type Reader } from "../language/syntax.ts";
import { createTypeIndex } from "../language/patterns.ts";

/** A published version of a rule. */
export type PublishedRule = {
  id: string;
  key: string;
  version: number;
  createdAt: Date;
  definition: RuleDocument;
  /** Set for a rule in SHADOW: it is evaluated without effect. */
  isShadow?: boolean;
};

/** A rule compiled for evaluation. `order` is its position in the project: priority, then age, then id. */
export type CompiledRule = RuleControls & {
  id: string;
  key: string;
  version: number;
  order: number;
  /** From inclusive, until exclusive, in ms; infinite where there is no bound. */
  activeFromMs: number;
  activeUntilMs: number;
  test: Test;
  /** Steps of testing it: one, and one for each condition. */
  steps: number;
  /** The metrics of its conditions and expressions. */
  metrics: readonly Metric[];
  spender: Spender;
  actions: readonly Act[];
  /** Whether an action after the first may fail, so that earlier ones may have to be rolled back. */
  needsUndo: boolean;
  stopOnMatch: boolean;
  exclusiveGroup: string | undefined;
  isShadow: boolean;
  definition: RuleDocument;
  /** Patterns of the event types that it listens to. */
  patterns: readonly string[];
};

/** The compiled rules of a project. */
export type RuleSet = {
  /**
   * Returns the rules that listen to the event's type and are not excluded by an indexed property, in order;
   * for `system.schedule` the one rule that it is for.
   */
  candidates(event: RuleEvent): readonly CompiledRule[];
  /** Returns all rules that listen to a type, in order. */
  listeners(eventType: string): readonly CompiledRule[];
  /** All running rules, in order. */
  all: readonly CompiledRule[];
  /** The metrics of the rules' conditions and expressions. */
  metrics: readonly Metric[];
  /** Rules that should run but could not be compiled. */
  leftOut: readonly LeftOut[];
};

export const compileRule = (published: PublishedRule, order = 0): CompiledRule => {
  const { id, key, version, definition, isShadow = false } = published;
  const { schedule, stopOnMatch, exclusiveGroup } = definition;
  const actions = identifyActions(resolveReadings(definition.actions, definition.metrics));
  const controls = compileControls({ id, key, isShadow, definition });
  const rule = { ruleId: id, ruleKey: key, ruleVersion: version };
  const { caps } = controls;
  const firing = (actionId: string): Firing => ({ ...rule, actionId, ...(caps ? { caps } : {}) });
  return {
    id,
    key,
    version,
    order,
    activeFromMs: msOf(schedule?.activeFrom, -Infinity),
    activeUntilMs: msOf(schedule?.activeUntil, Infinity),
    test: compileGroup(definition.conditions),
    steps: 1 + countConditions(definition.conditions),
    metrics: [...conditionMetrics(definition.conditions), ...expressionMetrics(definition)],
    spender: { kind: "rule", id, key },
    ...controls,
    actions: actions.map((action) => compileAction(action, firing(action.id))),
    needsUndo: actions.slice(1).some(canFail),
    stopOnMatch,
    exclusiveGroup,
    isShadow,
    definition,
    patterns: patternsOfRule(definition),
  };
};

/** Maximum published versions that a process keeps compiled; they never change. */
const KEPT_RULES_MAX = 20_000;
/** Maximum bytes of their documents as JSON. */
const KEPT_RULES_MAX_BYTES = 32 * 1024 * 1024;
const keptRules = createSizedCache<CompiledRule>({ items: KEPT_RULES_MAX, bytes: KEPT_RULES_MAX_BYTES });

const nameOf = ({ id, version, key, isShadow }: PublishedRule): string =>
  `${id} ${version} ${key} ${isShadow === true}`;

/**
 * As `compileRules`, in slices, for published rules: each is compiled once per process while it is cached,
 * however often other definitions of the project change. Stored rules may be
 * older than today's limits, and one that cannot run does not affect the others.
 * @param owner the tenant, which has a share of the cache
 */
export function* publishedPieces(rules: readonly PublishedRule[], owner: string): Steps<RuleSet> {
  const compiled: CompiledRule[] = [];
  const leftOut: LeftOut[] = [];
  for (const [order, published] of rules.toSorted(byOrder).entries()) {
    const { id, key, version, definition } = published;
    const leave = (why: string): void => void leftOut.push({ kind: "rule", id, key, version, why });
    const name = nameOf(published);
    const kept = keptRules.get(name);
    yield;
    const bytes = kept ? 0 : bytesOf(definition);
    if (bytes > DOCUMENT_MAX_BYTES) {
      leave(TOO_LARGE_TO_RUN);
      continue;
    }
    try {
      const rule = kept ?? keptRules.keep(name, compileRule(published), { owner, bytes });
      compiled.push({ ...rule, order });
    } catch (error) {
      leave(whyNot(error));
    }
  }
  return indexRules(compiled, leftOut);
}

const byOrder = (a: PublishedRule, b: PublishedRule): number =>
  b.definition.priority - a.definition.priority ||
  a.createdAt.getTime() - b.createdAt.getTime() ||
  (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** Compiles a project's published rules and indexes them by event type and by equal properties. */
export const compileRules = (rules: readonly PublishedRule[]): RuleSet => atOnce(rulePieces(rules));

/** As `compileRules`, in slices. */
export function* rulePieces(rules: readonly PublishedRule[]): Steps<RuleSet> {
  const compiled: CompiledRule[] = [];
  for (const [order, rule] of rules.toSorted(byOrder).entries()) {
    yield;
    compiled.push(compileRule(rule, order));
  }
  return indexRules(compiled);
}

const indexRules = (compiled: readonly CompiledRule[], leftOut: readonly LeftOut[] = []): RuleSet => {
  const indexOf = createTypeIndex(compiled, indexType);
  const byId = new Map(compiled.map((rule) => [rule.id, rule]));
  return {
    candidates: (event) => {
      if (event.ruleId === undefined) return candidatesOf(indexOf(event.type), event);
      const rule = byId.get(event.ruleId);
      return rule ? [rule] : NO_RULES;
    },
    listeners: (eventType) => indexOf(eventType).all,
    all: compiled,
    metrics: compiled.flatMap(({ metrics }) => metrics),
    leftOut,
  };
};

const patternsOfRule = ({ triggers }: RuleDocument): string[] =>
  triggers.flatMap((trigger) => ("eventTypes" in trigger ? trigger.eventTypes : []));

/** The rules of one event type. `always` are those that no property look-up can exclude. */
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

/** Returns a property and the values required for the rule to match, from the top-level `all`. */
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

/** Longer lists are not indexed: indexing a thousand rules with long ones for each type would take long. */
const INDEXED_VALUES_MAX = 20;

const literalsOf = (node: ConditionNode): readonly unknown[] | undefined => {
  if (!("type" in node) || node.type !== "event_property") return undefined;
  if (node.op === "in" && Array.isArray(node.value))
    return node.value.length <= INDEXED_VALUES_MAX ? node.value : undefined;
  const isLiteral = node.value === null || typeof node.value !== "object";
  return node.op === "eq" && isLiteral && node.value !== undefined ? [node.value] : undefined;
};

const NO_RULES: readonly CompiledRule[] = [];

const candidatesOf = ({ always, lookups }: TypeIndex, event: RuleEvent): readonly CompiledRule[] => {
  let found = always;
  let mixed: CompiledRule[] | undefined;
  for (const { read, byValue } of lookups) {
    const listed = byValue.get(read(event.properties)) ?? NO_RULES;
    if (listed.length === 0) continue;
    if (found.length === 0) found = listed;
    else (mixed ??= [...found]).push(...listed);
  }
  return mixed ? mixed.toSorted((a, b) => a.order - b.order) : found;
};
