import { fnv1a } from "../../kernel/ids.ts";
import { stepsHitOf, type Turn, write } from "../turn.ts";
import type { TraceRow } from "../effects.ts";
import type { PlanTurn, ProjectPlan } from "../project-plan.ts";
import { DEFAULT_SETTINGS } from "../project-settings.ts";
import { createTrace, emptyTrace, type EventTrace, endedBy, type Tracer } from "./trace.ts";

const DAY_MS = 86_400_000;

/** Maximum characters of a stored trace as JSON. A longer one loses its conditions, then its rules. */
export const TRACE_MAX_CHARACTERS = 64 * 1024;

const HASHES = 2 ** 32;

/** Returns whether an event is sampled for tracing: deterministic, also on every retry. */
export const isTraced = ({ settings, isSandbox }: ProjectPlan, eventId: string): boolean => {
  const { live, test } = settings.traceSampling;
  const share = isSandbox ? test : live;
  return share > 0 && fnv1a(eventId) < share * HASHES;
};

/** Creates the tracer of a sampled event; undefined for all others. To be passed to `openTurn`. */
export const traceOf = (plan: ProjectPlan, eventId: string): Tracer | undefined =>
  isTraced(plan, eventId) ? createTrace(plan.rules, { eventId }) : undefined;

/**
 * Stores the trace of a tracked event: of sampled ones, and always where the loop guard stepped in or the
 * rules took too much, then without conditions unless the event was sampled.
 */
export const keepTrace = (turn: PlanTurn, trace: Tracer | undefined): void => {
  const { root } = turn;
  const isHeld = root.guarded.length > 0 || root.loop !== undefined || stepsHitOf(turn) !== undefined;
  if (trace) write(turn, "traces", rowOf(turn, trace.result()));
  else if (isHeld) write(turn, "traces", rowOf(turn, traceAfterwards(turn)));
};

const rowOf = ({ project, root, nowMs }: Turn, trace: EventTrace): TraceRow => ({
  projectId: project.projectId,
  eventId: root.id,
  trace: truncateTrace(trace),
  expiresMs: nowMs + project.settings.tracesDays * DAY_MS,
});

/** Builds a trace afterwards for an event without a tracer: which rules fired, and the effects. */
const traceAfterwards = (turn: PlanTurn): EventTrace => {
  const { event, root, project } = turn;
  const typeTrace = (eventType: string): EventTrace => {
    const rulesIndexed = project.rules.listeners(eventType).length;
    return { ...emptyTrace(turn, { eventId: null, eventType, rulesIndexed }), truncated: true };
  };
  const fired = project.rules.all.filter(({ id }) => root.firings.has(id));
  return {
    ...typeTrace(event.type),
    ...endedBy(turn),
    eventId: root.id,
    rules: fired.map(({ id, key, version, isShadow }) => ({
      ruleId: id,
      ruleKey: key,
      version,
      shadow: isShadow,
      fired: true,
      reason: "MATCHED",
      detail: `fired ${root.firings.get(id)} times`,
      effects: [],
      warnings: [],
      micros: 0,
    })),
    derived: root.derived.slice(0, root.taken).map(({ type }) => typeTrace(type)),
  };
};

/** The fields of an event that a trace names. */
export type FailedEvent = { projectId: string; eventId: string; eventType: string; externalUserId: string };

/** Builds the trace of an event that failed for good. */
export const failedTrace = (
  { projectId, eventId, eventType, externalUserId }: FailedEvent,
  { error, now }: { error: string; now: Date },
): TraceRow => {
  const about = { player: { id: null, externalUserId }, nowMs: now.getTime() };
  const trace = { ...emptyTrace(about, { eventId, eventType, rulesIndexed: 0 }), error };
  return { projectId, eventId, trace, expiresMs: now.getTime() + DEFAULT_SETTINGS.tracesDays * DAY_MS };
};

/** Truncates a trace to the maximum size. */
export const truncateTrace = (trace: EventTrace): EventTrace => {
  if (isShort(trace)) return trace;
  const bare = { ...bareTrace(trace), truncated: true };
  if (isShort(bare)) return bare;
  return { ...bare, rules: [], derived: [], effects: [], leaderboards: [], warnings: [] };
};

const isShort = (trace: EventTrace): boolean => JSON.stringify(trace).length <= TRACE_MAX_CHARACTERS;

/** Returns a trace without conditions, effects, and the rules that did nothing. */
const bareTrace = (trace: EventTrace): EventTrace => ({
  ...trace,
  rules: trace.rules
    .filter(({ fired }) => fired)
    .map(({ conditions: _conditions, ...rule }) => ({ ...rule, effects: [] })),
  quests: [],
  effects: [],
  derived: trace.derived.map(bareTrace),
});
