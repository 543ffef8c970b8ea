import { z } from "zod";
import type { Cause } from "../events.ts";
import type { Turn } from "../progression/turn.ts";
import { Key } from "../rules/syntax.ts";

const amount = z.int().min(1).max(Number.MAX_SAFE_INTEGER);

/** Things given together: by levels, badges, streaks, the catalogue and by hand. */
export const RewardBundle = z
  .strictObject({
    xp: amount.optional(),
    currencies: z.record(Key, amount).optional(),
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
          durationSeconds: z.int().min(60).max(2_592_000),
          uses: z.int().min(1).max(10_000).optional(),
        }),
      )
      .max(10)
      .optional(),
    streakFreezes: z.record(Key, z.int().min(1).max(100)).optional(),
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

/** Gives everything in a bundle. What cannot be given (an archived currency, a full balance) leaves a warning. */
export const grantBundle = (_turn: Turn, _grant: BundleGrant): void => {
  throw new Error("not built");
};
