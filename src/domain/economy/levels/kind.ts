import { definitionKind } from "../definitions/definitions.ts";
import { invalid } from "../../kernel/errors.ts";
import { checkBundles } from "../rewards/references.ts";
import { Level, LEVELS_MAX } from "../../evaluation/xp/levels.ts";

export const levelKind = definitionKind<Level>({
  kind: "level",
  example: { key: "5", name: "Wanderer", rewards: { lives: 1 } },
  plural: "levels",
  tag: "Levels",
  schema: Level,
  shape: Level,
  max: LEVELS_MAX,
  check: async (work, projectId, { key, rewards }) => {
    // XP for a level could reach the next one, and so on to the last.
    if (rewards.xp !== undefined) throw invalid("rewards.xp", "a level cannot give XP");
    const bundles = [{ bundle: rewards, field: "rewards" }];
    await checkBundles(work, projectId, { kind: "level", key, bundles });
  },
});
