import { definitionKind } from "../definitions/definitions.ts";
import { checkActiveKey } from "../definitions/references.ts";
import { invalid } from "../../kernel/errors.ts";
import { checkBundles } from "../rewards/references.ts";
import type { Work } from "../../kernel/work.ts";
import { Streak, STREAKS_MAX, streakShape } from "../../evaluation/streaks/streak.ts";

/** Refuses changes that would alter the meaning of players' runs, and unknown names. */
const checkReferences = async (
  work: Work,
  projectId: string,
  streak: Streak,
  before: Streak | undefined,
): Promise<void> => {
  for (const field of ["mode", "period"] as const) {
    if (before && before[field] !== streak[field])
      throw invalid(field, "cannot change: create another streak");
  }
  const { key, repairCost, milestones } = streak;
  if (repairCost) {
    const field = "repairCost.currencyKey";
    await checkActiveKey(work, projectId, { kind: "currency", key: repairCost.currencyKey, field });
  }
  const bundles = milestones.map(({ rewards }, i) => ({ bundle: rewards, field: `milestones.${i}.rewards` }));
  await checkBundles(work, projectId, { kind: "streak", key, bundles });
};

export const streakKind = definitionKind<Streak>({
  kind: "streak",
  example: {
    key: "daily",
    name: "Daily lesson",
    mode: "PERIODIC",
    period: "DAY",
    qualify: {
      mode: "ANY",
      parts: [{ metric: { eventTypes: ["lesson.completed"], aggregate: "count" }, threshold: 1 }],
    },
  },
  plural: "streaks",
  tag: "Streaks",
  schema: Streak,
  shape: streakShape,
  max: STREAKS_MAX,
  check: checkReferences,
});
