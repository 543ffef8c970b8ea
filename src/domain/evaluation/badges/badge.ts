import { TIERS_MAX } from "../../kernel/limits.ts";
import { z } from "zod";
import { isEmptySpan, IsoTime, msOf } from "../../kernel/iso-time.ts";
import { Metric } from "../metrics/compile.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { Description, IconUrl, Key, Name } from "../language/syntax.ts";
import { refuserOf } from "../language/trees.ts";

export const RARITIES = ["COMMON", "UNCOMMON", "RARE", "EPIC", "LEGENDARY"] as const;
/** Maximum awards of a limited edition. */
const AWARDS_MAX = 1_000_000_000;
/** Maximum progress, in either direction. */
export const PROGRESS_MAX = 9_000_000_000_000_000;

const Tier = z.strictObject({
  tier: z.int().min(1).max(TIERS_MAX).meta({ description: "1 for the first, and so on without a gap" }),
  name: Name.optional(),
  threshold: z
    .number()
    .gt(0)
    .max(PROGRESS_MAX)
    .optional()
    .meta({ description: "Progress that reaches the tier; without it, it is only awarded" }),
  iconUrl: IconUrl.optional(),
  rewards: RewardBundle.default({}),
});
export type Tier = z.output<typeof Tier>;

export const badgeShape = z.strictObject({
  key: Key,
  name: Name,
  description: Description.optional(),
  iconUrl: IconUrl.optional(),
  category: z.string().min(1).max(64).optional(),
  rarity: z.enum(RARITIES).default("COMMON"),
  points: z.int().min(0).max(1_000_000).default(0),
  secret: z
    .boolean()
    .default(false)
    .meta({ description: "Hint for clients to hide the badge from players who do not hold it" }),
  tiers: z
    .array(Tier)
    .min(1)
    .max(TIERS_MAX)
    .default([{ tier: 1, rewards: {} }]),
  progressMetric: Metric.optional().meta({
    description: "Progress follows this counter of the player's events",
  }),
  repeatable: z
    .boolean()
    .default(false)
    .meta({ description: "May be awarded again; progress awards it at each multiple of the last threshold" }),
  maxAwards: z.int().min(1).max(AWARDS_MAX).optional().meta({
    description: "Limited edition: maximum awards across all players, each with a serial number",
  }),
  availableFrom: IsoTime.optional(),
  availableUntil: IsoTime.optional(),
});
type BadgeShape = z.output<typeof badgeShape>;

/** Zod check of constraints between fields. */
const checkBadge = (badge: BadgeShape, context: z.RefinementCtx): void => {
  const refuse = refuserOf(context);
  let highest = 0;
  badge.tiers.forEach(({ tier, threshold }, i) => {
    if (tier !== i + 1) refuse(["tiers", i, "tier"], `must be ${i + 1}`);
    if (threshold === undefined && badge.progressMetric)
      refuse(["tiers", i, "threshold"], "is needed where progress follows a metric");
    if (threshold !== undefined && threshold <= highest)
      refuse(["tiers", i, "threshold"], `must be above ${highest}`);
    highest = Math.max(highest, threshold ?? 0);
  });
  if (isEmptySpan(badge.availableFrom, badge.availableUntil))
    refuse(["availableUntil"], "must be after availableFrom");
};

/** A badge of a project. */
export const Badge = badgeShape.superRefine(checkBadge);
export type Badge = z.output<typeof Badge>;

/** A badge compiled for evaluation. */
export type CompiledBadge = {
  id: string;
  definition: Badge;
  metrics: readonly Metric[];
  /** Available in [fromMs, untilMs). */
  fromMs: number;
  untilMs: number;
};

export const compileBadge = ({ id, definition }: { id: string; definition: Badge }): CompiledBadge => {
  const { progressMetric, availableFrom, availableUntil } = definition;
  return {
    id,
    definition,
    metrics: progressMetric ? [progressMetric] : [],
    fromMs: msOf(availableFrom, -Infinity),
    untilMs: msOf(availableUntil, Infinity),
  };
};
