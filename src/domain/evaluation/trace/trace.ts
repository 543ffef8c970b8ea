import { z } from "zod";
import { entryAt, fromRankScore } from "../boards/lists.ts";
import { Spender } from "../event-cost.ts";
import { explainGroup, SHOWN_JSON_MAX, SHOWN_TEXT_MAX, type TraceNode } from "../language/groups.ts";
import type { RuleEvent } from "../rule-event.ts";
import type { CompiledRule, RuleSet } from "../running/compile.ts";
import { type Outcome, RULE_REASONS } from "../running/outcome.ts";
import { type ConsiderOptions, considerRule, createStops, findCandidates } from "../running/run.ts";
import { QuestVerdict, stepsHitOf, type TraceSink, type Turn, write } from "../turn.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { Data } from "../../kernel/events/shapes.ts";
import { fnv1a } from "../../kernel/ids.ts";
import type { TraceRow } from "../effects.ts";
import type { PlanTurn, ProjectPlan } from "../project-plan.ts";
import { DEFAULT_SETTINGS } from "../project-settings.ts";

/** Maximum rules of one event that are explained; later ones run without explanation. */
const TRACED_RULES_MAX = 200;

export type Effect<D = unknown> = { type: string; data: D; cause: Cause };

/** One condition or group of a trace. `skipped`: the outcome was decided without it. */
export type ExplainedNode = Omit<TraceNode, "children"> & { skipped?: boolean; children?: ExplainedNode[] };

const SHOWN =
  `What the condition saw. Of a long value, as of \`expected\`, a text of its beginning that ends in "…": ` +
  `${SHOWN_TEXT_MAX} characters of a text, ${SHOWN_JSON_MAX} of the JSON of a list or an object`;

const ExplainedNode: z.ZodType<ExplainedNode> = z
  .object({
    path: z.string().meta({ example: "conditions.all[0]" }),
    type: z.string().meta({ example: "event_property" }),
    op: z.string().optional(),
    expected: z.unknown().optional(),
    actual: z.unknown().optional().meta({ description: SHOWN }),
    pass: z.boolean(),
    skipped: z.boolean().optional().meta({ description: "The outcome of its group was clear without it" }),
    get children() {
      return z.array(ExplainedNode).optional();
    },
  })
  .meta({ id: "TraceNode" }) as never;

const Effects: z.ZodType<Effect[]> = z.array(
  z.object({ type: z.string(), data: z.unknown(), cause: Data }),
) as never;

/**
 * The outcome of one rule for an event, with the reason. Every condition is shown, also those that did not
 * matter.
 */
const RuleTrace = z
  .object({
    ruleId: z.uuid(),
    ruleKey: z.string(),
    version: z.int().meta({ description: "Version that ran: published or draft; 0 for an inline rule" }),
    shadow: z.boolean().meta({ description: "Nothing of `effects` was done" }),
    fired: z.boolean(),
    reason: z.enum(RULE_REASONS).meta({ example: "CONDITIONS_NOT_MET" }),
    detail: z.string().optional(),
    nextEligibleAt: z.iso.datetime().optional(),
    stoppedBy: z.string().optional().meta({ description: "Key of the rule whose stopOnMatch ended it" }),
    conditions: ExplainedNode.optional(),
    effects: Effects,
    warnings: z.array(z.string()),
    micros: z.int().meta({ description: "Time that the rule took, in microseconds" }),
  })
  .meta({ id: "RuleTrace" });
type RuleTrace = z.output<typeof RuleTrace>;

/** The fields of a trace in the order of the answer: those of derived events stand between the two. */
const evaluated = {
  eventId: z.uuid().nullable().meta({ description: "Null for a simulated and for a derived event" }),
  eventType: z.string(),
  player: z.object({ playerId: z.uuid().nullable(), externalUserId: z.string() }),
  evaluatedAt: z.iso.datetime(),
  rulesIndexed: z.int().meta({ description: "Rules that listen to the event's type" }),
  rules: z.array(RuleTrace),
  quests: z
    .array(QuestVerdict)
    .optional()
    .meta({ description: "Quests that count events of the type: whether this one counted, and if not, why" }),
  effects: Effects.meta({ description: "Effects without a rule: streaks, badges, segments" }),
};

