import { loadDefinitions } from "../definitions/load.ts";
import { unknownReference } from "../definitions/references.ts";
import type { Stored } from "../definitions/kind.ts";
import { invalid } from "../errors.ts";
import type { Work } from "../work.ts";
import type { RewardBundle } from "./bundle.ts";
import { checkGiving, type Giver } from "./reward-graph.ts";

/** A bundle and the field that it stands in, such as `tiers.0.rewards`. */
export type BundleField = { bundle: RewardBundle; field: string };

/**
 * What gives bundles. A badge, a reward or a level can be given by others, so it must not give itself in
 * turn; `tiers`: how many a badge has.
 */
export type BundlesOf = {
  kind: "badge" | "reward" | "level" | "streak" | "grant";
  key: string;
  bundles: readonly BundleField[];
  tiers?: number;
};

type ByKind = ReadonlyMap<string, readonly Stored[]>;

/**
 * Refuses bundles that name what is not there, that give themselves through others, or that give too much at
 * once. One statement, none for bundles that name nothing.
 * @throws DomainError VALIDATION_ERROR naming the field
 */
export const checkBundles = async (work: Work, projectId: string, given: BundlesOf): Promise<void> => {
  const named = given.bundles.filter(({ bundle }) => namesOf({ bundle, field: "" }).length > 0);
  // Without names nothing can turn in a ring; but a badge or reward that others give may now give XP.
  if (named.length === 0 && !given.bundles.some(({ bundle }) => bundle.xp !== undefined)) return;
  const definitions = await loadDefinitions(work, projectId);
  for (const one of given.bundles) checkNames(definitions, one, given);
  checkGiving(giversOf(definitions), given);
};

type Name = { field: string; kind: string; key: string; tier?: number | undefined };

const boostName = (applies: string, field: string): Name[] => {
  const [what, key] = applies.split(":", 2) as [string, string?];
  return what === "currency" ? [{ field, kind: "currency", key: key! }] : [];
};

const namesOf = ({ bundle, field }: BundleField): Name[] => [
  ...Object.keys(bundle.currencies ?? {}).map((key) => ({
    field: `${field}.currencies.${key}`,
    kind: "currency",
    key,
  })),
  ...(bundle.badges ?? []).map(({ badgeKey: key, tier }, i) => ({
    field: `${field}.badges.${i}.badgeKey`,
    kind: "badge",
    key,
    tier,
  })),
  ...Object.keys(bundle.streakFreezes ?? {}).map((key) => ({
    field: `${field}.streakFreezes.${key}`,
    kind: "streak",
    key,
  })),
  ...(bundle.rewards ?? []).map(({ rewardKey: key }, i) => ({
    field: `${field}.rewards.${i}.rewardKey`,
    kind: "reward",
    key,
  })),
  ...(bundle.boosts ?? []).flatMap(({ applies }, i) => boostName(applies, `${field}.boosts.${i}.applies`)),
];

const checkNames = (definitions: ByKind, one: BundleField, given: BundlesOf): void => {
  for (const name of namesOf(one)) {
    const isOwn = name.kind === given.kind && name.key === given.key;
    const found = definitions.get(name.kind)?.find(({ definition }) => definition.key === name.key);
    if (!found && !isOwn) throw unknownReference(name);
    const tiers = isOwn ? given.tiers : (found!.definition as { tiers?: unknown[] }).tiers?.length;
    checkTier(name, tiers ?? Infinity);
  }
};

const checkTier = ({ field, key, tier = 1 }: Name, tiers: number): void => {
  if (tier > tiers) throw invalid(field.replace(/badgeKey$/, "tier"), `the badge ${key} has ${tiers} tiers`);
};

const giverOf = (kind: Giver["kind"], key: string, bundles: (RewardBundle | undefined)[]): Giver => ({
  kind,
  key,
  bundles: bundles.filter((bundle) => bundle !== undefined),
});

/** Everything in a project that gives bundles. */
const giversOf = (definitions: ByKind): Giver[] => {
  const all = <D>(kind: string): D[] =>
    (definitions.get(kind) ?? []).map(({ definition }) => definition as unknown as D);
  type Keyed<T> = { key: string } & T;
  return [
    ...all<Keyed<{ bundle?: RewardBundle }>>("reward").map(({ key, bundle }) =>
      giverOf("reward", key, [bundle]),
    ),
    ...all<Keyed<{ tiers: { rewards: RewardBundle }[] }>>("badge").map(({ key, tiers }) =>
      giverOf(
        "badge",
        key,
        tiers.map(({ rewards }) => rewards),
      ),
    ),
    ...all<Keyed<{ rewards: RewardBundle }>>("level").map(({ key, rewards }) =>
      giverOf("level", key, [rewards]),
    ),
    ...all<Keyed<{ milestones?: { rewards: RewardBundle }[] }>>("streak").map(({ key, milestones = [] }) =>
      giverOf(
        "streak",
        key,
        milestones.map(({ rewards }) => rewards),
      ),
    ),
  ];
};
