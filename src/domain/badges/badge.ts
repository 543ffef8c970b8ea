import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import type { Metric } from "../metrics/metric.ts";
import { Key } from "../rules/syntax.ts";

const shape = z.strictObject({
  key: Key,
  name: z.string().min(1).max(100),
});

/** A badge of a project. */
export const Badge = shape;
export type Badge = z.output<typeof Badge>;

/** A badge ready for evaluation. */
export type CompiledBadge = { id: string; definition: Badge; metrics: readonly Metric[] };

export const compileBadge = ({ id, definition }: { id: string; definition: Badge }): CompiledBadge => ({
  id,
  definition,
  metrics: [],
});

export const badgeKind = definitionKind<Badge>({
  kind: "badge",
  plural: "badges",
  tag: "Badges",
  schema: Badge,
  shape,
  max: 1_000,
});
