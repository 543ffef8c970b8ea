import { definitionKind } from "../definitions/definitions.ts";
import { invalid } from "../../kernel/errors.ts";
import { checkBundles, startCounting } from "../rewards/references.ts";
import { Badge, badgeShape } from "../../evaluation/badges/badge.ts";

/**
 * Tiers can be added and thresholds changed: players keep their tiers. A tier cannot be removed, since
 * players may hold it.
 */
const checkChange = (badge: Badge, before: Badge): void => {
  if (badge.tiers.length < before.tiers.length)
    throw invalid("tiers", `there are ${before.tiers.length}, which players may hold; none can be removed`);
};

export const badgeKind = definitionKind<Badge>({
  kind: "badge",
  example: {
    key: "explorer",
    name: "Explorer",
    rarity: "RARE",
    tiers: [{ tier: 1, name: "Bronze", threshold: 5, rewards: { xp: 50 } }],
  },
  plural: "badges",
  tag: "Badges",
  schema: Badge,
  shape: badgeShape,
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
