import { z } from "zod";
import { availableOf as availableIn, balanceNow } from "../currencies/adjust.ts";
import { type Comparison, compileCheck } from "./operators.ts";
import {
  ATTRIBUTES,
  compilePath,
  currencyOf,
  isReferenceField,
  isReferenceObject,
  Key,
  NAMED_VALUES,
  pairOf,
  PLAYER,
  type PlayerField,
  PROPERTIES,
  type Reader,
  Reference,
  type ReferenceField,
  referentOf,
  smallRecord,
  toSafe,
} from "./syntax.ts";
import { currentLives } from "../lives/lives.ts";
import { compileMetric, type Metric, MetricWindow, WindowlessMetric } from "../metrics/compile.ts";
import { readMetric } from "../metrics/count.ts";
import type { Turn } from "../turn.ts";
import { CALENDAR_UNITS } from "../../kernel/zones.ts";

/** Resolves a value; undefined where there is none. */
type Lookup = (turn: Turn) => unknown;

/** Null fields are missing data. */
const PLAYER_LOOKUPS: Record<PlayerField, Lookup> = {
  xp: ({ player }) => player.xp,
  level: ({ player }) => player.level,
  lives: (turn) => currentLives(turn),
  status: ({ player }) => player.status,
  timezone: ({ player }) => player.timezone ?? undefined,
  locale: ({ player }) => player.locale ?? undefined,
  country: ({ player }) => player.country ?? undefined,
  tags: ({ player }) => player.tags,
  createdAt: ({ player }) => player.createdAt.toISOString(),
  lastSeenAt: ({ player }) => player.lastSeenAt?.toISOString(),
  externalUserId: ({ player }) => player.externalUserId,
};

/** Returns the player's available balance, without held amounts. Undefined for an unknown currency. */
const availableOf = (turn: Turn, currencyKey: string): number | undefined => {
  if (!turn.project.currencies.has(currencyKey)) return undefined;
  return availableIn(balanceNow(turn, currencyKey)!);
};

/** Reads a value of a player by a name for which `isPlayerValue` holds. */
export const compilePlayerValue = (field: string): Lookup => {
  const currencyKey = currencyOf(field);
  if (currencyKey !== undefined) return (turn) => availableOf(turn, currencyKey);
  if (!field.startsWith(ATTRIBUTES)) return PLAYER_LOOKUPS[field as PlayerField];
  const read = compilePath(field.slice(ATTRIBUTES.length));
  return ({ player }) => read(player.attributes);
};

const REFERENCE_LOOKUPS: Record<ReferenceField, Lookup> = {
  "event.type": ({ event }) => event.type,
  "event.timestamp": ({ event }) => new Date(event.at).toISOString(),
  "player.id": ({ player }) => player.id,
  "player.displayName": ({ player }) => player.displayName ?? undefined,
};

const readerOf = (referent: string): Lookup => {
  if (referent.startsWith(PROPERTIES)) {
    const read: Reader = compilePath(referent.slice(PROPERTIES.length));
    return ({ event }) => read(event.properties);
  }
  if (isReferenceField(referent)) return REFERENCE_LOOKUPS[referent];
  return compilePlayerValue(referent.slice(PLAYER.length));
};

export const compileReference = (reference: Reference): Lookup => {
  const { default: fallback } = reference;
  const read = readerOf(referentOf(reference));
  return fallback === undefined ? read : (turn) => read(turn) ?? fallback;
};

/** Returns whether an actual value matches in a turn. A missing value is undefined. */
type Matcher = (actual: unknown, turn: Turn) => boolean;

/** Compiles a comparison to a closure over the actual value. A literal is prepared once. */
export const compileComparison = ({ op, value }: Comparison): Matcher => {
  if (!isReferenceObject(value)) return compileCheck(op, value);
  const resolve = compileReference(value);
  return (actual, turn) => compileCheck(op, resolve(turn))(actual, turn);
};

/** Returns the expected value for a trace. */
export const expectedOf = ({ value }: Comparison, turn: Turn): unknown =>
  isReferenceObject(value) ? compileReference(value)(turn) : value;

/** Maximum metrics that a rule names. */
export const NAMED_METRICS_MAX = 10;

/** Metrics by name, for the expressions of a rule, each of which says its window. */
export const NamedMetrics = smallRecord(
  z.record(Key, WindowlessMetric),
  NAMED_METRICS_MAX,
  `must name at most ${NAMED_METRICS_MAX}`,
);
export type NamedMetrics = z.output<typeof NamedMetrics>;

const ReadWindow = z.union([z.enum(["LIFETIME", ...CALENDAR_UNITS]), MetricWindow], {
  error:
    'must be LIFETIME, DAY, WEEK, MONTH or the window of a metric, such as {"type": "ROLLING", "seconds"}',
});

