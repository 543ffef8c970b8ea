import type { Cause, EventData, EventType } from "../events.ts";
import type { Turn } from "../progression/turn.ts";
import type { CompiledRule, RuleSet } from "./compile.ts";
import { explainGroup, type TraceNode } from "./groups.ts";
import { type ConsiderOptions, considerRule, createStops, type Outcome, type RuleReason } from "./run.ts";

/** Rules that are explained; the ones after them run without being shown. */
export const TRACED_RULES_MAX = 200;

export type Effect = { type: string; data: unknown; cause: Cause };

/** What one rule made of an event, and why. Every condition is shown, also those that decided nothing. */
export type RuleTrace = {
  ruleId: string;
  ruleKey: string;
  version: number;
  fired: boolean;
  reason: RuleReason;
  detail?: string;
  nextEligibleAt?: string;
  stoppedBy?: string;
  conditions: TraceNode;
  effects: Effect[];
  warnings: string[];
};

/**
 * Runs every rule that listens to the turn's event, as `runRules` does, and tells what each one saw and
 * did.
 */
export const traceRules = (ruleSet: RuleSet, turn: Turn, options: ConsiderOptions = {}): RuleTrace[] => {
  const stops = createStops();
  const traces: RuleTrace[] = [];
  for (const rule of ruleSet.listeners(turn.event.type)) {
    const stoppedBy = stops.stoppedBy(rule);
    const conditions =
      traces.length < TRACED_RULES_MAX ? explainGroup(rule.definition.conditions, turn) : undefined;
    const { effects, warnings, watched } = watch(rule, turn);
    const outcome: Outcome =
      stoppedBy === undefined
        ? considerRule(rule, watched, options)
        : { fired: false, reason: "STOPPED", stoppedBy };
    if (outcome.fired) stops.fired(rule);
    if (conditions) traces.push({ ...about(rule, outcome), conditions, effects, warnings });
  }
  return traces;
};

const about = ({ id, key, version }: CompiledRule, { nextEligibleMs, ...outcome }: Outcome) => ({
  ruleId: id,
  ruleKey: key,
  version,
  ...outcome,
  ...(nextEligibleMs === undefined ? {} : { nextEligibleAt: new Date(nextEligibleMs).toISOString() }),
});

const watch = ({ id, key, version }: CompiledRule, turn: Turn) => {
  const effects: Effect[] = [];
  const warnings: string[] = [];
  const cause: Cause = {
    kind: "RULE",
    eventId: turn.event.id,
    ruleId: id,
    ruleKey: key,
    ruleVersion: version,
  };
  const watched: Turn = {
    ...turn,
    emit: <T extends EventType>(type: T, data: EventData<T>) => {
      effects.push({ type, data, cause: "cause" in data ? data.cause : cause });
      turn.emit(type, data);
    },
    warn: (message) => {
      warnings.push(message);
      turn.warn(message);
    },
  };
  return { effects, warnings, watched };
};
