import assert from "node:assert/strict";
import { bulkGrant } from "../../src/domain/economy/rewards/references.ts";
import { applyBoost } from "../../src/domain/evaluation/actions/action-kinds.ts";
import { campaignBoostShape } from "../../src/domain/evaluation/boosts/campaign-boost.ts";
import { RewardBundle } from "../../src/domain/evaluation/rewards/bundle.ts";

describe("boosts of rules, bundles and campaigns", () => {
  it("name what they apply to in the same way", () => {
    const boost = { boostKey: "b", factor: 2, durationSeconds: 60 };
    const accepts: Record<string, (applies: string) => boolean> = {
      bundle: (applies) => RewardBundle.safeParse({ boosts: [{ ...boost, applies }] }).success,
      rule: (applies) => applyBoost.schema.safeParse({ ...boost, type: "apply_boost", applies }).success,
      campaign: (applies) => campaignBoostShape.pick({ applies: true }).safeParse({ applies }).success,
    };
    for (const [name, isAccepted] of Object.entries(accepts)) {
      for (const applies of ["xp", "currency:coins", "score:weekly_2"])
        assert.ok(isAccepted(applies), `${name} ${applies}`);
      for (const applies of ["lives", "currency:", "currency:_x", "score:-x"])
        assert.ok(!isAccepted(applies), `${name} ${applies}`);
    }
  });

  it("are granted by a bulk grant that was queued under a laxer schema", () => {
    const bundle = { boosts: [{ boostKey: "b", applies: "score:-x", factor: 2, durationSeconds: 60 }] };
    const params = { playerIds: [], bundle, reason: "r" };
    assert.deepEqual(bulkGrant.params.parse(params), params);
  });
});
