import type { Test } from "../conditions/condition.ts";
import { createTypeIndex } from "../language/patterns.ts";
import type { Pause, Phase, StoredDraft } from "../live.ts";
import type { Sample } from "../metrics/aggregates.ts";
import { compileSample } from "../metrics/compile.ts";
import type { RewardBundle } from "../rewards/bundle.ts";
import { audienceTest } from "../segments/audience.ts";
import type { EventContext } from "../rule-event.ts";
import { type Adventure, CLAIM_MS, questsBefore } from "./adventure.ts";
import { msOf } from "../../kernel/iso-time.ts";

type Item = Adventure["items"][number];

/** An item compiled for evaluation. */
export type CompiledItem = {
  definition: Item;
  /** Keys of the quests that must be done before it is unlocked. */
  after: readonly string[];
  /** AT_DATE: from when on it is unlocked. */
  atMs: number;
};

/** Events that give points. */
export type PointSource = {
  sampleOf: (context: EventContext) => Sample | undefined;
  pointsPerUnit: number;
};

/** An adventure compiled for evaluation: players always follow the version that is published. */
export type CompiledAdventure = {
  id: string;
  key: string;
  version: number;
  definition: Adventure;
  /** It is also over when its end has passed. */
  phase: Phase;
  /** When it did not run, oldest first. */
  pauses: readonly Pause[];
  /** It runs in [fromMs, endMs), and what was reached can be claimed before claimMs. */
  fromMs: number;
  endMs: number;
  claimMs: number;
  items: ReadonlyMap<string, CompiledItem>;
  /** Returns the sources that count events of a type. */
  sourcesFor(eventType: string): readonly PointSource[];
  /** Whether it is offered to the player. */
  isForPlayer: Test;
};

const compileItem = (items: readonly Item[], definition: Item): CompiledItem => ({
  definition,
  after: questsBefore(items, definition),
  atMs: definition.unlock.mode === "AT_DATE" ? Date.parse(definition.unlock.at) : Infinity,
});

/** Compiles an adventure. */
export const compileAdventure = (stored: StoredDraft<Adventure>): CompiledAdventure => {
  const { id, version = 1, definition, phase, endedMs, pauses } = stored;
  const { key, startsAt, endsAt, claimUntil, items, pointsFrom } = definition;
  const lastMs = Date.parse(endsAt);
  const sources = pointsFrom.map(({ metric, pointsPerUnit }) => ({
    patterns: metric.eventTypes,
    source: { sampleOf: compileSample(metric), pointsPerUnit },
  }));
  return {
    id,
    key,
    version,
    definition,
    phase: phase ?? "RUNNING",
    pauses: pauses ?? [],
    fromMs: Date.parse(startsAt),
    endMs: Math.min(lastMs, endedMs ?? Infinity),
    claimMs: msOf(claimUntil, lastMs + CLAIM_MS),
    items: new Map(items.map((item) => [item.questKey, compileItem(items, item)])),
    sourcesFor: createTypeIndex(sources, (found) => found.map(({ source }) => source)),
    isForPlayer: audienceTest(definition.audience),
  };
};

/** Returns all that an adventure may give. */
export const bundlesOf = ({ definition: { rewards, tiers } }: CompiledAdventure): RewardBundle[] => [
  rewards,
  ...tiers.flatMap(({ free, premium }) => [free, premium].filter((bundle) => bundle !== undefined)),
];

/** The adventures of a project. */
export type AdventureIndex = {
  byKey: ReadonlyMap<string, CompiledAdventure>;
  /** Returns the adventures to which events of a type give points. */
  forEvent(eventType: string): readonly CompiledAdventure[];
  /** Returns the adventures of which a quest is an item. */
  ofQuest(questKey: string): readonly CompiledAdventure[];
};

const NONE: readonly CompiledAdventure[] = [];

/** To be built once per config version. */
export const indexAdventures = (byKey: ReadonlyMap<string, CompiledAdventure>): AdventureIndex => {
  const all = [...byKey.values()];
  const listeners = all.map((adventure) => ({
    adventure,
    patterns: adventure.definition.pointsFrom.flatMap(({ metric }) => metric.eventTypes),
  }));
  const byQuest = new Map<string, CompiledAdventure[]>();
  for (const adventure of all)
    for (const questKey of adventure.items.keys())
      byQuest.set(questKey, [...(byQuest.get(questKey) ?? []), adventure]);
  return {
    byKey,
    forEvent: createTypeIndex(listeners, (found) => found.map(({ adventure }) => adventure)),
    ofQuest: (questKey) => byQuest.get(questKey) ?? NONE,
  };
};
