import type { CompiledDefinitions } from "../compiled-definitions.ts";
import type { SharedKey } from "../shared-counters.ts";
import type { NamedKind } from "../language/mention.ts";
import { namesOfBundle, type RewardBundle } from "./bundle.ts";

/** Kinds that may be limited across players: awards of a badge, pieces of a reward, places in a quest. */
export type LimitedKind = "badge" | "reward" | "quest";

/** Returns the shared counter of a limited badge, reward or quest. */
export const limitedKey = (projectId: string, kind: LimitedKind, key: string): SharedKey => ({
  projectId,
  scope: `${kind}:${key}`,
  windowNo: 0,
});

type Part = Pick<
  CompiledDefinitions,
  "projectId" | "badges" | "rewards" | "adventures" | "hasLimited" | "levels"
>;

/** The bundles granted by a badge, reward or level, and its counter if it is limited. */
type Given = { bundles: readonly RewardBundle[]; counter?: SharedKey };

const badgeOf = ({ projectId, badges }: Part, key: string): Given => {
  const badge = badges.get(key)?.definition;
  if (!badge) return { bundles: [] };
  const bundles = badge.tiers.map(({ rewards }) => rewards);
  return badge.maxAwards === undefined
    ? { bundles }
    : { bundles, counter: limitedKey(projectId, "badge", key) };
};

const rewardOf = ({ projectId, rewards }: Part, key: string): Given => {
  const reward = rewards.get(key)?.definition;
  if (!reward) return { bundles: [] };
  const bundles = reward.bundle ? [reward.bundle] : [];
  return reward.stock === undefined
    ? { bundles }
    : { bundles, counter: limitedKey(projectId, "reward", key) };
};

/** Premium opens tiers that are reached. */
const adventureOf = ({ adventures }: Part, key: string): Given => ({
  bundles: (adventures.byKey.get(key)?.definition.tiers ?? []).flatMap(({ premium }) => premium ?? []),
});

const levelsOf = ({ levels }: Part): Given => ({
  bundles: [...levels.values()].map(({ rewards }) => rewards),
});

const GIVERS: Partial<Record<NamedKind, (plan: Part, key: string) => Given>> = {
  badge: badgeOf,
  reward: rewardOf,
  adventure: adventureOf,
};

/** Returns what a bundle may grant, by name. XP may reach any level. */
const givenBy = (plan: Part, bundle: RewardBundle): [string, () => Given][] => [
  ...namesOfBundle(bundle).flatMap(({ kind, key }): [string, () => Given][] => {
    const giver = GIVERS[kind];
    return giver ? [[`${kind}:${key}`, () => giver(plan, key)]] : [];
  }),
  ...(bundle.xp === undefined ? [] : [["levels", () => levelsOf(plan)] as [string, () => Given]]),
];

/** Returns whether any of them is limited across all players. */
export const hasLimited = ({ badges, rewards }: Pick<CompiledDefinitions, "badges" | "rewards">): boolean =>
  [...badges.values()].some(({ definition }) => definition.maxAwards !== undefined) ||
  [...rewards.values()].some(({ definition }) => definition.stock !== undefined);

/**
 * Returns the shared counters that granting bundles may use, including nested grants: rewards of badge tiers,
 * of the catalogue and of levels. Grants by rules triggered by it are not included. A single badge or reward
 * is a bundle with nothing else in it, and a change of XP is `{ xp: 1 }`.
 */
export const limitedKeysOf = (plan: Part, bundles: readonly RewardBundle[]): SharedKey[] => {
  if (!plan.hasLimited) return [];
  const keys: SharedKey[] = [];
  const seen = new Set<string>();
  const open = [...bundles];
  // The list grows while it is iterated.
  for (const bundle of open) {
    for (const [name, given] of givenBy(plan, bundle)) {
      if (seen.has(name)) continue;
      seen.add(name);
      const { bundles: more, counter } = given();
      open.push(...more);
      if (counter) keys.push(counter);
    }
  }
  return keys;
};
