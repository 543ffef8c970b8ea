import { indexFollowers } from "../evaluation/badges/follow.ts";
import { hasLimited } from "../evaluation/rewards/shared-keys.ts";
import { indexStreaks } from "../evaluation/streaks/advance.ts";
import { compileBadge } from "../evaluation/badges/badge.ts";
import { compileCampaign } from "../evaluation/boosts/campaign-boost.ts";
import type { Currency } from "../evaluation/currencies/currency.ts";
import type { Live, Stored } from "../evaluation/live.ts";
import { DOCUMENT_STEPS_MAX, type LeftOut, TOO_LARGE_TO_RUN, whyNot } from "../evaluation/left-out.ts";
import { metricPieces } from "../evaluation/metrics/compile.ts";
import type { Metric } from "../evaluation/metrics/metric.ts";
import { type Pieces, stepsOfValue } from "../kernel/pace.ts";
import { atOnce } from "../kernel/slices.ts";
import type { Reward } from "../evaluation/rewards/reward.ts";
import type { RuleSet } from "../evaluation/running/compile.ts";
import { compileAdventure, indexAdventures } from "../evaluation/adventures/compile.ts";
import { compileQuest } from "../evaluation/quests/compile.ts";
import { indexQuests } from "../evaluation/quests/quest-index.ts";
import { indexSegments } from "../evaluation/segments/segment-index.ts";
import { compileSegment } from "../evaluation/segments/segment.ts";
import { compileStreak } from "../evaluation/streaks/compile.ts";
import type { Spender } from "../evaluation/event-accounts.ts";
import type { Level } from "../evaluation/xp/level.ts";
import type { Economy } from "../evaluation/project-plan.ts";

/** Active definitions of a project by kind. */
export type DefinitionsByKind = ReadonlyMap<string, readonly Stored[]>;

type Given = { definitions: DefinitionsByKind; leftOut: LeftOut[] };

/** Compiles the definitions of a kind; those that fail are left out and reported, and affect no others. */
function* compiled<D, C>(
  { definitions, leftOut }: Given,
  kind: string,
  compile: (stored: Omit<Stored, "definition"> & { definition: D }) => C,
): Pieces<Map<string, C>> {
  const found = new Map<string, C>();
  for (const stored of definitions.get(kind) ?? []) {
    const { id, version, definition } = stored;
    const { key } = definition;
    const steps = stepsOfValue(definition);
    if (steps > DOCUMENT_STEPS_MAX) {
      leftOut.push({ kind, id, key, version, why: TOO_LARGE_TO_RUN });
      continue;
    }
    yield steps;
    try {
      found.set(key, compile({ ...stored, definition: definition as unknown as D }));
    } catch (error) {
      leftOut.push({ kind, id, key, version, why: whyNot(error) });
    }
  }
  return found;
}

/** Compiles the economy definitions of a project, with the metrics that they and its rules read. */
export const compileEconomy = (definitions: DefinitionsByKind, rules: RuleSet): Economy =>
  atOnce(economyPieces(definitions, rules));

/** As `compileEconomy`, in slices. */
export function* economyPieces(definitions: DefinitionsByKind, rules: RuleSet): Pieces<Economy> {
  const leftOut: LeftOut[] = [...rules.leftOut];
  const given = { definitions, leftOut };
  const badges = yield* compiled(given, "badge", compileBadge);
  const streaks = yield* compiled(given, "streak", compileStreak);
  const segments = yield* compiled(given, "segment", compileSegment);
  const spenders = new Map<Metric, Spender>();
  for (const { id, key, metrics } of rules.all)
    for (const metric of metrics) spenders.set(metric, { kind: "rule", id, key });
  for (const { id, definition, metrics } of badges.values())
    for (const metric of metrics) spenders.set(metric, { kind: "badge", id, key: definition.key });
  for (const { id, definition, metrics } of segments.values())
    for (const metric of metrics) spenders.set(metric, { kind: "segment", id, key: definition.key });
  const byKey = yield* compiled(given, "quest", compileQuest);
  for (const { id, key, metrics } of byKey.values())
    for (const metric of metrics) spenders.set(metric, { kind: "quest", id, key });
  const adventures = indexAdventures(yield* compiled(given, "adventure", compileAdventure));
  const quests = indexQuests(byKey, adventures);
  const index = yield* metricPieces([...spenders.keys()], (metric) => spenders.get(metric));
  const levels = yield* compiled(given, "level", ({ definition }: Live<Level>) => definition);
  const rewards = yield* compiled(given, "reward", (live: Live<Reward>) => live);
  return {
    currencies: yield* compiled(given, "currency", ({ definition }: Live<Currency>) => definition),
    badges,
    badgesByMetric: indexFollowers(badges),
    streaks,
    streaksByEventType: indexStreaks(streaks),
    segments,
    quests,
    adventures,
    segmentIndex: indexSegments([...segments.values()]),
    rewards,
    hasLimited: hasLimited({ badges, rewards }),
    levels: new Map([...levels].map(([key, level]) => [Number(key), level])),
    boosts: [...(yield* compiled(given, "boost", compileCampaign)).values()],
    leftOut,
    metrics: index,
    hasListeners: (eventType) =>
      rules.listeners(eventType).length > 0 ||
      index.forEvent(eventType).length > 0 ||
      quests.forEvent(eventType).length > 0 ||
      adventures.forEvent(eventType).length > 0 ||
      [...streaks.values()].some((streak) => streak.listensTo(eventType)),
  };
}
