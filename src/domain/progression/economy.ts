import { compileBadge } from "../badges/badge.ts";
import { compileCampaign } from "../boosts/campaign-boost.ts";
import type { Currency } from "../currencies/currency.ts";
import type { Stored } from "../definitions/kind.ts";
import { indexMetrics, type Metric } from "../metrics/metric.ts";
import type { Reward } from "../rewards/reward.ts";
import type { RuleSet } from "../rules/running/compile.ts";
import { indexSegments } from "../segments/segment-index.ts";
import { compileSegment } from "../segments/segment.ts";
import { compileStreak } from "../streaks/streak.ts";
import type { Level } from "./level-rewards.ts";
import type { Economy, Live } from "./plan.ts";

/** A project's active definitions by kind. */
export type DefinitionsByKind = ReadonlyMap<string, readonly Stored[]>;

const compiled = <D, C>(
  definitions: DefinitionsByKind,
  kind: string,
  compile: (stored: { id: string; definition: D }) => C,
): Map<string, C> =>
  new Map(
    (definitions.get(kind) ?? []).map(({ id, definition }) => [
      definition.key,
      compile({ id, definition: definition as unknown as D }),
    ]),
  );

/** Compiles a project's definitions of the economy, with the metrics that they and its rules read. */
export const compileEconomy = (definitions: DefinitionsByKind, rules: RuleSet): Economy => {
  const badges = compiled(definitions, "badge", compileBadge);
  const streaks = compiled(definitions, "streak", compileStreak);
  const segments = compiled(definitions, "segment", compileSegment);
  const metrics: Metric[] = [
    ...rules.metrics,
    ...[...badges.values()].flatMap((badge) => badge.metrics),
    ...[...segments.values()].flatMap((segment) => segment.metrics),
  ];
  const index = indexMetrics(metrics);
  const levels = compiled(definitions, "level", ({ definition }: Live<Level>) => definition);
  return {
    currencies: compiled(definitions, "currency", ({ definition }: Live<Currency>) => definition),
    badges,
    streaks,
    segments,
    segmentIndex: indexSegments([...segments.values()]),
    rewards: compiled(definitions, "reward", (live: Live<Reward>) => live),
    levels: new Map([...levels].map(([key, level]) => [Number(key), level])),
    boosts: [...compiled(definitions, "boost", compileCampaign).values()],
    metrics: index,
    hears: (eventType) =>
      rules.listeners(eventType).length > 0 ||
      index.forEvent(eventType).length > 0 ||
      [...streaks.values()].some((streak) => streak.hears(eventType)),
  };
};
