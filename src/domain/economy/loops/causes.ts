import { isJsonObject } from "../../kernel/json.ts";
import type { Stored } from "../../evaluation/live.ts";
import type { Json } from "../../kernel/events/events.ts";
import { kindOf } from "../../evaluation/actions/action-kinds.ts";
import {
  about,
  ANY_KEY,
  CAUSES,
  LEVEL_UP,
  LOOP_ROLES,
  type LoopRole,
  partsOf,
  SCORE,
  XP_LOSS,
} from "../../evaluation/causes.ts";
import { causesOfBundle, type RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { inputsOf } from "../../evaluation/segments/membership.ts";
import { HOLDINGS } from "../../evaluation/player-state.ts";
import { patternsOf } from "../../evaluation/language/patterns.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";

/** A project's active definitions by kind. */
type Definitions = ReadonlyMap<string, readonly Stored[]>;

/** Names of the fields that have bundles: `free` and `premium` are those of an adventure's tiers. */
const BUNDLES: ReadonlySet<string> = new Set(["rewards", "bundle", "free", "premium"]);

/** Returns the bundles of a definition, wherever they are nested. */
const bundlesIn = (value: unknown): RewardBundle[] => {
  if (Array.isArray(value)) return value.flatMap(bundlesIn);
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    BUNDLES.has(name) && isJsonObject(inner) ? [inner as RewardBundle] : bundlesIn(inner),
  );
};

/** Returns the patterns of the events that something counts, such as a badge through its metric. */
const patternsIn = (value: unknown): string[] => {
  if (Array.isArray(value)) return value.flatMap(patternsIn);
  if (!isJsonObject(value)) return [];
  const own = Array.isArray(value["eventTypes"]) ? (value["eventTypes"] as string[]) : [];
  return [...own, ...Object.values(value).flatMap(patternsIn)];
};

/** The player's inputs that events of a type change, as named in segments; `*` ends a prefix. */
const CHANGES: Readonly<Record<string, readonly string[]>> = {
  [SCORE]: ["entries"],
  [XP_LOSS]: ["field:xp", "field:level", "entries"],
  "player.xp_granted": ["field:xp", "entries"],
  "player.level_up": ["field:level", "entries"],
  "player.lives_changed": ["field:lives"],
  "player.updated": ["field:attributes.*", "field:tags"],
};
/** The same for types about one thing, by prefix: the thing's key is appended. */
const KEYED_CHANGES: readonly (readonly [type: string, input: string])[] = Object.values(HOLDINGS).flatMap(
  ({ changedBy }) => Object.entries(changedBy),
);

const inputsChangedBy = (type: string, key = ANY_KEY): readonly string[] => {
  const keyed = KEYED_CHANGES.find(([start]) => type.startsWith(start));
  // Boards of currencies, badges and streaks change with them.
  return keyed ? [`${keyed[1]}${key}`, "entries"] : (CHANGES[type] ?? []);
};

const matches = (name: string, changed: string): boolean =>
  changed.endsWith(ANY_KEY) ? name.startsWith(changed.slice(0, -1)) : name === changed;

/** A part of a project that acts by itself on events of its patterns, or when an input changes. */
type Follower = { patterns: ReadonlySet<string>; inputs: readonly string[]; causes: readonly string[] };

/** Returns the conditions that a definition follows: those of a segment, or of a quest and its steps. */
const conditionsOf = (definition: Json): Json[] => {
  const steps = Array.isArray(definition["steps"]) ? (definition["steps"] as Json[]) : [];
  const all = [
    definition["definition"],
    definition["prerequisites"],
    ...steps.map((step) => step["condition"]),
  ];
  return all.filter(isJsonObject);
};

const follower = (types: readonly string[], { definition }: Stored): Follower => {
  // An adventure follows its quests.
  const quests = Array.isArray((definition as Json)["items"]) ? CAUSES.quest : [];
  return {
    patterns: new Set([...patternsIn(definition), ...quests]),
    inputs: conditionsOf(definition as Json).flatMap((conditions) => inputsOf(conditions).names),
    causes: about(types, definition.key),
  };
};

/** Kinds of definitions whose changes may open or close a loop. */
export const LOOP_KINDS: readonly string[] = Object.entries(LOOP_ROLES).flatMap(
  ([kind, { follows, gives }]) => (follows.length + gives.length > 0 ? [kind] : []),
);

/** Returns the event types that a rule's actions directly cause, including SCORE. */
export const directCauses = ({ actions }: RuleDocument): string[] => [
  ...new Set(actions.flatMap((action) => kindOf(action.type)?.causes(action) ?? [])),
];

/** Returns what the entry cost of a quest causes. */
const costOf = ({ start }: Json): string[] => {
  const cost = isJsonObject(start) ? start["cost"] : undefined;
  return isJsonObject(cost) ? about(CAUSES.loss, cost["currencyKey"]) : [];
};

/** Creates a function that maps the direct causes of any rule of a project to everything it can cause. */
export const createCauses = (definitions: Definitions): ((direct: readonly string[]) => Set<string>) => {
  const all = (kind: string): readonly Stored[] => definitions.get(kind) ?? [];
  const roles: [kind: string, LoopRole][] = Object.entries(LOOP_ROLES);
  const followers = roles.flatMap(([kind, { follows }]) =>
    follows.length === 0 ? [] : all(kind).map((stored) => follower(follows, stored)),
  );
  const given = new Map<string, string[]>();
  for (const [kind, { gives }] of roles)
    for (const { definition } of all(kind)) {
      const causes = bundlesIn(definition).flatMap(causesOfBundle);
      for (const type of gives) {
        // Levels have no key in their event.
        const cause = type === LEVEL_UP ? type : `${type} ${definition.key}`;
        given.set(cause, [...(given.get(cause) ?? []), ...causes]);
      }
    }
  for (const { definition } of all("quest")) {
    const [started, cost] = [`quest.started ${definition.key}`, costOf(definition)];
    given.set(started, [...(given.get(started) ?? []), ...cost]);
  }
  const known = new Map<string, readonly string[]>();
  const next = (cause: string): readonly string[] => {
    const found = known.get(cause) ?? follow(cause);
    known.set(cause, found);
    return found;
  };
  const follow = (cause: string): readonly string[] => {
    const { type, key } = partsOf(cause);
    const [patterns, changed] = [patternsOf(type), inputsChangedBy(type, key)];
    const followed = followers.filter(
      ({ patterns: own, inputs }) =>
        patterns.some((one) => own.has(one)) || inputs.some((name) => changed.some((c) => matches(name, c))),
    );
    return [...(given.get(cause) ?? []), ...followed.flatMap(({ causes }) => causes)];
  };
  return (direct) => {
    const found = new Set<string>();
    const waiting = [...direct];
    for (let cause = waiting.pop(); cause !== undefined; cause = waiting.pop()) {
      if (found.has(cause)) continue;
      found.add(cause);
      waiting.push(...next(cause));
    }
    found.delete(SCORE);
    found.delete(XP_LOSS);
    return found;
  };
};
