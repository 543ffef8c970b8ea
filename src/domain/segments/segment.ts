import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import type { Metric } from "../metrics/metric.ts";
import { Key } from "../rules/syntax.ts";

const shape = z.strictObject({
  key: Key,
  name: z.string().min(1).max(100),
});

/** A segment of a project's players. */
export const Segment = shape;
export type Segment = z.output<typeof Segment>;

/** A segment ready for evaluation. */
export type CompiledSegment = { id: string; definition: Segment; metrics: readonly Metric[] };

export const compileSegment = ({ id, definition }: { id: string; definition: Segment }): CompiledSegment => ({
  id,
  definition,
  metrics: [],
});

export const segmentKind = definitionKind<Segment>({
  kind: "segment",
  plural: "segments",
  tag: "Segments",
  schema: Segment,
  shape,
  max: 200,
});
