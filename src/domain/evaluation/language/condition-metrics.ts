import type { Metric } from "../metrics/metric.ts";
import type { ConditionNode } from "./groups.ts";
import { visitLeaves } from "./trees.ts";

/** The metrics that a tree of conditions reads. */
export const conditionMetrics = (conditions: ConditionNode): Metric[] => {
  const metrics: Metric[] = [];
  visitLeaves(conditions, (leaf) => {
    if (leaf.type === "event_aggregate") metrics.push(leaf.metric);
  });
  return metrics;
};
