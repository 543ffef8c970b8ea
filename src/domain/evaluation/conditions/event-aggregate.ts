import { z } from "zod";
import { DISTINCT_MAX } from "../metrics/aggregates.ts";
import { compileMetric, Metric, metricId } from "../metrics/compile.ts";
import { readMetric } from "../metrics/count.ts";
import { compileComparison, expectedOf } from "../language/expressions.ts";
import { checkOperand, numericFields } from "../language/operators.ts";
import { conditionKind, reads, readsTimed } from "./condition.ts";

const largestOf = (value: unknown): number => {
  const numbers = (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "number");
  return Math.max(-Infinity, ...numbers);
};

/** Compares a metric of the player's events at the event's time, this event included. */
export const eventAggregate = conditionKind({
  type: "event_aggregate",
  summary: "An aggregate of the player's events, including this one",
  isExpensive: true,
  schema: z
    .strictObject({ type: z.literal("event_aggregate"), metric: Metric, ...numericFields })
    .superRefine(checkOperand)
    .refine(({ metric, value }) => metric.aggregate !== "distinct" || largestOf(value) <= DISTINCT_MAX, {
      path: ["value"],
      message: `distinct counts to ${DISTINCT_MAX}`,
    }),
  metrics: ({ metric }) => [metric],
  inputs: ({ metric }) => {
    const name = `metric:${metricId(metric)}`;
    const type = metric.window?.type;
    return type === "CALENDAR" || type === "ROLLING" ? readsTimed(name, "field:timezone") : reads(name);
  },
  compile: (condition) => {
    const metric = compileMetric(condition.metric);
    const holds = compileComparison(condition);
    return (turn) => holds(readMetric(turn, metric), turn);
  },
  explain: (condition, turn) => ({
    expected: expectedOf(condition, turn),
    actual: readMetric(turn, compileMetric(condition.metric)),
  }),
});
