import { z } from "zod";
import type { Cause } from "../../kernel/events/events.ts";
import type { BundlePart, PartName } from "./parts/part.ts";
import { BUNDLE_PARTS, type PartOfBundle } from "./parts/parts.ts";

const optional = {
  xp: BUNDLE_PARTS.xp.schema.optional(),
  currencies: BUNDLE_PARTS.currencies.schema.optional(),
  lives: BUNDLE_PARTS.lives.schema.optional(),
  badges: BUNDLE_PARTS.badges.schema.optional(),
  boosts: BUNDLE_PARTS.boosts.schema.optional(),
  streakFreezes: BUNDLE_PARTS.streakFreezes.schema.optional(),
  rewards: BUNDLE_PARTS.rewards.schema.optional(),
  addTags: BUNDLE_PARTS.addTags.schema.optional(),
  premium: BUNDLE_PARTS.premium.schema.optional(),
} satisfies Record<PartOfBundle, z.ZodOptional>;

/** Items granted together: by levels, badges, streaks, the catalogue and manually. */
export const RewardBundle = z.strictObject(optional).meta({ id: "RewardBundle" });
export type RewardBundle = z.output<typeof RewardBundle>;

export type BundleGrant = {
  bundle: RewardBundle;
  cause: Cause;
  /** Deterministic; each part appends its own name: `lvl:5` becomes `lvl:5:xp`. */
  key: string;
  reason: string;
};

const isEmpty = (part: unknown): boolean =>
  part === undefined ||
  (Array.isArray(part) ? part.length === 0 : typeof part === "object" && Object.keys(part!).length === 0);

/** Returns whether a bundle grants nothing. */
export const isEmptyBundle = (bundle: RewardBundle): boolean => Object.values(bundle).every(isEmpty);

type AnyPart = BundlePart<z.ZodType>;

const PARTS = Object.entries(BUNDLE_PARTS) as unknown as readonly (readonly [PartOfBundle, AnyPart])[];

/** Returns the parts that a bundle has. */
const partsOf = (bundle: RewardBundle): { name: PartOfBundle; part: AnyPart; value: unknown }[] =>
  PARTS.filter(([name]) => bundle[name] !== undefined).map(([name, part]) => ({
    name,
    part,
    value: bundle[name],
  }));

/** Multiplies a bundle, each part capped at its maximum. */
export const multiplyBundle = (bundle: RewardBundle, times: number): RewardBundle =>
  times === 1
    ? bundle
    : Object.fromEntries(partsOf(bundle).map(({ name, part, value }) => [name, part.times(value, times)]));

/** Sums bundles for display; null for nothing. */
export const sumBundles = (bundles: readonly RewardBundle[]): RewardBundle | null => {
  const given = PARTS.flatMap(([name, part]) => {
    const values = bundles.map((bundle) => bundle[name]).filter((value) => !isEmpty(value));
    return values.length === 0 ? [] : [[name, part.sum(values)]];
  });
  return given.length === 0 ? null : Object.fromEntries(given);
};

/**
 * Returns the definitions that a bundle names, each with its path from the bundle, such as
 * `badges.0.badgeKey`.
 */
export const namesOfBundle = (bundle: RewardBundle): PartName[] =>
  partsOf(bundle).flatMap(({ name, part, value }) =>
    part.names(value).map((named) => ({ ...named, at: `${name}.${named.at}` })),
  );

/** Returns the possible effects of granting a bundle; see causes.ts. */
export const causesOfBundle = (bundle: RewardBundle): string[] =>
  partsOf(bundle).flatMap(({ part, value }) => [...part.causes(value)]);