/** Reads a metric that the rule names, in a window at the event's time. */
const MetricReading = z
  .strictObject({
    metric: Key.describe("The name of one of the rule's `metrics`"),
    window: ReadWindow.default("LIFETIME").describe("DAY, WEEK and MONTH are of the player's time zone"),
    default: z.number().optional().describe("Counts where there is no value"),
  })
  .meta({ id: "RuleMetricReading" });
type MetricReading = z.output<typeof MetricReading>;

/** A reading whose metric is known. */
type ResolvedReading = { metric: Metric; default?: number | undefined };

const windowOf = (window: MetricReading["window"]): Metric["window"] => {
  if (typeof window === "object") return window;
  return window === "LIFETIME" ? { type: window } : { type: "CALENDAR", unit: window, timezone: "PLAYER" };
};

type Named = { actions: readonly object[]; metrics?: NamedMetrics | undefined };

const isReading = (value: object): value is MetricReading =>
  "metric" in value && typeof value.metric === "string";

/** A reading somewhere in a rule's actions; `path` leads to it from them. */
type Found = { path: PropertyKey[]; reading: MetricReading };

/** Returns actions with other values in place of the readings in them; paths lead to these from the actions. */
const replaceReadings = <A>(
  actions: A,
  replaced: (reading: MetricReading, path: PropertyKey[]) => unknown,
): A => {
  const visit = (value: unknown, path: PropertyKey[]): unknown => {
    if (value === null || typeof value !== "object") return value;
    if (isReading(value) && !isRecord(path)) return replaced(value, path);
    if (Array.isArray(value)) return value.map((item, i) => visit(item, [...path, i]));
    const fields = Object.entries(value).map(([name, inner]) => {
      // The steps of a table are numbers alone, of which there may be thousands.
      const isTable = name === "steps" && Array.isArray(inner);
      return [name, isTable ? inner : visit(inner, [...path, name])] as const;
    });
    return Object.fromEntries(fields);
  };
  return visit(actions, []) as A;
};

const readingsIn = (actions: readonly object[]): Found[] => {
  const found: Found[] = [];
  replaceReadings(actions, (reading, path) => found.push({ path, reading }));
  return found;
};

/** Whether a path from the actions leads to values by name, one of which may be called `metric`. */
const isRecord = ([, name, ...deeper]: PropertyKey[]): boolean =>
  deeper.length === 0 && NAMED_VALUES.has(String(name));

/** Returns the readings of metrics that the rule does not name, each with the path of the name. */
export const unknownReadings = ({ actions, metrics = {} }: Named): { path: PropertyKey[]; name: string }[] =>
  readingsIn(actions)
    .filter(({ reading }) => !Object.hasOwn(metrics, reading.metric))
    .map(({ path, reading }) => ({ path: ["actions", ...path, "metric"], name: reading.metric }));

const resolve = ({ metric, window, default: fallback }: MetricReading, metrics: NamedMetrics) => ({
  metric: { ...metrics[metric]!, window: windowOf(window) },
  default: fallback,
});

/** Returns the metrics that a rule's expressions read. */
export const expressionMetrics = ({ actions, metrics }: Named): Metric[] =>
  metrics ? readingsIn(actions).map(({ reading }) => resolve(reading, metrics).metric) : [];

/** Returns a rule's actions with the metrics in place of their names. */
export const resolveReadings = <A extends object>(
  actions: readonly A[],
  metrics: NamedMetrics | undefined,
): readonly A[] => (metrics ? replaceReadings(actions, (reading) => resolve(reading, metrics)) : actions);

export const EXPRESSION_MAX_DEPTH = 6;
export const EXPRESSION_MAX_NODES = 32;
const TABLE_MAX_STEPS = 50;

/** Folds of two or more numbers, and functions of one. */
const FOLDS = {
  add: (a: number, b: number) => a + b,
  sub: (a: number, b: number) => a - b,
  mul: (a: number, b: number) => a * b,
  div: (a: number, b: number) => a / b,
  min: (a: number, b: number) => Math.min(a, b),
  max: (a: number, b: number) => Math.max(a, b),
};
const FUNCTIONS = { floor: Math.floor, ceil: Math.ceil, round: Math.round, abs: Math.abs };
type FoldName = keyof typeof FOLDS;
type FunctionName = keyof typeof FUNCTIONS;

/** A number evaluated when the rule runs. */
export type Expression =
  | number
  | Reference
  | MetricReading
  | ResolvedReading
  | { op: FoldName; args: Expression[] }
  | { op: FunctionName; args: Expression[] }
  | { op: "table"; input: Expression; steps: [number, number][] };

const safe = z.number().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER);

const Steps = z
  .array(pairOf(safe))
  .min(1)
  .max(TABLE_MAX_STEPS)
  .refine((steps) => steps.every(([from], i) => i === 0 || from > steps[i - 1]![0]), "steps must ascend");

// Discriminated by `op`: a plain union would try every form at every level, which is exponential in the
// depth.
const Operation = z
  .lazy(() =>
    z.discriminatedUnion("op", [
      z.strictObject({ op: z.enum(Object.keys(FOLDS) as FoldName[]), args: z.array(Node).min(2).max(8) }),
      z.strictObject({ op: z.enum(Object.keys(FUNCTIONS) as FunctionName[]), args: z.array(Node).length(1) }),
      z.strictObject({ op: z.literal("table"), input: Node, steps: Steps }),
    ]),
  )
  .meta({ id: "ExpressionOperation" });

