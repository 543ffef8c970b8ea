import { z } from "zod";
import type { Turn } from "../progression/turn.ts";
import { EventPattern, Path } from "../rules/syntax.ts";

/** What is counted of a player's events. */
export const Metric = z.strictObject({
  eventTypes: z.array(EventPattern).min(1).max(20),
  aggregate: z.enum(["count", "sum", "min", "max", "avg", "latest", "distinct"]),
  property: Path.optional(),
});
export type Metric = z.output<typeof Metric>;

/** A counter of a player's events, ready for evaluation. */
export type CompiledMetric = { id: string };

/** The metrics of a project by event type. */
export type MetricIndex = { forEvent(eventType: string): readonly CompiledMetric[] };

/** Indexes the metrics that a project's rules, badges and segments read; equal ones are one counter. */
export const indexMetrics = (_metrics: readonly Metric[]): MetricIndex => ({ forEvent: () => [] });

/** Step 1 of evaluation: counts the event in every metric of its type. */
export const countEvent = (_turn: Turn): void => undefined;
