import { z } from "zod";
import { Description, ImageUrl, Key, Name, Zone } from "../language/syntax.ts";
import type { Problem, Refuse } from "../language/trees.ts";
import { WindowlessMetric } from "../metrics/compile.ts";
import { Metadata } from "../quests/step.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { Audience } from "../segments/audience.ts";
import { IsoTime } from "../../kernel/iso-time.ts";

/** The fields of an adventure that decide what can be unlocked, reached and completed. */
type AdventurePlan = Pick<Shape, "items" | "completion" | "tiers" | "pointsFrom">;
type Item = Shape["items"][number];

/** Returns the item before another by their order; undefined for the first one. */
const previousOf = <I extends { order: number }>(items: readonly I[], item: I): I | undefined =>
  items.reduce<I | undefined>(
    (found, one) => (one.order < item.order && (!found || one.order > found.order) ? one : found),
    undefined,
  );

/** Returns the quests that must be done before an item is unlocked. */
export const questsBefore = (items: readonly Item[], item: Item): readonly string[] => {
  const { unlock } = item;
  if (unlock.mode === "AFTER_QUESTS") return unlock.questKeys;
  const previous = unlock.mode === "AFTER_PREVIOUS" ? previousOf(items, item) : undefined;
  return previous ? [previous.questKey] : [];
};

/** Returns the items that can be done by somebody who does all that can be done, and the points of these. */
const reachOf = (
  { items, pointsFrom }: AdventurePlan,
  repeats: (questKey: string) => boolean,
): { done: ReadonlySet<string>; points: number } => {
  const done = new Set<string>();
  const before = new Map(items.map((item) => [item, questsBefore(items, item)]));
  let points = pointsFrom.length > 0 ? Infinity : 0;
  const isOpen = (item: Item): boolean =>
    item.unlock.mode === "POINTS"
      ? points >= item.unlock.points
      : before.get(item)!.every((key) => done.has(key));
  for (;;) {
    const next = items.filter((item) => !done.has(item.questKey) && isOpen(item));
    if (next.length === 0) return { done, points };
    for (const item of next) {
      done.add(item.questKey);
      points += item.points > 0 && repeats(item.questKey) ? Infinity : item.points;
    }
  }
};

/**
 * Returns why an adventure cannot be done by anybody: items that wait for what never comes, tiers and a
 * completion that are out of reach. Empty if it can.
 * @param repeats whether a quest can be completed again and again, and give its points each time
 */
export const whatCannotEnd = (plan: AdventurePlan, repeats: (questKey: string) => boolean): Problem[] => {
  const { items, completion, tiers } = plan;
  const { done, points } = reachOf(plan, repeats);
  const problems: Problem[] = items.flatMap((item, i) => {
    if (done.has(item.questKey)) return [];
    const never = questsBefore(items, item).filter((key) => !done.has(key));
    const why =
      item.unlock.mode === "POINTS"
        ? `only ${points} points can be reached`
        : `it waits for ${never.join(", ")}, which can never be done before`;
    return [{ path: ["items", i, "unlock"], message: `can never be unlocked: ${why}` }];
  });
  if (problems.length > 0) return problems;
  tiers.forEach((tier, i) => {
    if (tier.points > points)
      problems.push({ path: ["tiers", i, "points"], message: `only ${points} points can be reached` });
  });
  if (completion.mode === "POINTS" && (completion.value ?? 0) > points)
    problems.push({
      path: ["completion", "value"],
      message: `cannot end: only ${points} points can be reached`,
    });
  return problems;
};

/** Maximum adventures of one project that are not archived. */
export const ADVENTURES_MAX = 100;
/** Maximum items of one adventure. */
export const ITEMS_MAX = 100;
/** Maximum tiers of one adventure. */
export const TIERS_MAX = 100;
const SOURCES_MAX = 10;
const POINTS_MAX = 1_000_000_000;
const ITEM_POINTS_MAX = 1_000_000;
const DAYS_MAX = 3_660;
const PRICE_MAX = 1_000_000_000;

