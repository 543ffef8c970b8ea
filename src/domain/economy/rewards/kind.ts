import { definitionKind } from "../definitions/kind.ts";
import { checkActiveKey } from "../definitions/references.ts";
import { invalid } from "../../kernel/errors.ts";
import { checkBundles } from "./references.ts";
import { Reward, rewardShape } from "../../evaluation/rewards/reward.ts";
import { startCounting } from "./start-counting.ts";

export const rewardKind = definitionKind<Reward>({
  kind: "reward",
  plural: "rewards",
  tag: "Rewards",
  schema: Reward,
  shape: rewardShape,
  max: 500,
  check: async (work, projectId, reward, before) => {
    const { key, bundle, price, stock } = reward;
    if (before && (before.kind !== reward.kind || before.fulfilment !== reward.fulfilment))
      throw invalid("kind", "cannot change, because players may hold the reward: create another one");
    if (price) {
      const reference = { kind: "currency", key: price.currencyKey, field: "price.currencyKey" };
      await checkActiveKey(work, projectId, reference);
    }
    const bundles = bundle ? [{ bundle, field: "bundle" }] : [];
    await checkBundles(work, projectId, { kind: "reward", key, bundles, isKnown: before !== undefined });
    if (stock !== undefined && before?.stock === undefined)
      await startCounting(work, { projectId, kind: "reward", key });
  },
});
