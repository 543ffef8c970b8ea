import { entryAt } from "../boards/lists.ts";
import { fromRankScore } from "../boards/scoring.ts";
import type { Spender } from "../event-accounts.ts";
import { stepsHitOf } from "../event-steps.ts";
import type { RuleEvent } from "../rule-event.ts";
import type { QuestVerdict, TraceSink, Turn } from "../turn.ts";
import type { RuleSet } from "../running/compile.ts";
import { type Effect, listenersOf, publishedCause, type RuleTrace, traceRules } from "./trace-rules.ts";

/** How an event was evaluated, with all its effects. */
export type EventTrace = {
  eventId: string | null;
  eventType: string;
  /** The id is null where the player could not be read. */
  player: { playerId: string | null; externalUserId: string };
  evaluatedAt: string;
  /** Number of rules that listen to the event's type. */
  rulesIndexed: number;
  rules: RuleTrace[];
  /** The quests that count events of the type; absent in traces of earlier versions of the service. */
  quests?: QuestVerdict[];
  /** Effects not caused by rules: by streaks, badges that follow a metric, segments. */
  effects: Effect[];
  derived: EventTrace[];
  /** Scores before and after; for the root event including everything derived. */
  leaderboards: { key: string; before: number | null; after: number }[];
  warnings: string[];
  /** Something was left out: rules beyond TRACED_RULES_MAX, events that the loop guard cut off, or size. */
  truncated: boolean;
  /** Types that the loop guard cut off. */
  guarded?: string[];
  /** Keys of the rules that triggered one another, where the loop guard held the last of them. */
  loop?: string[];
  /** Steps spent by evaluation of the event's budgets; for the root only. */
  steps?: { rules: number; upkeep: number; written?: number };
  /** The most expensive single definition, where the steps did not suffice. */
  dearest?: Spender;
  /** Why the event could not be evaluated. */
  error?: string;
};

/** Maximum quests that are shown for one event. */
const QUESTS_SHOWN_MAX = 100;

export type TraceOptions = {
  /** Null for a simulation. */
  eventId: string | null;
  /** Lets rules fire regardless of their limits. */
  ignoreLimits?: boolean;
};

/** Collects how one event was evaluated; `result` is available when evaluation is over. */
export type Tracer = TraceSink & { result(): EventTrace };

/** Creates a tracer of evaluation with these rules. To be passed to `openTurn`. */
export const createTrace = (rules: RuleSet, options: TraceOptions): Tracer => {
  const nodes = new Map<RuleEvent, EventTrace>();
  const own = new Map<EventTrace, Own>();
  let root: Own | undefined;
  let open: Own | undefined;
  return {
    open: (turn) => {
      const trace = emptyTrace(rules, turn, root ? null : options.eventId);
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

const emptyTrace = (rules: RuleSet, { event, player, nowMs }: Turn, eventId: string | null): EventTrace => ({
  eventId,
  eventType: event.type,
  player: { playerId: player.id, externalUserId: player.externalUserId },
  evaluatedAt: new Date(nowMs).toISOString(),
  rulesIndexed: listenersOf(rules, event).length,
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
  Object.assign(trace, spentBy(turn));
  if (root.loop) trace.loop = root.loop.chain.map(({ ruleKey }) => ruleKey);
  return trace;
};

/** Returns the steps of an event for its trace. */
export const spentBy = (turn: Turn): Pick<EventTrace, "steps" | "dearest"> => {
  const { rules, upkeep } = turn.root.accounts;
  const hit = stepsHitOf(turn);
  return {
    steps: {
      rules: Math.round(rules.spent),
      upkeep: Math.round(upkeep.spent),
      written: Math.round(rules.written.spent),
    },
    ...(hit ? { dearest: hit.spender } : {}),
  };
};

/** Returns the effects of a pass that were not caused by rules. */
const othersOf = ({ turn, outbox, slices }: Own): Effect[] =>
  turn.effects.outbox
    .slice(outbox)
    .filter((_row, i) => !slices.some(([from, to]) => i + outbox >= from && i + outbox < to))
    .map(({ type, data }) => ({
      type,
      data,
      cause: publishedCause(data, turn.root.id),
    }));

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
