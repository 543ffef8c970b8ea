import { z } from "zod";
import { TIERS_MAX } from "../../kernel/limits.ts";
import { BOOST_SECONDS_MAX, boostFields } from "../boosts/campaign-boost.ts";
import { about, CAUSES } from "../causes.ts";
import { Key, type NamedKind } from "../language/syntax.ts";

/** A definition that a part of a bundle names; `at` leads to the name from the part, such as `0.badgeKey`. */
export type PartName = { kind: NamedKind; key: string; at: string; tier?: number | undefined };

/**
 * A part of a bundle of rewards: to add one, add it to `BUNDLE_PARTS`, and how it is granted to `give.ts`.
 */
export type BundlePart<S extends z.ZodType> = {
  schema: S;
  /** Multiplies `value`, capped at its maximum. */
  times(value: z.output<S>, times: number): z.output<S>;
  /** Sums `values` for display; there is at least one. */
  sum(values: readonly z.output<S>[]): z.output<S>;
  /** Returns the definitions that it names. */
  names(value: z.output<S>): PartName[];
  /** Returns the possible effects of granting it; see causes.ts. */
  causes(value: z.output<S>): readonly string[];
};

const bundlePart = <S extends z.ZodType>(part: BundlePart<S>): BundlePart<S> => part;

/** Returns `a * b`, at most `max`. */
const product = (a: number, b: number, max = Number.MAX_SAFE_INTEGER): number => Math.min(max, a * b);

const total = (amounts: readonly number[]): number =>
  Math.min(
    Number.MAX_SAFE_INTEGER,
    amounts.reduce((sum, amount) => sum + amount, 0),
  );

type Amounts = Record<string, number>;

/** Applies `product` to the amount of each key. */
const eachTimes = (amounts: Amounts, times: number): Amounts =>
  Object.fromEntries(Object.entries(amounts).map(([key, one]) => [key, product(one, times)]));

/** Applies `total` to the amounts of each key. */
const totals = (records: readonly Amounts[]): Amounts => {
  const keys = new Set(records.flatMap((record) => Object.keys(record)));
  const amountsOf = (key: string): number[] =>
    records.filter((record) => Object.hasOwn(record, key)).map((record) => record[key]!);
  return Object.fromEntries([...keys].map((key) => [key, total(amountsOf(key))]));
};

/** Returns a definition for each key of a record. */
const keysOf = (kind: NamedKind, amounts: Amounts): PartName[] =>
  Object.keys(amounts).map((key) => ({ kind, key, at: key }));

const addTags = bundlePart({
  schema: z.array(Key).max(20),
  // A tag cannot be added more than once.
  times: (tags) => tags,
  sum: (lists) => lists.flat(),
  names: () => [],
  causes: () => CAUSES.profile,
});

/** Maximum currencies or streaks that one bundle names. */
const NAMES_MAX = 20;

/** A whole amount, from 1. */
const Amount = z.int().min(1).max(Number.MAX_SAFE_INTEGER);

/** Amounts by key. */
const byKey = <S extends z.ZodType<number>>(value: S) =>
  z
    .record(Key, value)
    .refine((given) => Object.keys(given).length <= NAMES_MAX, `must name at most ${NAMES_MAX}`);

/** Maximum awards of one badge of a bundle when the bundle is granted several times. */
const TIMES_MAX = 100;

const badges = bundlePart({
  schema: z.array(z.strictObject({ badgeKey: Key, tier: z.int().min(1).max(TIERS_MAX).optional() })).max(20),
  // One that is not repeatable counts once.
  times: (list, times) =>
    list.flatMap((badge) => Array.from({ length: Math.min(TIMES_MAX, times) }, () => badge)),
  sum: (lists) => lists.flat(),
  names: (list) =>
    list.map(({ badgeKey: key, tier }, i) => ({ kind: "badge", key, tier, at: `${i}.badgeKey` })),
  causes: (list) => list.flatMap(({ badgeKey }) => about(CAUSES.badge, badgeKey)),
});

const boosts = bundlePart({
  schema: z.array(z.strictObject(boostFields)).max(10),
  times: (list, times) =>
    list.map(({ durationSeconds, uses, ...boost }) => ({
      ...boost,
      durationSeconds: product(durationSeconds, times, BOOST_SECONDS_MAX),
      ...(uses === undefined ? {} : { uses: product(uses, times) }),
    })),
  sum: (lists) => lists.flat(),
  names: (list) =>
    list.flatMap(({ applies }, i) => {
      const [what, key = ""] = applies.split(":", 2);
      return what === "currency" ? [{ kind: "currency" as const, key, at: `${i}.applies` }] : [];
    }),
  causes: (list) => list.flatMap(({ boostKey }) => about(CAUSES.boost, boostKey)),
});

/** Amounts by key of the currency. */
const currencies = bundlePart({
  schema: byKey(Amount),
  times: eachTimes,
  sum: totals,
  names: (amounts) => keysOf("currency", amounts),
  causes: (amounts) => Object.keys(amounts).flatMap((key) => about(CAUSES.gain, key)),
});

const lives = bundlePart({
  schema: z.union([z.int().min(1).max(1_000_000), z.literal("FULL")]),
  times: (amount, times) => (amount === "FULL" ? amount : product(amount, times)),
  sum: (amounts) => (amounts.includes("FULL") ? "FULL" : total(amounts.filter((one) => one !== "FULL"))),
  names: () => [],
  causes: () => CAUSES.lives,
});

/** Premium of an adventure: a player has it or not, so several are one. */
const premium = bundlePart({
  schema: z.strictObject({ adventureKey: Key }),
  times: (value) => value,
  sum: (values) => values[0]!,
  names: ({ adventureKey: key }) => [{ kind: "adventure", key, at: "adventureKey" }],
  causes: ({ adventureKey }) => about(CAUSES.adventure, adventureKey),
});

/** Maximum pieces of a reward in one grant. */
export const QUANTITY_MAX = 1_000_000;

/** Rewards of the catalogue. */
const rewards = bundlePart({
  schema: z.array(z.strictObject({ rewardKey: Key, quantity: z.int().min(1).max(100).optional() })).max(20),
  times: (list, times) =>
    list.map(({ rewardKey, quantity = 1 }) => ({
      rewardKey,
      quantity: product(quantity, times, QUANTITY_MAX),
    })),
  sum: (lists) => lists.flat(),
  names: (list) => list.map(({ rewardKey: key }, i) => ({ kind: "reward", key, at: `${i}.rewardKey` })),
  causes: (list) => list.flatMap(({ rewardKey }) => about(CAUSES.reward, rewardKey)),
});

/** Freezes by key of the streak. */
const streakFreezes = bundlePart({
  schema: byKey(z.int().min(1).max(100)),
  times: eachTimes,
  sum: totals,
  names: (amounts) => keysOf("streak", amounts),
  causes: () => [],
});

const xp = bundlePart({
  schema: Amount,
  times: (amount, times) => product(amount, times),
  sum: total,
  names: () => [],
  causes: () => CAUSES.xp,
});

/** All parts of a bundle, in the order in which they are granted. */
export const BUNDLE_PARTS = {
  xp,
  currencies,
  lives,
  badges,
  boosts,
  streakFreezes,
  rewards,
  addTags,
  premium,
};

export type PartOfBundle = keyof typeof BUNDLE_PARTS;
