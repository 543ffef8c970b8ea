import { z } from "zod";
import type { Cause } from "../../kernel/events/events.ts";
import { Key } from "../language/syntax.ts";

const amount = z.int().min(1).max(Number.MAX_SAFE_INTEGER);

/** What one boost of a bundle lasts at most, also when a reward is given several times, in seconds. */
export const BUNDLE_BOOST_SECONDS_MAX = 2_592_000;
/** Currencies or streaks that one bundle names. */
const NAMES_MAX = 20;

const byKey = <S extends z.ZodType>(value: S) =>
  z
    .record(Key, value)
    .refine((given) => Object.keys(given).length <= NAMES_MAX, `must name at most ${NAMES_MAX}`);

/** Things given together: by levels, badges, streaks, the catalogue and by hand. */
export const RewardBundle = z
  .strictObject({
    xp: amount.optional(),
    currencies: byKey(amount).optional(),
    lives: z.union([z.int().min(1).max(1_000_000), z.literal("FULL")]).optional(),
    badges: z
      .array(z.strictObject({ badgeKey: Key, tier: z.int().min(1).max(20).optional() }))
      .max(20)
      .optional(),
    boosts: z
      .array(
        z.strictObject({
          boostKey: Key,
          applies: z.string().regex(/^(xp|currency:[a-z0-9_-]{1,64}|score:[a-z0-9_-]{1,64})$/),
          factor: z.number().gt(0).max(100),
          durationSeconds: z.int().min(60).max(BUNDLE_BOOST_SECONDS_MAX),
          uses: z.int().min(1).max(10_000).optional(),
        }),
      )
      .max(10)
      .optional(),
    streakFreezes: byKey(z.int().min(1).max(100)).optional(),
    rewards: z
      .array(z.strictObject({ rewardKey: Key, quantity: z.int().min(1).max(100).optional() }))
      .max(20)
      .optional(),
    addTags: z.array(Key).max(20).optional(),
  })
  .meta({ id: "RewardBundle" });
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

/** Whether a bundle gives nothing. */
export const isEmptyBundle = (bundle: RewardBundle): boolean => Object.values(bundle).every(isEmpty);

/** Pieces of a reward that one grant may be of. */
export const QUANTITY_MAX = 1_000_000;
/** Times that one badge of a bundle is awarded when the bundle is given several times. */
const BADGE_TIMES_MAX = 100;

const product = (a: number, b: number, max = Number.MAX_SAFE_INTEGER): number => Math.min(max, a * b);

const eachTimes = (
  amounts: Readonly<Record<string, number>> | undefined,
  times: number,
): Record<string, number> | undefined =>
  amounts && Object.fromEntries(Object.entries(amounts).map(([key, one]) => [key, product(one, times)]));

/**
 * The bundle that is worth `times` of this one: amounts and durations times that, each cut off where a bundle
 * ends; a badge is named as many times, of which one that is not repeatable counts once.
 */
export const multiplyBundle = (bundle: RewardBundle, times: number): RewardBundle => {
  if (times === 1) return bundle;
  const { xp, lives } = bundle;
  const parts = {
    ...bundle,
    xp: xp && product(xp, times),
    currencies: eachTimes(bundle.currencies, times),
    lives: typeof lives === "number" ? product(lives, times) : lives,
    badges: bundle.badges?.flatMap((badge) =>
      Array.from({ length: Math.min(BADGE_TIMES_MAX, times) }, () => badge),
    ),
    boosts: bundle.boosts?.map(({ durationSeconds, uses, ...boost }) => ({
      ...boost,
      durationSeconds: product(durationSeconds, times, BUNDLE_BOOST_SECONDS_MAX),
      ...(uses === undefined ? {} : { uses: product(uses, times) }),
    })),
    streakFreezes: eachTimes(bundle.streakFreezes, times),
    rewards: bundle.rewards?.map(({ rewardKey, quantity = 1 }) => ({
      rewardKey,
      quantity: product(quantity, times, QUANTITY_MAX),
    })),
  };
  return Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined));
};
