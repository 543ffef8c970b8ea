import type { Cause } from "../../events.ts";
import { entryAt } from "../../leaderboards/lists.ts";
import { fromRankScore } from "../../leaderboards/scoring.ts";
import type { RuleEvent, TraceSink, Turn } from "../../progression/turn.ts";
import type { CompiledRule, RuleSet } from "../running/compile.ts";
import { explainGroup, type TraceNode } from "../language/groups.ts";
import {
  type ConsiderOptions,
  considerRule,
  createStops,
  type Outcome,
  type RuleReason,
} from "../running/run.ts";

/** Rules of one event that are explained; the ones after them run without being shown. */
export const TRACED_RULES_MAX = 200;

export type Effect = { type: string; data: unknown; cause: Cause };

/** One condition or group of a trace. `skipped`: the outcome was clear without it. */
export type ExplainedNode = Omit<TraceNode, "children"> & { skipped?: boolean; children?: ExplainedNode[] };

/** What one rule made of an event, and why. Every condition is shown, also those that decided nothing. */
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
  /** Time that the rule itself took, without being explained. */
  micros: number;
};

/** How an event was evaluated, with everything that it brought about. */
export type EventTrace = {
  eventId: string | null;
  eventType: string;
  /** The id is null where the player could not be read. */
  player: { playerId: string | null; externalUserId: string };
  evaluatedAt: string;
  /** Rules that listen to the event's type. */
  rulesIndexed: number;
  rules: RuleTrace[];
  /** What came about beside rules: by streaks, badges that follow a metric, segments. */
  effects: Effect[];
  derived: EventTrace[];
  /** Scores before and after; of the event itself, and everything derived, at the root only. */
  leaderboards: { key: string; before: number | null; after: number }[];
  warnings: string[];
  /** Something was left out: rules beyond TRACED_RULES_MAX, events that the loop guard cut off, or size. */
  truncated: boolean;
  /** Types that the loop guard cut off. */
  guarded?: string[];
  /** Keys of the rules that set one another off, where the loop guard held the last of them. */
  loop?: string[];
  /** Why the event could not be evaluated. */
  error?: string;
};

export type TraceOptions = {
  /** Null for a simulation. */
  eventId: string | null;
  /** Lets rules fire whatever their limits say. */
  ignoreLimits?: boolean;
};