const Unlock = z
  .discriminatedUnion(
    "mode",
    [
      z.strictObject({ mode: z.literal("IMMEDIATE") }),
      z.strictObject({ mode: z.literal("AFTER_PREVIOUS") }),
      z.strictObject({
        mode: z.literal("AFTER_QUESTS"),
        questKeys: z.array(Key).min(1).max(ITEMS_MAX),
      }),
      z.strictObject({ mode: z.literal("AT_DATE"), at: IsoTime }),
      z.strictObject({ mode: z.literal("DAY_OFFSET"), days: z.int().min(0).max(DAYS_MAX) }),
      z.strictObject({ mode: z.literal("POINTS"), points: z.int().min(1).max(POINTS_MAX) }),
    ],
    { error: "must have a mode of IMMEDIATE, AFTER_PREVIOUS, AFTER_QUESTS, AT_DATE, DAY_OFFSET, POINTS" },
  )
  .meta({ id: "AdventureUnlock" });

const ItemShape = z.strictObject({
  questKey: Key,
  order: z.int().min(0).max(1_000_000).describe("Items follow one another by it; each has its own"),
  chapter: z.string().min(1).max(64).optional(),
  optional: z.boolean().default(false).describe("Whether ALL_REQUIRED completes without it"),
  points: z.int().min(0).max(ITEM_POINTS_MAX).default(0).describe("For each completion of the quest"),
  unlock: Unlock.default({ mode: "IMMEDIATE" }).describe(
    "When the quest is open to the player: at once, after the item before it, after other items, from a " +
      "time on, from a local midnight so many days after the player joined, or with so many points",
  ),
});

const Tier = z.strictObject({
  tier: z.int().min(1).max(10_000),
  points: z.int().min(1).max(POINTS_MAX),
  free: RewardBundle.optional(),
  premium: RewardBundle.optional().describe("For players with premium only"),
});

/** Aggregates whose events each give points. */
const COUNTING: ReadonlySet<string> = new Set(["count", "sum"]);

const Source = z.strictObject({
  metric: WindowlessMetric.refine(
    ({ aggregate }) => COUNTING.has(aggregate),
    "must have an aggregate of count or sum",
  ),
  pointsPerUnit: z.number().min(0.000001).max(ITEM_POINTS_MAX),
});

const Completion = z.strictObject({
  mode: z
    .enum(["ALL_REQUIRED", "COUNT", "POINTS"])
    .default("ALL_REQUIRED")
    .describe("All items that are not optional; `value` items; or `value` points"),
  value: z.int().min(1).max(POINTS_MAX).optional().describe("COUNT and POINTS only"),
});

export const adventureShape = z.strictObject({
  key: Key,
  name: Name,
  description: Description.optional(),
  imageUrl: ImageUrl.optional(),
  season: z.string().min(1).max(64).optional(),
  startsAt: IsoTime,
  endsAt: IsoTime,
  claimUntil: IsoTime.optional().describe("Until when what was reached can be claimed; default: 7 days more"),
  timezone: Zone.optional().describe("The zone of DAY_OFFSET; default: the player's, else the project's"),
  join: z
    .enum(["AUTO", "MANUAL"])
    .default("AUTO")
    .describe("AUTO: with the first quest that starts or event that gives points"),
  audience: Audience.optional().describe("The players to whom it is offered"),
  items: z.array(ItemShape).min(1).max(ITEMS_MAX),
  completion: Completion.default({ mode: "ALL_REQUIRED" }),
  tiers: z.array(Tier).max(TIERS_MAX).default([]),
  premiumPrice: z
    .strictObject({ currencyKey: Key, amount: z.int().min(1).max(PRICE_MAX) })
    .optional()
    .describe("For which players can buy premium; without it, premium is only granted"),
  pointsFrom: z
    .array(Source)
    .max(SOURCES_MAX)
    .default([])
    .describe("Events that give points since the player joined; the one that makes the player join included"),
  claim: z
    .enum(["AUTO", "MANUAL"])
    .default("AUTO")
    .describe("Whether rewards of tiers and of the whole are granted at once, or when they are claimed"),
  rewards: RewardBundle.default({}),
  sortOrder: z.int().min(-1_000_000).max(1_000_000).default(0),
  metadata: Metadata.optional(),
});
type Shape = z.output<typeof adventureShape>;

/** Default of `claimUntil` after the end. */
export const CLAIM_MS = 7 * 86_400_000;

