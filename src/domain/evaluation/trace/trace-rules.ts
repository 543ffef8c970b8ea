import type { Cause } from "../../kernel/events/events.ts";
import { payBy } from "../event-steps.ts";
import type { RuleEvent } from "../rule-event.ts";
import type { Turn } from "../turn.ts";
import { explainGroup, type TraceNode } from "../language/groups.ts";
import type { CompiledRule, RuleSet } from "../running/compile.ts";
import type { Outcome, RuleReason } from "../running/outcome.ts";
import { type ConsiderOptions, considerRule, createStops, findCandidates } from "../running/run.ts";

/** Maximum rules of one event that are explained; later ones run without explanation. */
export const TRACED_RULES_MAX = 200;

export type Effect = { type: string; data: unknown; cause: Cause };

/** One condition or group of a trace. `skipped`: the outcome was decided without it. */
export type ExplainedNode = Omit<TraceNode, "children"> & { skipped?: boolean; children?: ExplainedNode[] };

/**
 * The outcome of one rule for an event, with the reason. Every condition is shown, also those that did not
 * matter.
 */
export type RuleTrace = {
  ruleId: string;
  ruleKey: string;
  version: number;
  /** Evaluated without effect: what it would have done is in `effects`. */
  shadow: boolean;
  fired: boolean;
  reason: RuleReason;
  detail?: string;
  nextEligibleAt?: string;
  stoppedBy?: string;
  conditions?: ExplainedNode;
  effects: Effect[];
  warnings: string[];
  /** Time of the rule itself, without its explanation. */
  micros: number;
};

type TraceRules = ConsiderOptions & {
  /** Called with the range of outbox rows that a rule has written. */
  onOutbox?: (from: number, to: number) => void;
};

/**
 * Runs every rule that listens to the turn's event, as `runRules` does, and explains the outcome of each.
 * Rules that an indexed property would have excluded are explained like the others.
 */
export const traceRules = (
  ruleSet: RuleSet,
  turn: Turn,
  { onOutbox, ...options }: TraceRules = {},
): RuleTrace[] => {
  const stops = createStops();
  const traces: RuleTrace[] = [];
  const candidates = new Set(findCandidates(ruleSet, turn));
  for (const rule of listenersOf(ruleSet, turn.event)) {
    const stoppedBy = stops.stoppedBy(rule);
    const conditions = explain(rule, turn, traces.length);
    if (!candidates.has(rule)) {
      // An indexed property excludes it, or no steps are left to test it: it costs the event nothing.
      if (conditions) traces.push(notAsked(rule, turn, conditions));
      continue;
    }
    const warnings: string[] = [];
    const { outbox, executions, spawned } = turn.effects;
    const before: Before = [outbox.length, executions.length, spawned.length];
    const startMs = performance.now();
    const watched = { ...turn, warn: (text: string) => void warnings.push(text) };
    const outcome = stoppedBy === undefined ? considerRule(rule, watched, options) : stopped(stoppedBy);
    const micros = Math.round((performance.now() - startMs) * 1_000);
    if (outcome.fired) stops.fired(rule);
    onOutbox?.(before[0], outbox.length);
    if (!conditions) continue;
    markSkipped(conditions);
    const effects = effectsOf(rule, turn, before);
    traces.push({ ...about(rule, outcome), conditions, effects, warnings, micros });
  }
  return traces;
};

/** Lengths of the lists of outbox rows, executions and spawned events. */
type Before = readonly [outbox: number, executions: number, spawned: number];

/** Steps of compiling and explaining a condition. */
const LEAF_STEPS = 50;

const stopped = (stoppedBy: string): Outcome => ({ fired: false, reason: "STOPPED", stoppedBy });

/** Returns the rule's explained conditions; undefined when enough rules have been shown. */
const explain = (rule: CompiledRule, turn: Turn, shown: number): ExplainedNode | undefined => {
  const account = turn.root.accounts.explaining;
  if (shown >= TRACED_RULES_MAX || account.isSpent) return undefined;
  account.spend(LEAF_STEPS * rule.steps);
  return payBy(turn.root, account, () => explainGroup(rule.definition.conditions, turn));
};

const notAsked = (rule: CompiledRule, { root }: Turn, conditions: ExplainedNode): RuleTrace => {
  const reason = root.accounts.rules.isSpent ? "STEPS_EXHAUSTED" : "CONDITIONS_NOT_MET";
  markSkipped(conditions);
  const seen = { conditions, effects: [], warnings: [], micros: 0 };
  return { ...about(rule, { fired: false, reason }), ...seen };
};

export const listenersOf = (ruleSet: RuleSet, event: RuleEvent): readonly CompiledRule[] =>
  event.ruleId === undefined ? ruleSet.listeners(event.type) : ruleSet.candidates(event);

const about = (rule: CompiledRule, { nextEligibleMs, ...outcome }: Outcome) => ({
  ruleId: rule.id,
  ruleKey: rule.key,
  version: rule.version,
  shadow: rule.isShadow,
  ...outcome,
  ...(nextEligibleMs === undefined ? {} : { nextEligibleAt: new Date(nextEligibleMs).toISOString() }),
});

const causeIn = (data: unknown): Cause | undefined => (data as { cause?: Cause } | null)?.cause;

/** Returns the cause that an event of the outbox is shown with; see `causeOf` in evaluate.ts. */
export const publishedCause = (data: unknown, rootEventId: string): Cause =>
  causeIn(data) ?? { kind: "EVENT", eventId: rootEventId };

/** Returns the effects of a rule since `before`; of a rule in SHADOW, what it would have done. */
const effectsOf = (
  { id, key, version }: CompiledRule,
  { effects, event, root }: Turn,
  [outbox, executions, spawned]: Before,
): Effect[] => {
  const firing = { eventId: event.id, rootEventId: root.id, ruleId: id, ruleKey: key, ruleVersion: version };
  const unreal = effects.executions
    .slice(executions)
    .flatMap(({ mode, effects: would }) => (mode !== "LIVE" && Array.isArray(would) ? would : []));
  const real = effects.outbox.slice(outbox).map(({ type, data }) => ({
    type,
    data,
    cause: publishedCause(data, root.id),
  }));
  const others = [
    ...effects.spawned.slice(spawned).map(({ eventType, externalUserId, properties, dueMs }) => ({
      type: eventType,
      data: { externalUserId, ...properties, dueAt: dueMs === null ? null : new Date(dueMs).toISOString() },
    })),
    ...(unreal as { type: string; data: unknown }[]),
  ];
  const cause: Cause = { kind: "RULE", ...firing };
  return [...real, ...others.map(({ type, data }) => ({ type, data, cause: causeIn(data) ?? cause }))];
};

/** The value of a member that decides a group, so that the members after it are skipped. */
const DECIDES: Readonly<Record<string, boolean>> = { all: false, any: true, none: true };

const markSkipped = (node: ExplainedNode): void => {
  const decides = DECIDES[node.type];
  if (!node.children || decides === undefined) return;
  const at = node.children.findIndex(({ pass }) => pass === decides);
  node.children.forEach((child, i) => {
    if (at !== -1 && i > at) child.skipped = true;
    else markSkipped(child);
  });
};

/** Returns the path of the condition, or of the `any`, because of which a tree does not hold. */
export const failingLeaf = (node: ExplainedNode): string | undefined => {
  if (node.pass) return undefined;
  if (node.type === "all") {
    const failing = node.children?.find(({ pass }) => !pass);
    return failing && failingLeaf(failing);
  }
  if (node.type === "none") return node.children?.find(({ pass }) => pass)?.path;
  return node.path;
};
