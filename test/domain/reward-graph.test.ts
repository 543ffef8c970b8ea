import assert from "node:assert/strict";
import { type Giver, GivingGraph, type RewardBundle } from "../../src/domain/evaluation/rewards/bundle.ts";

describe("what gives what", () => {
  const giver = (kind: Giver["kind"], key: string, ...bundles: RewardBundle[]): Giver => ({
    kind,
    key,
    bundles,
  });
  const to = (rewardKey: string): RewardBundle => ({ rewards: [{ rewardKey }] });
  const check = (givers: Giver[], own: Giver) => {
    const bundles = own.bundles.map((bundle, i) => ({ bundle, field: `bundle${i}` }));
    new GivingGraph(givers).put({ ...own, bundles });
  };
  const refused = (givers: Giver[], own: Giver, pattern: RegExp) =>
    assert.throws(
      () => check(givers, own),
      (error: Error) => pattern.test(error.message),
    );

  it("may not give itself, directly or through others", () => {
    refused([], giver("reward", "a", to("a")), /gives itself: reward a gives reward a/);
    const others = [giver("reward", "a", { badges: [{ badgeKey: "b" }] }), giver("badge", "b", {}, to("c"))];
    refused(others, giver("reward", "c", to("a")), /reward a gives badge b gives reward c gives reward a/);
    check(others, giver("reward", "c", { xp: 1 }));
  });

  it("may be five deep, for all that give it too", () => {
    const chain = ["b", "c", "d", "e"].map((key, i, all) =>
      giver("reward", key, all[i + 1] === undefined ? { xp: 1 } : to(all[i + 1]!)),
    );
    check(chain, giver("reward", "a", to("b")));
    refused(
      [...chain, giver("reward", "z", to("a"))],
      giver("reward", "a", to("b")),
      /reward z: .* nested 5 deep/,
    );
    const deeper = [...chain, giver("reward", "a", to("b")), giver("reward", "f", { xp: 1 })];
    refused(deeper, giver("reward", "e", to("f")), /reward a: rewards may be nested 5 deep, not 6/);
  });

  it("may not come to more than 100 bundles", () => {
    const wide = (key: string) => ({ rewards: Array.from({ length: 20 }, () => ({ rewardKey: key })) });
    check([giver("reward", "b", { xp: 1 })], giver("reward", "a", wide("b")));
    refused(
      [giver("reward", "c", { xp: 1 }), giver("reward", "b", wide("c"))],
      giver("reward", "a", wide("b")),
      /gives 421 bundles/,
    );
  });

  it("may not be XP for a level, through others either, whichever is changed", () => {
    const levels = [giver("level", "2", to("a"))];
    refused([giver("reward", "a", { xp: 1 })], levels[0]!, /level 2: a level cannot give XP/);
    refused([...levels, giver("reward", "a", {})], giver("reward", "a", { xp: 1 }), /level 2/);
  });
});
