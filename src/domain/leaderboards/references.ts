import { checkActiveKey } from "../economy/definitions/references.ts";
import { checkBundles } from "../economy/rewards/references.ts";
import type { Work } from "../kernel/work.ts";
import type { Definition } from "../evaluation/boards/definition.ts";

type Named = { field: string; kind: "currency" | "streak" | "segment" | "quest" | "adventure"; key: string };

const namesOf = ({ metric, audience, entryCost }: Definition): Named[] => [
  ...(metric.source === "CURRENCY"
    ? [{ field: "metric.currencyKey", kind: "currency" as const, key: metric.currencyKey }]
    : []),
  ...(metric.source === "STREAK"
    ? [{ field: "metric.streakKey", kind: "streak" as const, key: metric.streakKey }]
    : []),
  ...(metric.source === "ADVENTURE_POINTS"
    ? [{ field: "metric.adventureKey", kind: "adventure" as const, key: metric.adventureKey }]
    : []),
  ...(metric.source === "QUESTS_COMPLETED" && metric.questKey !== undefined
    ? [{ field: "metric.questKey", kind: "quest" as const, key: metric.questKey }]
    : []),
  ...(audience?.segmentKeys ?? []).map((key, i) => {
    return { field: `audience.segmentKeys.${i}`, kind: "segment" as const, key };
  }),
  ...(entryCost
    ? [{ field: "entryCost.currencyKey", kind: "currency" as const, key: entryCost.currencyKey }]
    : []),
];

/**
 * Checks that everything a leaderboard names exists in the project.
 * @throws DomainError VALIDATION_ERROR naming the field
 */
export const checkReferences = async (
  work: Work,
  projectId: string,
  { key, definition }: { key: string; definition: Definition },
): Promise<void> => {
  for (const name of namesOf(definition)) await checkActiveKey(work, projectId, name);
  const bundles = (definition.prizes ?? []).map(({ rewards: bundle }, i) => {
    return { bundle, field: `prizes.${i}.rewards` };
  });
  await checkBundles(work, projectId, { kind: "grant", key, bundles });
};