const checkTimes = ({ startsAt, endsAt, claimUntil, items }: Shape, refuse: Refuse): void => {
  const [from, until] = [Date.parse(startsAt), Date.parse(endsAt)];
  if (until <= from) refuse(["endsAt"], "must be after startsAt");
  if (claimUntil !== undefined && Date.parse(claimUntil) < until)
    refuse(["claimUntil"], "must not be before endsAt");
  items.forEach(({ unlock }, i) => {
    if (unlock.mode === "AT_DATE" && Date.parse(unlock.at) >= until)
      refuse(["items", i, "unlock", "at"], "must be before endsAt");
    if (unlock.mode === "DAY_OFFSET" && unlock.days * 86_400_000 > until - from)
      refuse(["items", i, "unlock", "days"], "is longer than the adventure");
  });
};

const checkItems = ({ items }: Shape, refuse: Refuse): void => {
  const [keys, orders] = [new Set<string>(), new Set<number>()];
  items.forEach(({ questKey, order }, i) => {
    if (keys.has(questKey)) refuse(["items", i, "questKey"], "is that of another item");
    if (orders.has(order)) refuse(["items", i, "order"], "is that of another item");
    keys.add(questKey);
    orders.add(order);
  });
  items.forEach(({ questKey, unlock }, i) => {
    if (unlock.mode !== "AFTER_QUESTS") return;
    unlock.questKeys.forEach((key, n) => {
      const path = ["items", i, "unlock", "questKeys", n];
      if (key === questKey) refuse(path, "an item cannot wait for itself");
      else if (!keys.has(key)) refuse(path, `the quest ${key} is not an item`);
    });
  });
};

const checkTiers = ({ tiers, premiumPrice }: Shape, refuse: Refuse): void => {
  tiers.forEach(({ tier, points, free, premium }, i) => {
    const before = tiers[i - 1];
    if (before && tier <= before.tier)
      refuse(["tiers", i, "tier"], "must be more than that of the tier before");
    if (before && points <= before.points)
      refuse(["tiers", i, "points"], "must be more than those of the tier before");
    if (!free && !premium) refuse(["tiers", i], "gives nothing: it needs rewards in free or premium");
  });
  if (premiumPrice && !tiers.some(({ premium }) => premium))
    refuse(["premiumPrice"], "buys nothing: no tier has premium rewards");
};

const checkCompletion = ({ completion, items }: Shape, refuse: Refuse): void => {
  const { mode, value } = completion;
  if ((mode !== "ALL_REQUIRED") !== (value !== undefined))
    refuse(
      ["completion", "value"],
      value === undefined ? `is needed for ${mode}` : "is only for a completion.mode of COUNT or POINTS",
    );
  if (mode === "COUNT" && value !== undefined && value > items.length)
    refuse(["completion", "value"], `cannot end: there are ${items.length} items`);
  if (mode === "ALL_REQUIRED" && items.length > 0 && items.every(({ optional }) => optional))
    refuse(["completion"], "cannot end: every item is optional");
};

/** Zod check of constraints between fields, with those that decide whether the adventure can end. */
const checkAdventure = (adventure: Shape, context: z.RefinementCtx): void => {
  let isRefused = false;
  const refuse: Refuse = (path, message) => {
    isRefused = true;
    context.addIssue({ code: "custom", path, message });
  };
  for (const check of [checkTimes, checkItems, checkTiers, checkCompletion]) check(adventure, refuse);
  // Whether quests repeat is known when it is published.
  if (!isRefused) for (const { path, message } of whatCannotEnd(adventure, () => true)) refuse(path, message);
};

/** A seasonal collection of quests of a project. */
export const Adventure = adventureShape.superRefine(checkAdventure).meta({
  example: {
    key: "winter",
    name: "Winter season",
    season: "2026-winter",
    startsAt: "2026-12-01T00:00:00Z",
    endsAt: "2027-03-01T00:00:00Z",
    items: [
      { questKey: "first-week", order: 1, points: 50 },
      { questKey: "second-week", order: 2, points: 50, unlock: { mode: "AFTER_PREVIOUS" } },
    ],
    pointsFrom: [
      {
        metric: { eventTypes: ["player.xp_granted"], aggregate: "sum", property: "amount" },
        pointsPerUnit: 0.1,
      },
    ],
    tiers: [
      { tier: 1, points: 50, free: { xp: 10 }, premium: { xp: 50 } },
      { tier: 2, points: 100, premium: { xp: 100 } },
    ],
    rewards: { xp: 500 },
  },
});
export type Adventure = z.output<typeof Adventure>;