const ended = {
  leaderboards: z.array(z.object({ key: z.string(), before: z.number().nullable(), after: z.number() })),
  warnings: z.array(z.string()),
  truncated: z.boolean().meta({ description: "Something was left out" }),
  guarded: z.array(z.string()).optional().meta({ description: "Event types that the loop guard cut off" }),
  loop: z.array(z.string()).optional().meta({ description: "Keys of the rules that set one another off" }),
  steps: z
    .object({ rules: z.int(), written: z.int().optional() })
    .optional()
    .meta({ description: "Steps of the rules, and bytes that they wrote: see `evaluation` at GET /limits" }),
  dearest: Spender.optional().meta({ description: "The rule that took most, where that was too much" }),
  error: z.string().optional().meta({ description: "Why the event could not be evaluated" }),
};

/** How an event was evaluated, with all its effects. Scores of the root event include everything derived. */
export type EventTrace = z.output<z.ZodObject<typeof evaluated & typeof ended>> & { derived: EventTrace[] };

export const eventTraceFields = {
  ...evaluated,
  get derived() {
    return z.array(EventTrace).meta({ description: "The events that this one brought about, in order" });
  },
  ...ended,
};

export const EventTrace: z.ZodType<EventTrace> = z.object(eventTraceFields).meta({ id: "EventTrace" });

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

const stopped = (stoppedBy: string): Outcome => ({ fired: false, reason: "STOPPED", stoppedBy });

/** Returns the rule's explained conditions; undefined when enough rules have been shown. */
const explain = (rule: CompiledRule, turn: Turn, shown: number): ExplainedNode | undefined =>
  shown < TRACED_RULES_MAX ? explainGroup(rule.definition.conditions, turn) : undefined;

const notAsked = (rule: CompiledRule, { root }: Turn, conditions: ExplainedNode): RuleTrace => {
  const reason = root.cost.isSpent ? "STEPS_EXHAUSTED" : "CONDITIONS_NOT_MET";
  markSkipped(conditions);
  return { ...about(rule, { fired: false, reason }), conditions, effects: [], warnings: [], micros: 0 };
};

const listenersOf = (ruleSet: RuleSet, event: RuleEvent): readonly CompiledRule[] =>
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

/** Shows a row of the outbox with its cause: the event, where it has no other. */
export const published =
  (eventId: string) =>
  <D>({ type, data }: { type: string; data: D }): Effect<D> => ({
    type,
    data,
    cause: causeIn(data) ?? { kind: "EVENT", eventId },
  });

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
  const real = effects.outbox.slice(outbox).map(published(root.id));
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

/** Maximum quests that are shown for one event. */
const QUESTS_SHOWN_MAX = 100;

type TraceOptions = {
  /** Null for a simulation. */
  eventId: string | null;
  /** Lets rules fire regardless of their limits. */
  ignoreLimits?: boolean;
};

/** Collects how one event was evaluated; `result` is available when evaluation is over. */
type Tracer = TraceSink & { result(): EventTrace };

/** Creates a tracer of evaluation with these rules. To be passed to `openTurn`. */
export const createTrace = (rules: RuleSet, options: TraceOptions): Tracer => {
  const nodes = new Map<RuleEvent, EventTrace>();
  let root: Own | undefined;
  let open: Own | undefined;
  return {
    open: (turn) => {
      const eventId = root ? null : options.eventId;
      const { type: eventType } = turn.event;
      const rulesIndexed = listenersOf(rules, turn.event).length;
      const trace = emptyTrace(turn, { eventId, eventType, rulesIndexed });
      open = {
        trace,
        turn,
        outbox: turn.effects.outbox.length,
        derived: turn.root.derived.length,
        slices: [],
      };
      if (root) (nodes.get(turn.event) ?? root.trace).derived.push(trace);
      else root = { ...open, scores: scoresOf(turn) };
    },
    runRules: (turn) => {
      if (!open) return;
      const { trace, slices } = open;
      const onOutbox = (from: number, to: number) => void slices.push([from, to]);
      const ignoreLimits = options.ignoreLimits === true;
      trace.rules = traceRules(rules, turn, { ignoreLimits, onOutbox });
      trace.truncated = trace.rules.length < trace.rulesIndexed;
    },
    quest: (verdict) => {
      const quests = open && (open.trace.quests ??= []);
      if (quests && quests.length < QUESTS_SHOWN_MAX) quests.push(verdict);
      else if (open) open.trace.truncated = true;
    },
    warn: (message) => void open?.trace.warnings.push(message),
    close: (turn) => {
      if (!open) return;
      open.trace.effects = othersOf(open);
      for (const event of turn.root.derived.slice(open.derived)) nodes.set(event, open.trace);
      open = undefined;
    },
    result: () => {
      if (!root) throw new Error("nothing has been evaluated");
      return finish(root);
    },
  };
};