const Node: z.ZodType<Expression> = z
  .union([safe, Reference, Operation, MetricReading], {
    error:
      'must be a number, {"ref"}, {"metric", "window"}, {"op": add|sub|mul|div|min|max, "args": 2 to 8}, ' +
      '{"op": floor|ceil|round|abs, "args": 1} or ' +
      '{"op": "table", "input", "steps": ascending [from, result]}',
  })
  .meta({ id: "Expression" });

/** Returns the parts of an unchecked expression. */
const childrenOf = (node: unknown): readonly unknown[] => {
  if (node === null || typeof node !== "object") return [];
  const { args, input } = node as { args?: unknown; input?: unknown };
  const inputs = input === undefined ? [] : [input];
  // This many suffice to exceed the limit.
  return Array.isArray(args) ? [...inputs, ...args.slice(0, EXPRESSION_MAX_NODES)] : inputs;
};

/** Returns why an expression is too large; reads at most EXPRESSION_MAX_NODES parts of it. */
const sizeProblem = (root: unknown): string | undefined => {
  let nodes = 0;
  const walk = (node: unknown, depth: number): string | undefined => {
    if (depth > EXPRESSION_MAX_DEPTH) return `nested deeper than ${EXPRESSION_MAX_DEPTH}`;
    if (++nodes > EXPRESSION_MAX_NODES) return `more than ${EXPRESSION_MAX_NODES} parts`;
    for (const child of childrenOf(node)) {
      const problem = walk(child, depth + 1);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
  return walk(root, 1);
};

const checkSize = (node: unknown, context: z.RefinementCtx): unknown => {
  const message = sizeProblem(node);
  if (message === undefined) return node;
  context.addIssue({ code: "custom", message, input: node });
  return z.NEVER;
};

/** Oversized expressions are not parsed. */
export const Expression = z.preprocess(checkSize, Node);

type Calculation = (turn: Turn) => number;

/**
 * Compiles an expression to a closure. Whatever the event contains, the result is a number within ±(2^53 -
 * 1): non-numbers and divisions by zero count as 0 and add a warning.
 */
export const compileExpression = (node: Expression): Calculation => {
  if (typeof node === "number") return () => node;
  if (isReferenceObject(node)) return lookUp(node);
  if ("metric" in node) return readingOf(node);
  if (node.op === "table") return table(compileExpression(node.input), node.steps);
  const args = node.args.map(compileExpression);
  if (node.op in FUNCTIONS) {
    const apply = FUNCTIONS[node.op as FunctionName];
    return (turn) => toSafe(apply(args[0]!(turn)));
  }
  return fold(node.op as FoldName, args);
};

const lookUp = (reference: Reference): Calculation => {
  const read = compileReference(reference);
  return (turn) => {
    const value = read(turn);
    if (typeof value === "number" && Number.isFinite(value)) return toSafe(value);
    turn.warn(`${referentOf(reference)} is not a number: 0 is used`);
    return 0;
  };
};

/** Reads a counter of the turn's player, which has counted the event. */
const readingOf = ({ metric, default: fallback }: MetricReading | ResolvedReading): Calculation => {
  if (typeof metric === "string") throw new Error(`the metric ${metric} was not resolved`);
  const compiled = compileMetric(metric);
  return (turn) => {
    const value = readMetric(turn, compiled) ?? fallback;
    if (value !== undefined) return value;
    turn.warn(`there is no ${metric.aggregate} of ${metric.property ?? "events"}: 0 is used`);
    return 0;
  };
};

const table = (input: Calculation, steps: readonly [number, number][]): Calculation => {
  return (turn) => {
    const value = input(turn);
    return steps.findLast(([from]) => from <= value)?.[1] ?? 0;
  };
};

const fold = (op: FoldName, args: readonly Calculation[]): Calculation => {
  const apply = FOLDS[op];
  return (turn) => {
    let result = args[0]!(turn);
    for (let i = 1; i < args.length; i++) {
      const next = args[i]!(turn);
      if (op === "div" && next === 0) {
        turn.warn("division by zero: 0 is used");
        return 0;
      }
      result = toSafe(apply(result, next));
    }
    return result;
  };
};

const ROUNDINGS = { FLOOR: Math.floor, ROUND: Math.round, CEIL: Math.ceil };
export const Rounding = z.enum(Object.keys(ROUNDINGS) as (keyof typeof ROUNDINGS)[]).default("FLOOR");

/** As `compileExpression`, of a whole number. */
export const compileRounded = (node: Expression, rounding: z.output<typeof Rounding>): Calculation => {
  const valueOf = compileExpression(node);
  const round = ROUNDINGS[rounding];
  return (turn) => round(valueOf(turn));
};
