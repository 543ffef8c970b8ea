import { outcomesOf } from "./actions/action-kinds.ts";
import { type AdventureIndex, bundlesOf, type CompiledAdventure } from "./adventures/compile.ts";
import { badgesFollowing } from "./badges/award.ts";
import type { BoardIndex } from "./boards/holdings.ts";
import type { LeftOut } from "./left-out.ts";
import type { CompiledDefinitions } from "./project-settings.ts";
import { type CompiledQuest, placesKey, type QuestIndex } from "./quests/compile.ts";
import type { RewardBundle } from "./rewards/bundle.ts";
import { limitedKeysOf } from "./rewards/shared-keys.ts";
import type { CompiledRule, RuleSet } from "./running/compile.ts";
import { SPAWNED_TYPES } from "./running/spawned.ts";
import { type CompiledSegment, inputsOf, type SegmentIndex } from "./segments/membership.ts";
import type { SharedKey } from "./shared-counters.ts";
import type { Turn } from "./turn.ts";
import { DERIVED_EVENT_TYPES } from "../kernel/events/event-types.ts";
import type { Steps } from "../kernel/slices.ts";

/** Fields that are not definitions of the economy. */
type NoEconomy = "projectId" | "timezone" | "settings" | "curve" | "boards" | "boardsByKey" | "rules";

/** A project's compiled definitions of the economy, without archived ones. */
export type Economy = Omit<CompiledDefinitions, NoEconomy | "segments" | "adventures"> & {
  segments: ReadonlyMap<string, CompiledSegment>;
  quests: QuestIndex;
  adventures: AdventureIndex;
  /** The DYNAMIC segments, compiled to be refreshed. */
  segmentIndex: SegmentIndex;
  /** Definitions that could not be compiled. */
  leftOut: readonly LeftOut[];
};

/** Everything of a project that evaluation needs, read and compiled once per config version. */
export type ProjectPlan = Omit<CompiledDefinitions, keyof Economy | "rules"> &
  Economy & {
    tenantId: string;
    configVersion: number;
    /** How far the clock of the project is ahead of the server's, in ms; see `atProjectTime`. */
    clockAheadMs: number;
    isSandbox: boolean;
    boardIndex: BoardIndex;
    rules: RuleSet;
    /** Of its documents, as JSON. */
    bytes: number;
  };

/** A turn with the project's rules and indexes, for the evaluator. */
export type PlanTurn = Omit<Turn, "project"> & { project: ProjectPlan };

/** An upcoming event of a batch, as far as it determines what must be locked. */
type UpcomingEvent = { type: string; at: number };

/**
 * Returns the shared counters that evaluating `events` may use: global limits and budgets of the rules that
 * may run, stock and limited editions that they may touch, also through derived events. An upper bound: a
 * counter locked in vain costs a wait, a missing one fails the event. In slices.
 */
export function* sharedKeysOf(plan: ProjectPlan, events: readonly UpcomingEvent[]): Steps<SharedKey[]> {
  return (yield* firstSharedKeys(plan, events, Infinity)).keys;
}

/**
 * As `sharedKeysOf`, for the leading `events`: as many as need `max` counters together, and at least one.
 * @returns the counters, and the number of events that they are for
 */
export function* firstSharedKeys(
  plan: ProjectPlan,
  events: readonly UpcomingEvent[],
  max: number,
): Steps<{ keys: SharedKey[]; covered: number }> {
  const needsOf = plannedNeeds(plan);
  if (!needsOf) return { keys: [], covered: events.length };
  const found = new Map<string, SharedKey>();
  const add = (key: SharedKey): void => void found.set(`${key.windowNo}\0${key.scope}`, key);
  const known = new Set<readonly SharedKey[]>();
  let covered = 0;
  for (const { type, at } of events) {
    if (found.size > max) break;
    const { keys, rules } = yield* needsOf(type);
    yield;
    if (!known.has(keys)) keys.forEach(add);
    known.add(keys);
    for (const { globalLimits, budgets } of rules) {
      yield;
      for (const counter of [...globalLimits, ...budgets]) add(counter.keyOf(plan, at));
    }
    covered++;
  }
  return { keys: [...found.values()], covered };
}

/** Returns whether a project has anything shared by players, so that there may be counters to lock. */
export const sharesCounters = (plan: ProjectPlan): boolean => plannedNeeds(plan) !== undefined;