/** An open pass: where its effects begin, and which of them are rules'. */
type Own = {
  trace: EventTrace;
  turn: Turn;
  outbox: number;
  derived: number;
  slices: [from: number, to: number][];
  scores?: ReadonlyMap<string, number>;
};

/** Returns a trace in which nothing has happened. */
const emptyTrace = (
  { player, nowMs }: { player: { id: string | null; externalUserId: string }; nowMs: number },
  event: Pick<EventTrace, "eventId" | "eventType" | "rulesIndexed">,
): EventTrace => ({
  ...event,
  player: { playerId: player.id, externalUserId: player.externalUserId },
  evaluatedAt: new Date(nowMs).toISOString(),
  rules: [],
  effects: [],
  derived: [],
  leaderboards: [],
  warnings: [],
  truncated: false,
});

const finish = ({ trace, turn, scores }: Own): EventTrace => {
  trace.leaderboards = scoreChanges(scores ?? new Map(), scoresOf(turn));
  if (turn.root.guarded.length > 0) trace.truncated = true;
  return Object.assign(trace, endedBy(turn));
};

/** Returns the steps of an event for its trace, and what has cut it off. */
export const endedBy = (turn: Turn): Pick<EventTrace, "steps" | "dearest" | "guarded" | "loop"> => {
  const { guarded, loop, cost } = turn.root;
  const hit = stepsHitOf(turn);
  return {
    ...(guarded.length > 0 ? { guarded: [...guarded] } : {}),
    steps: { rules: cost.steps.spent, written: cost.written.spent },
    ...(hit ? { dearest: hit.spender } : {}),
    ...(loop ? { loop: loop.chain.map(({ ruleKey }) => ruleKey) } : {}),
  };
};

/** Returns the effects of a pass that were not caused by rules. */
const othersOf = ({ turn, outbox, slices }: Own): Effect[] =>
  turn.effects.outbox
    .slice(outbox)
    .filter((_row, i) => !slices.some(([from, to]) => i + outbox >= from && i + outbox < to))
    .map(published(turn.root.id));

/** Returns scores by key of the board, in the periods of the event's time. */
const scoresOf = ({ project: { boards }, player, event }: Turn): Map<string, number> =>
  new Map(
    boards.flatMap((board) => {
      const entry = entryAt(board, player, event);
      return entry ? [[board.key, fromRankScore(board, entry.rankScore)] as const] : [];
    }),
  );

const scoreChanges = (before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>) =>
  [...after]
    .filter(([key, score]) => before.get(key) !== score)
    .map(([key, score]) => ({ key, before: before.get(key) ?? null, after: score }));

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
    rules: fired.map((rule) => ({
      ...about(rule, {
        fired: true,
        reason: "MATCHED",
        detail: `fired ${root.firings.get(rule.id)} times`,
      }),
      effects: [],
      warnings: [],
      micros: 0,
    })),
    derived: root.derived.slice(0, root.taken).map(({ type }) => typeTrace(type)),
  };
};

/** The fields of an event that a trace names. */
type FailedEvent = { projectId: string; eventId: string; eventType: string; externalUserId: string };

/** Builds the trace of an event that failed for good. */
export const failedTrace = (
  { projectId, eventId, eventType, externalUserId }: FailedEvent,
  { error, now }: { error: string; now: Date },
): TraceRow => {
  const failed = { player: { id: null, externalUserId }, nowMs: now.getTime() };
  const trace = { ...emptyTrace(failed, { eventId, eventType, rulesIndexed: 0 }), error };
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
