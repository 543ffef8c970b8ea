/** The fields of an adventure that decide what can be unlocked, reached and completed. */
export type AdventurePlan = {
  items: readonly {
    questKey: string;
    order: number;
    optional: boolean;
    points: number;
    unlock: {
      mode: string;
      questKeys?: readonly string[];
      points?: number;
    };
  }[];
  completion: { mode: "ALL_REQUIRED" | "COUNT" | "POINTS"; value?: number | undefined };
  tiers: readonly { tier: number; points: number }[];
  pointsFrom: readonly unknown[];
};
type Item = AdventurePlan["items"][number];
type Problem = { path: (string | number)[]; message: string };

/** Returns the item before another by their order; undefined for the first one. */
export const previousOf = <I extends { order: number }>(items: readonly I[], item: I): I | undefined =>
  items.reduce<I | undefined>(
    (found, one) => (one.order < item.order && (!found || one.order > found.order) ? one : found),
    undefined,
  );

/** Returns the quests that must be done before an item is unlocked. */
export const questsBefore = (items: readonly Item[], item: Item): readonly string[] => {
  const { mode, questKeys = [] } = item.unlock;
  if (mode === "AFTER_QUESTS") return questKeys;
  const previous = mode === "AFTER_PREVIOUS" ? previousOf(items, item) : undefined;
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
      ? points >= item.unlock.points!
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