/** Counters of limited definitions, and the rules whose own counters may be used. */
type Needs = { keys: readonly SharedKey[]; rules: readonly CompiledRule[] };
type NeedsOf = (eventType: string) => Steps<Needs>;

/** Maximum event types whose needs are cached; integrators may send any number of types. */
const TYPES_REMEMBERED_MAX = 2_000;

const planned = new WeakMap<ProjectPlan, { needsOf: NeedsOf | undefined }>();

/** Returns the needs of each event type, computed once per plan; undefined when nothing in it is shared. */
const plannedNeeds = (plan: ProjectPlan): NeedsOf | undefined => {
  let known = planned.get(plan);
  if (!known) planned.set(plan, (known = { needsOf: sharesAnything(plan) ? remember(plan) : undefined }));
  return known.needsOf;
};

const isShared = ({ globalLimits, budgets }: CompiledRule): boolean =>
  globalLimits.length > 0 || budgets.length > 0;

const sharesAnything = (plan: ProjectPlan): boolean =>
  plan.rules.all.some(isShared) ||
  limitedKeysOf(plan, [everything(plan)]).length > 0 ||
  placesOf(plan, plan.quests.byKey.values()).length > 0;

/** Returns the counters of the players who may start quests. */
const placesOf = ({ projectId }: ProjectPlan, quests: Iterable<CompiledQuest>): SharedKey[] =>
  [...quests].flatMap((quest) => placesKey(projectId, quest) ?? []);

const remember = (plan: ProjectPlan): NeedsOf => {
  const byType = new Map<string, Needs>();
  return function* (eventType) {
    const known = byType.get(eventType);
    if (known) return known;
    const needs = yield* workOut(plan, eventType);
    if (byType.size >= TYPES_REMEMBERED_MAX) byType.delete(byType.keys().next().value!);
    byType.set(eventType, needs);
    return needs;
  };
};

/** Returns a bundle with one of everything that can be granted. */
const everything = ({ badges, rewards }: ProjectPlan): RewardBundle => ({
  xp: 1,
  badges: [...badges.keys()].map((badgeKey) => ({ badgeKey })),
  rewards: [...rewards.keys()].map((rewardKey) => ({ rewardKey })),
});

function* workOut(plan: ProjectPlan, eventType: string): Steps<Needs> {
  // A sent action may be of an earlier version of a rule.
  if (SPAWNED_TYPES.has(eventType))
    return {
      keys: [...limitedKeysOf(plan, [everything(plan)]), ...placesOf(plan, plan.quests.byKey.values())],
      rules: plan.rules.all.filter(isShared),
    };
  const reached = yield* reach(plan, eventType);
  const rules = [...reached.rules].filter(isShared);
  const asked = askedQuests(plan, reached);
  yield;
  const places = placesOf(plan, [...reached.quests, ...asked]);
  return { keys: [...limitedKeysOf(plan, reached.bundles), ...places], rules };
}

/** Returns the quests that conditions of segments, quests and these rules ask about. */
const askedQuests = (
  { quests, segments }: ProjectPlan,
  { rules }: Pick<Reached, "rules">,
): CompiledQuest[] => {
  const names = [
    ...[...segments.values()].flatMap(({ inputs }) => inputs.names),
    ...[...quests.byKey.values()].flatMap(({ key, inputs }) =>
      inputs.filter((name) => name !== `quest:${key}`),
    ),
    ...[...rules].flatMap(({ definition: { conditions } }) => inputsOf(conditions).names),
  ];
  return [...new Set(names)].flatMap((name) =>
    name.startsWith(QUEST_INPUT) ? (quests.byKey.get(name.slice(QUEST_INPUT.length)) ?? []) : [],
  );
};

const QUEST_INPUT = "quest:";

/** Everything that evaluation may reach; grows while it is iterated. */
type Reached = {
  types: Set<string>;
  rules: Set<CompiledRule>;
  quests: Set<CompiledQuest>;
  bundles: RewardBundle[];
};

/** Passes on what adventures may give. */
function* giveOfAdventures(
  adventures: readonly CompiledAdventure[],
  give: (bundle: RewardBundle) => void,
): Steps<void> {
  for (const adventure of adventures) {
    const bundles = bundlesOf(adventure);
    yield;
    bundles.forEach(give);
  }
}

type ByQuests = { reached: Reached; quests: readonly CompiledQuest[]; give: (bundle: RewardBundle) => void };

/** A start may take a currency: that is told as a gain of it is. */
const COST: RewardBundle = { currencies: {} };