/** Collects what evaluation does. Give it to `openTurn`; ask for its `result` when evaluation is over. */
export const createTrace = (options: TraceOptions): TraceSink => {
  const nodes = new Map<RuleEvent, EventTrace>();
  const own = new Map<EventTrace, Own>();
  let root: Own | undefined;
  let open: Own | undefined;
  return {
    open: (turn) => {
      const trace = emptyTrace(turn, root ? null : options.eventId);
      open = {
        trace,
        turn,
        outbox: turn.effects.outbox.length,
        derived: turn.root.derived.length,
        slices: [],
      };
      own.set(trace, open);
      if (root) (nodes.get(turn.event) ?? root.trace).derived.push(trace);
      else root = { ...open, scores: scoresOf(turn) };
    },
    runRules: (turn) => {
      if (!open) return;
      const { trace, slices } = open;
      const told = (from: number, to: number) => void slices.push([from, to]);
      const ignoreLimits = options.ignoreLimits === true;
      trace.rules = traceRules(turn.project.rules, turn, { ignoreLimits, told });
      trace.truncated = trace.rulesIndexed > TRACED_RULES_MAX;
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

/** A pass while it is open: where its effects begin, and which of them are rules'. */
type Own = {
  trace: EventTrace;
  turn: Turn;
  outbox: number;
  derived: number;
  slices: [from: number, to: number][];
  scores?: ReadonlyMap<string, number>;
};

const emptyTrace = ({ event, player, nowMs, project }: Turn, eventId: string | null): EventTrace => ({
  eventId,
  eventType: event.type,
  player: { playerId: player.id, externalUserId: player.externalUserId },
  evaluatedAt: new Date(nowMs).toISOString(),
  rulesIndexed: listenersOf(project.rules, event).length,
  rules: [],
  effects: [],
  derived: [],
  leaderboards: [],
  warnings: [],
  truncated: false,
});

const finish = ({ trace, turn, scores }: Own): EventTrace => {
  const { root } = turn;
  const after = scoresOf(turn);
  trace.leaderboards = scoreChanges(scores ?? new Map(), after);
  if (root.guarded.length > 0) Object.assign(trace, { guarded: [...root.guarded], truncated: true });
  if (root.loop) trace.loop = root.loop.chain.map(({ ruleKey }) => ruleKey);
  return trace;
};

type TraceRules = ConsiderOptions & {
  /** Hears which rows of the outbox a rule has made. */
  told?: (from: number, to: number) => void;
};

/**
 * Runs every rule that listens to the turn's event, as `runRules` does, and tells what each one saw and did.
 * Rules that an indexed property would have ruled out are explained like the others.
 */
export const traceRules = (
  ruleSet: RuleSet,
  turn: Turn,
  { told, ...options }: TraceRules = {},
): RuleTrace[] => {
  const stops = createStops();
  const traces: RuleTrace[] = [];
  for (const rule of listenersOf(ruleSet, turn.event)) {
    const stoppedBy = stops.stoppedBy(rule);
    const isShown = traces.length < TRACED_RULES_MAX;
    const conditions: ExplainedNode | undefined = isShown
      ? explainGroup(rule.definition.conditions, turn)
      : undefined;
    const warnings: string[] = [];
    const { outbox, executions, spawned } = turn.effects;
    const before: Before = [outbox.length, executions.length, spawned.length];
    const startMs = performance.now();
    const outcome: Outcome =
      stoppedBy === undefined
        ? considerRule(rule, { ...turn, warn: (text) => void warnings.push(text) }, options)
        : { fired: false, reason: "STOPPED", stoppedBy };
    const micros = Math.round((performance.now() - startMs) * 1_000);
    if (outcome.fired) stops.fired(rule);
    told?.(before[0], outbox.length);
    if (!conditions) continue;
    markSkipped(conditions);
    const effects = effectsOf(rule, turn, before);
    traces.push({ ...about(rule, outcome), conditions, effects, warnings, micros });
  }
  return traces;
};

/** Lengths of the lists of outbox rows, executions and spawned events. */
type Before = readonly [outbox: number, executions: number, spawned: number];

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

/** What a rule has done since `before`; of a rule in SHADOW, what it would have done. */
const effectsOf = (
  { id, key, version }: CompiledRule,
  { effects, event, root }: Turn,
  [outbox, executions, spawned]: Before,
): Effect[] => {
  const cause: Cause = {
    kind: "RULE",
    eventId: event.id,
    rootEventId: root.id,
    ruleId: id,
    ruleKey: key,
    ruleVersion: version,
  };
  const unreal = effects.executions
    .slice(executions)
    .flatMap(({ mode, effects: would }) => (mode !== "LIVE" && Array.isArray(would) ? would : []));
  const told = [
    ...effects.outbox.slice(outbox),
    ...effects.spawned.slice(spawned).map(({ eventType, externalUserId, properties, dueMs }) => ({
      type: eventType,
      data: { externalUserId, ...properties, dueAt: dueMs === null ? null : new Date(dueMs).toISOString() },
    })),
    ...(unreal as { type: string; data: unknown }[]),
  ];
  return told.map(({ type, data }) => ({ type, data, cause: causeIn(data) ?? cause }));
};

/** Effects of a pass that no rule has had. */
const othersOf = ({ turn, outbox, slices }: Own): Effect[] =>
  turn.effects.outbox
    .slice(outbox)
    .filter((_row, i) => !slices.some(([from, to]) => i + outbox >= from && i + outbox < to))
    .map(({ type, data }) => ({
      type,
      data,
      cause: causeIn(data) ?? { kind: "EVENT", eventId: turn.event.id },
    }));

/** Which value of a member decides a group, so that the members after it are not looked at. */
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

/** The path of the condition, or of the `any`, because of which a tree does not hold. */
export const failingLeaf = (node: ExplainedNode): string | undefined => {
  if (node.pass) return undefined;
  if (node.type === "all") {
    const failing = node.children?.find(({ pass }) => !pass);
    return failing && failingLeaf(failing);
  }
  if (node.type === "none") return node.children?.find(({ pass }) => pass)?.path;
  return node.path;
};

/** Scores by key of the board, in the periods of the event's time. */
const scoresOf = ({ project: { boards }, player, event }: Turn): Map<string, number> =>
  new Map(
    boards.flatMap((board) => {
      const entry = entryAt(board, player, event.at);
      return entry ? [[board.key, fromRankScore(board, entry.rankScore)] as const] : [];
    }),
  );

const scoreChanges = (before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>) =>
  [...after]
    .filter(([key, score]) => before.get(key) !== score)
    .map(([key, score]) => ({ key, before: before.get(key) ?? null, after: score }));
