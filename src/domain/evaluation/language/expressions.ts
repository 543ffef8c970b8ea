import { z } from "zod";
import type { Turn } from "../turn.ts";
import { compileMetric, counterSteps } from "../metrics/compile.ts";
import { readMetric } from "../metrics/count.ts";
import { compileReference } from "./lookups.ts";
import { MetricReading, type ResolvedReading } from "./metric-readings.ts";
import { isReferenceObject, Reference, referentOf } from "./references.ts";

export const EXPRESSION_MAX_DEPTH = 6;
export const EXPRESSION_MAX_NODES = 32;
export const TABLE_MAX_STEPS = 50;

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
  .array(z.tuple([safe, safe]))
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

const clamp = (value: number): number =>
  Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, value));

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
    return (turn) => clamp(apply(args[0]!(turn)));
  }
  return fold(node.op as FoldName, args);
};

const lookUp = (reference: Reference): Calculation => {
  const read = compileReference(reference);
  return (turn) => {
    const value = read(turn);
    if (typeof value === "number" && Number.isFinite(value)) return clamp(value);
    turn.warn(`${referentOf(reference)} is not a number: 0 is used`);
    return 0;
  };
};

/** Reads a counter of the turn's player, which has counted the event. */
const readingOf = ({ metric, default: fallback }: MetricReading | ResolvedReading): Calculation => {
  if (typeof metric === "string") throw new Error(`the metric ${metric} was not resolved`);
  const compiled = compileMetric(metric);
  const steps = 1 + counterSteps(metric);
  return (turn) => {
    turn.root.steps.spend(steps);
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
      result = clamp(apply(result, next));
    }
    return result;
  };
};

export const ROUNDINGS = { FLOOR: Math.floor, ROUND: Math.round, CEIL: Math.ceil };
export const Rounding = z.enum(Object.keys(ROUNDINGS) as (keyof typeof ROUNDINGS)[]).default("FLOOR");