/** Passes on what quests and their steps may give, also by versions that players still do. */
function* giveOfQuests(
  { adventures }: { adventures: AdventureIndex },
  { reached, quests, give }: ByQuests,
): Steps<void> {
  for (const quest of quests) {
    reached.quests.add(quest);
    if (quest.definition.start.cost) give(COST);
    yield* giveOfAdventures(adventures.ofQuest(quest.key), give);
    for (const { definition } of [quest, ...quest.earlier.values()]) {
      yield;
      for (const { rewards } of [definition, ...definition.steps]) if (rewards) give(rewards);
    }
  }
}

type ByRule = { reached: Reached; rule: CompiledRule; give: (bundle: RewardBundle) => void };

/** Adds what the actions of a rule may cause and grant. */
function* reachByRule(plan: ProjectPlan, { reached, rule, give }: ByRule): Steps<void> {
  yield;
  for (const action of rule.definition.actions) {
    const { types, bundles, quests = [], adventures = [] } = outcomesOf(action);
    addTypes(plan, reached, types);
    bundles.forEach(give);
    const named = quests.flatMap((key) => plan.quests.byKey.get(key) ?? []);
    yield* giveOfQuests(plan, { reached, quests: named, give });
    const joined = adventures.flatMap((key) => plan.adventures.byKey.get(key) ?? []);
    yield* giveOfAdventures(joined, give);
  }
}

function* reach(plan: ProjectPlan, eventType: string): Steps<Reached> {
  // Any change by REST may include XP; its other grants are named by the caller.
  const given: RewardBundle[] = eventType === "system.change" ? [{ xp: 1 }] : [];
  const reached: Reached = {
    types: new Set(firstTypes(eventType)),
    rules: new Set(),
    quests: new Set(),
    bundles: given,
  };
  const levelsGive = [...plan.levels.values()].some(({ rewards }) => Object.keys(rewards).length > 0);
  const give = (bundle: RewardBundle): void => {
    reached.bundles.push(bundle);
    addTypes(plan, reached, typesOfBundle(bundle, levelsGive));
  };
  // A state may change with any event.
  const stateful = plan.quests.stateful.map(({ quest }) => quest);
  yield* giveOfQuests(plan, { reached, quests: stateful, give });
  // A growing set is iterated to its new end.
  for (const type of reached.types) {
    addTypes(plan, reached, ALWAYS);
    for (const { definition } of badgesFollowing(plan, type)) {
      yield;
      give({ badges: [{ badgeKey: definition.key }] });
    }
    yield;
    for (const streak of plan.streaks.values()) {
      if (streak.listensTo(type)) for (const { rewards } of streak.definition.milestones) give(rewards);
    }
    yield* giveOfQuests(plan, { reached, quests: plan.quests.forEvent(type), give });
    yield* giveOfAdventures(plan.adventures.forEvent(type), give);
    for (const rule of rulesOf(plan, type)) {
      if (reached.rules.has(rule)) continue;
      reached.rules.add(rule);
      yield* reachByRule(plan, { reached, rule, give });
    }
  }
  return reached;
}

/** An event may create its player; a change by REST may be of any kind. */
const firstTypes = (eventType: string): Iterable<string> =>
  eventType === "system.change" ? DERIVED_EVENT_TYPES : [eventType, "player.created"];

const rulesOf = ({ rules }: ProjectPlan, type: string): readonly CompiledRule[] =>
  type === "system.schedule"
    ? rules.all.filter(({ definition }) => definition.triggers.some(({ kind }) => kind === "SCHEDULE"))
    : rules.listeners(type);

const addTypes = (plan: ProjectPlan, { types }: Reached, added: Iterable<string>): void => {
  for (const type of added) if (!types.has(type) && plan.hasListeners(type)) types.add(type);
};

const XP = ["player.xp_granted", "player.level_up", "player.updated", "player.boost_ended"];

/** Possible effects of any event by itself: segments change, streaks end, boosts expire. */
const ALWAYS = [...DERIVED_EVENT_TYPES].filter((type) =>
  /^(player\.(segment|streak|boost)_|quest\.|adventure\.)/.test(type),
);

/**
 * XP alone only publishes events of XP, unless levels grant something. Anything else may publish any event.
 */
const typesOfBundle = (bundle: RewardBundle, levelsGive: boolean): Iterable<string> => {
  const parts = Object.keys(bundle);
  if (parts.length === 0) return [];
  return parts.length === 1 && parts[0] === "xp" && !levelsGive ? XP : DERIVED_EVENT_TYPES;
};
