import type { z } from "zod";
import { checkActiveKey } from "../definitions/references.ts";
import { invalid } from "../errors.ts";
import { checkBundles } from "../rewards/references.ts";
import { patternsOf } from "../rules/language/patterns.ts";
import type { Work } from "../work.ts";
import type { Streak } from "./streak.ts";

const OWN_PATTERNS: ReadonlySet<string> = new Set(
  ["extended", "at_risk", "frozen", "broken", "repaired"].flatMap((what) =>
    patternsOf(`player.streak_${what}`),
  ),
);

/** A zod check: what fields say of one another. */
export const checkStreak = (streak: Streak, context: z.RefinementCtx): void => {
  const refuse = (path: (string | number)[], message: string) =>
    context.addIssue({ code: "custom", path, message });
  const { mode, breakOn, freeze, key } = streak;
  if (mode === "PERIODIC" && breakOn) refuse(["breakOn"], "is for CONSECUTIVE streaks");
  if (mode === "CONSECUTIVE") checkConsecutive(streak, refuse);
  if (freeze && freeze.initial > freeze.max) refuse(["freeze", "initial"], "must be at most max");
  if (streak.repairCost && streak.repairWindowHours === 0)
    refuse(["repairCost"], "needs repairWindowHours above 0");
  checkEventTypes(streak, refuse);
  streak.milestones.forEach(({ rewards }, i) => {
    // More would feed the run that earned it.
    if ((rewards.streakFreezes?.[key] ?? 0) > 1)
      refuse(["milestones", i, "rewards", "streakFreezes", key], "may be at most 1 of the streak itself");
  });
};

/** What streaks cause would feed them. */
const checkEventTypes = (
  { qualify, breakOn }: Streak,
  refuse: (path: (string | number)[], message: string) => void,
): void => {
  const lists = [
    ...qualify.parts.map(({ metric }, i) => ({
      path: ["qualify", "parts", i, "metric", "eventTypes"],
      types: metric.eventTypes,
    })),
    { path: ["breakOn", "eventTypes"], types: breakOn?.eventTypes ?? [] },
  ];
  for (const { path, types } of lists) {
    types.forEach((type, i) => {
      if (OWN_PATTERNS.has(type)) refuse([...path, i], "includes what streaks themselves cause");
    });
  }
};

const checkConsecutive = (
  { breakOn, period, graceSeconds }: Streak,
  refuse: (path: string[], message: string) => void,
): void => {
  if (!breakOn) refuse(["breakOn"], "is needed: an event that ends a CONSECUTIVE streak");
  if (period !== "DAY") refuse(["period"], "is for PERIODIC streaks");
  if (graceSeconds > 0) refuse(["graceSeconds"], "is for PERIODIC streaks");
};

/** Refuses what would make the runs that players have mean something else, and names that lead nowhere. */
export const checkReferences = async (
  work: Work,
  projectId: string,
  streak: Streak,
  before: Streak | undefined,
): Promise<void> => {
  for (const field of ["mode", "period"] as const) {
    if (before && before[field] !== streak[field]) throw invalid(field, "cannot change: make another streak");
  }
  const { key, repairCost, milestones } = streak;
  if (repairCost) {
    const field = "repairCost.currencyKey";
    await checkActiveKey(work, projectId, { kind: "currency", key: repairCost.currencyKey, field });
  }
  const bundles = milestones.map(({ rewards }, i) => ({ bundle: rewards, field: `milestones.${i}.rewards` }));
  await checkBundles(work, projectId, { kind: "streak", key, bundles });
};
