import { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import type { Metric } from "../metrics/metric.ts";
import type { Test } from "../conditions/condition.ts";
import { conditionMetrics } from "../language/condition-metrics.ts";
import { compileGroup, conditionProblems, Group, groupSteps } from "../language/groups.ts";
import { referencesIn } from "../language/references.ts";
import { Key } from "../language/syntax.ts";
import { inputsOf, type SegmentInputs } from "./inputs.ts";

/** Maximum segments of one project that are not archived. */
export const SEGMENTS_MAX = 200;

type Problem = { path: PropertyKey[]; message: string };

const EVENT_ONLY = "cannot be about the event: these conditions are about the player, whatever has happened";

const eventConditions = (value: unknown, path: PropertyKey[] = []): Problem[] => {
  if (value === null || typeof value !== "object") return [];
  if ((value as Json)["type"] === "event_property") return [{ path: [...path, "type"], message: EVENT_ONLY }];
  return Object.entries(value).flatMap(([key, inner]) =>
    eventConditions(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
};

const eventReferences = (value: unknown): Problem[] =>
  referencesIn(value)
    .filter(({ referent }) => referent.startsWith("event."))
    .map(({ path }) => ({ path, message: EVENT_ONLY }));

const eventProblems = (value: unknown): Problem[] => {
  const conditions = eventConditions(value);
  return conditions.length > 0 ? conditions : eventReferences(value);
};

const explain = (definition: unknown, context: z.RefinementCtx): unknown => {
  const wrong = conditionProblems(definition);
  // Only valid trees of conditions are walked, since their size is bounded.
  const problems = wrong.length > 0 ? wrong : eventProblems(definition);
  for (const { path, message } of problems)
    context.addIssue({ code: "custom", path, message, input: definition });
  return problems.length === 0 ? definition : z.NEVER;
};

/** Conditions of membership in a segment: those of rules, except `event_property`. */
export const SegmentConditions = z.preprocess(explain, Group);

export const segmentShape = z.strictObject({
  key: Key,
  name: z.string().min(1).max(100),
  description: z.string().max(2_000).optional(),
  kind: z
    .enum(["STATIC", "DYNAMIC"])
    .default("STATIC")
    .describe("STATIC: members are added and removed explicitly. DYNAMIC: players who meet the definition"),
  definition: SegmentConditions.optional().describe("For DYNAMIC segments"),
});

const fits = ({ kind, definition }: z.output<typeof segmentShape>, context: z.RefinementCtx): void => {
  if ((kind === "DYNAMIC") === (definition !== undefined)) return;
  const message = kind === "DYNAMIC" ? "is required for a DYNAMIC segment" : "goes with kind DYNAMIC";
  context.addIssue({ code: "custom", path: ["definition"], message });
};

/** A segment of a project's players. */
export const Segment = segmentShape.superRefine(fits);
export type Segment = z.output<typeof Segment>;

/** A segment compiled for evaluation. */
export type CompiledSegment = {
  id: string;
  definition: Segment;
  /** Counters that its conditions read. */
  metrics: readonly Metric[];
  inputs: SegmentInputs;
  /** Returns whether the turn's player meets the definition; undefined for a STATIC segment. */
  test: Test | undefined;
  /** Maximum steps of a test, besides texts and lists. */
  steps: number;
};

const NO_INPUTS: SegmentInputs = { names: [], segmentKeys: [], isTimed: false };

export const compileSegment = ({ id, definition }: { id: string; definition: Segment }): CompiledSegment => {
  const conditions = definition.definition;
  return {
    id,
    definition,
    metrics: conditions ? conditionMetrics(conditions) : [],
    inputs: conditions ? inputsOf(conditions) : NO_INPUTS,
    test: conditions && compileGroup(conditions),
    steps: conditions ? 1 + groupSteps(conditions) : 0,
  };
};

/**
 * Sorts segments so that each comes after those that it reads.
 * @returns the keys of a cycle instead, if there is one
 */
export const orderSegments = <S extends { key: string; segmentKeys: readonly string[] }>(
  segments: readonly S[],
): { ordered: S[] } | { ring: string[] } => {
  const byKey = new Map(segments.map((segment) => [segment.key, segment]));
  const ordered: S[] = [];
  const done = new Set<string>();
  const way: string[] = [];
  const place = (segment: S): string[] | undefined => {
    if (done.has(segment.key)) return undefined;
    if (way.includes(segment.key)) return [...way.slice(way.indexOf(segment.key)), segment.key];
    way.push(segment.key);
    for (const key of segment.segmentKeys) {
      const next = byKey.get(key);
      const ring = next && place(next);
      if (ring) return ring;
    }
    way.pop();
    done.add(segment.key);
    ordered.push(segment);
    return undefined;
  };
  for (const segment of segments) {
    const ring = place(segment);
    if (ring) return { ring };
  }
  return { ordered };
};
