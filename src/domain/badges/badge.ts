import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import { invalid } from "../errors.ts";
import { Metric } from "../metrics/metric.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { checkBundles } from "../rewards/references.ts";
import { startCounting } from "../rewards/shared-keys.ts";
import { Key } from "../rules/language/syntax.ts";

export const TIERS_MAX = 20;
export const RARITIES = ["COMMON", "UNCOMMON", "RARE", "EPIC", "LEGENDARY"] as const;
/** Awards of a limited edition. */
const AWARDS_MAX = 1_000_000_000;
/** Progress never passes this, in either direction of its counting. */
export const PROGRESS_MAX = 9_000_000_000_000_000;

const IconUrl = z.url({ protocol: /^https$/ }).max(2_048);

const Tier = z.strictObject({
  tier: z.int().min(1).max(TIERS_MAX).meta({ description: "1 for the first, and so on without a gap" }),
  name: z.string().min(1).max(100).optional(),
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

const shape = z.strictObject({
  key: Key,
  name: z.string().min(1).max(100),
  description: z.string().max(2_000).optional(),
  iconUrl: IconUrl.optional(),
  category: z.string().min(1).max(64).optional(),
  rarity: z.enum(RARITIES).default("COMMON"),
  points: z.int().min(0).max(1_000_000).default(0),
  secret: z
    .boolean()
    .default(false)
    .meta({ description: "For clients: to be hidden from players who do not hold it" }),
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
    description: "A limited edition: this many awards among all players, each with a serial number",
  }),
  availableFrom: z.iso.datetime({ offset: true }).optional(),
  availableUntil: z.iso.datetime({ offset: true }).optional(),
});
type BadgeShape = z.output<typeof shape>;

type Fault = { path: (string | number)[]; message: string };

const tierFaults = ({ tiers, progressMetric }: BadgeShape): Fault[] => {
  const faults: Fault[] = [];
  let highest = 0;
  tiers.forEach(({ tier, threshold }, i) => {
    if (tier !== i + 1) faults.push({ path: ["tiers", i, "tier"], message: `must be ${i + 1}` });
    if (threshold === undefined && progressMetric)
      faults.push({ path: ["tiers", i, "threshold"], message: "is needed where progress follows a metric" });
    if (threshold !== undefined && threshold <= highest)
      faults.push({ path: ["tiers", i, "threshold"], message: `must be above ${highest}` });
    highest = Math.max(highest, threshold ?? 0);
  });
  return faults;
};

const faultsOf = (badge: BadgeShape): Fault[] => {
  const { availableFrom: from, availableUntil: until } = badge;
  const isEmpty = from !== undefined && until !== undefined && Date.parse(until) <= Date.parse(from);
  return [
    ...tierFaults(badge),
    ...(isEmpty ? [{ path: ["availableUntil"], message: "must be after availableFrom" }] : []),
  ];
};

/** A badge of a project. */
export const Badge = shape.superRefine((badge, context) => {
  for (const fault of faultsOf(badge)) context.addIssue({ code: "custom", ...fault });
});
export type Badge = z.output<typeof Badge>;

/** A badge ready for evaluation. */
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
    fromMs: availableFrom === undefined ? -Infinity : Date.parse(availableFrom),
    untilMs: availableUntil === undefined ? Infinity : Date.parse(availableUntil),
  };
};

/**
 * Tiers can be added and thresholds changed: players keep the tiers they hold. A tier cannot be taken away,
 * since players may hold it.
 */
const checkChange = (badge: Badge, before: Badge): void => {
  if (badge.tiers.length < before.tiers.length)
    throw invalid("tiers", `there are ${before.tiers.length}, which players may hold; none can be removed`);
};

export const badgeKind = definitionKind<Badge>({
  kind: "badge",
  plural: "badges",
  tag: "Badges",
  schema: Badge,
  shape,
  max: 1_000,
  check: async (work, projectId, badge, before) => {
    if (before) checkChange(badge, before);
    const { key, tiers, maxAwards } = badge;
    const bundles = tiers.map(({ rewards }, i) => ({ bundle: rewards, field: `tiers.${i}.rewards` }));
    const isKnown = before !== undefined;
    await checkBundles(work, projectId, { kind: "badge", key, bundles, tiers: tiers.length, isKnown });
    if (maxAwards !== undefined && before?.maxAwards === undefined)
      await startCounting(work, { projectId, kind: "badge", key });
  },
});
