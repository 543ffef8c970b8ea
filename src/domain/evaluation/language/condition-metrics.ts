import { kindOf } from "../conditions/condition-kinds.ts";
import type { Metric } from "../metrics/metric.ts";
import type { ConditionNode } from "./groups.ts";
import { visitLeaves } from "./trees.ts";

/** Returns the metrics that a tree of conditions reads. */
export const conditionMetrics = (conditions: ConditionNode): Metric[] => {
  const metrics: Metric[] = [];
  visitLeaves(conditions, (leaf) => void metrics.push(...(kindOf(leaf.type)?.metrics(leaf) ?? [])));
  return metrics;
};
