import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import type { PublishedRule } from "../../src/domain/evaluation/running/compile.ts";
import { compileRollout } from "../../src/domain/evaluation/running/limits.ts";
import { aProject, aRule, evaluate } from "../support/rules/evaluation.ts";
import { aPlayerState } from "../support/rules/plan.ts";
import { pluck } from "../support/pluck.ts";

const inShadow = (more: Json = {}): PublishedRule => ({
  ...aRule({ key: "shadow", ...more }),
  isShadow: true,
});
const grant = { type: "grant_xp", amount: 5 };
const define = {
  currency: [{ key: "coins", name: "Coins" }],
  badge: [{ key: "rare", name: "Rare", maxAwards: 1 }],
};

describe("a rule in SHADOW", () => {
  it("gives nothing, tells nothing and sets nothing off; what it would have done is kept", () => {
    const actions = [
      grant,
      { type: "adjust_currency", currencyKey: "coins", amount: 3 },
      { type: "update_badge", badgeKey: "rare", operation: "AWARD" },
      { type: "emit_event", eventType: "mine", channels: ["rules", "webhook", "inbox"] },
      { type: "grant_xp", amount: 1, delaySeconds: 60 },
    ];
    const heard = { key: "hears", triggers: [{ kind: "EVENT", eventTypes: ["mine", "player.*"] }] };
    const plan = aProject({ define, rules: [inShadow({ actions }), heard] });
    const player = aPlayerState();
    const before = structuredClone(player);
    const { reasons, effects, turn } = evaluate(plan, { player });
    assert.deepEqual(reasons, ["shadow MATCHED"]);
    const [execution] = effects.executions;
    assert.deepEqual(
      [execution!.mode, (execution!.effects as { type: string }[]).map(({ type }) => type)],
      [
        "SHADOW",
        [
          "player.xp_granted",
          "player.currency_granted",
          "player.badge_earned",
          "custom.mine",
          "inbox.message",
          "system.delayed_action",
        ],
      ],
    );
    assert.deepEqual({ ...player, lastSeenAt: null }, before);
    assert.deepEqual(Object.values({ ...effects, executions: [] }).flat(), []);
    assert.deepEqual([turn.shared.changes(), turn.root.derived], [[], []]);
  });

  it("has its own limits, which those of the real rule do not know", () => {
    const limits = {
      perPlayer: [{ max: 2, window: "DAY" }],
      global: [{ max: 3, window: "LIFETIME" }],
      budgets: [{ asset: "xp", max: 1_000, window: "DAY" }],
    };
    const rule = aRule({ key: "shadow", actions: [grant], limits });
    const shadow = aProject({ rules: [{ ...rule, isShadow: true }] });
    const player = aPlayerState();
    const other = aPlayerState();
    let { shared } = evaluate(shadow, { player }).turn;
    const reasonOf = (who: typeof player, plan = shadow) => {
      const { outcomes, turn } = evaluate(plan, { player: who, shared });
      shared = turn.shared;
      return outcomes[0]!.outcome.reason;
    };
    assert.deepEqual([reasonOf(player), reasonOf(player)], ["MATCHED", "LIMIT_REACHED"]);
    assert.deepEqual([reasonOf(other), reasonOf(other)], ["MATCHED", "LIMIT_REACHED"]);
    assert.deepEqual(Object.keys(player.doc.l ?? {}), [`~${rule.id}`]);
    assert.deepEqual(
      [...new Set(shared.changes().map(({ s }) => s.slice(0, 6)))],
      ["~rule:"],
      "only counters of its own",
    );
    const real = aProject({ rules: [rule] });
    assert.deepEqual([reasonOf(player, real), player.xp], ["MATCHED", 5]);
  });

  it("fails as it would, and stops no other rule", () => {
    const failing = inShadow({
      key: "fails",
      priority: 9,
      actions: [grant, { type: "adjust_currency", currencyKey: "coins", amount: -1 }],
    });
    const stopping = inShadow({ key: "stops", priority: 5, stopOnMatch: true });
    const plan = aProject({ define, rules: [failing, stopping, { key: "real" }] });
    const { reasons, player, effects } = evaluate(plan);
    assert.deepEqual(reasons, ["fails ACTION_FAILED", "stops MATCHED", "real MATCHED"]);
    assert.deepEqual([player.xp, effects.executions.map(({ mode }) => mode)], [1, ["SHADOW", "LIVE"]]);
  });
});

describe("a rollout", () => {
  const players = Array.from({ length: 20_000 }, () => newId());
  const share = (percent: number, holdoutPercent: number, salt = "") => {
    const bucketOf = compileRollout("rule", { percent, holdoutPercent, salt })!;
    const buckets = players.map(bucketOf);
    const of = (bucket: string) => buckets.filter((one) => one === bucket).length / players.length;
    return { in: of("IN"), held: of("HELD"), out: of("OUT"), buckets };
  };

  it("includes its share of players, and holds its share of those back", () => {
    for (const [percent, holdout] of [
      [10, 0],
      [50, 20],
      [100, 5],
      [0.5, 50],
    ] as const) {
      const { in: inside, held, out } = share(percent, holdout);
      const expected = percent / 100;
      assert.ok(Math.abs(1 - out - expected) < 0.015, `${percent} %: ${1 - out}`);
      assert.ok(Math.abs(held - (expected * holdout) / 100) < 0.015, `${holdout} % held: ${held}`);
      assert.ok(Math.abs(inside + held + out - 1) < 1e-9);
    }
  });

  it("keeps whom it has when it grows, and draws anew with another salt", () => {
    const [small, large] = [share(10, 0).buckets, share(30, 0).buckets];
    assert.ok(small.every((bucket, i) => bucket === "OUT" || large[i] === "IN"));
    const salted = share(10, 0, "x").buckets;
    const both = small.filter((bucket, i) => bucket === "IN" && salted[i] === "IN").length / players.length;
    assert.ok(both < 0.02, `${both} are in both draws: as many as chance has it would be 0.01`);
  });

  it("is for everybody unless it says so", () => {
    assert.equal(compileRollout("rule", undefined), undefined);
    assert.equal(compileRollout("rule", { percent: 100, holdoutPercent: 0 }), undefined);
  });

  it("leaves those out who are not in, and records those who are held back without effect", () => {
    const rollout = { percent: 50, holdoutPercent: 50 };
    const limits = { perPlayer: [{ max: 1, window: "DAY" }], global: [{ max: 1_000, window: "DAY" }] };
    const plan = aProject({ rules: [{ key: "r", actions: [grant], rollout, limits }] });
    const seen = new Map<string, number>();
    for (const id of players.slice(0, 400)) {
      const { outcomes, player, effects, turn } = evaluate(plan, { player: aPlayerState({ id }) });
      const { reason } = outcomes[0]!.outcome;
      seen.set(reason, (seen.get(reason) ?? 0) + 1);
      const modes = { MATCHED: ["LIVE"], HOLDOUT: ["HOLDOUT"], ROLLOUT_EXCLUDED: [] }[reason as "MATCHED"];
      assert.deepEqual(pluck(effects.executions, "mode"), modes);
      assert.equal(player.xp, reason === "MATCHED" ? 5 : 0);
      assert.equal(effects.outbox.length > 0, reason === "MATCHED");
      assert.equal(turn.shared.changes().length, reason === "MATCHED" ? 1 : 0);
      if (reason !== "HOLDOUT") continue;
      assert.equal(evaluate(plan, { player }).outcomes[0]!.outcome.reason, "LIMIT_REACHED");
    }
    assert.deepEqual([...seen.keys()].toSorted(), ["HOLDOUT", "MATCHED", "ROLLOUT_EXCLUDED"]);
    assert.ok(
      [...seen.values()].every((n) => n > 50),
      JSON.stringify([...seen]),
    );
  });

  it("lets those who are held back take nothing from the others, who take nothing from them", () => {
    const rollout = { holdoutPercent: 50 };
    const plan = aProject({
      rules: [{ key: "r", actions: [grant], rollout, limits: { global: [{ max: 1, window: "LIFETIME" }] } }],
    });
    let { shared } = evaluate(plan, { player: aPlayerState({ status: "BANNED" }) }).turn;
    const reasons = players.slice(0, 40).map((id) => {
      const done = evaluate(plan, { player: aPlayerState({ id }), shared });
      shared = done.turn.shared;
      return done.outcomes[0]!.outcome.reason;
    });
    assert.equal(reasons.filter((reason) => reason === "MATCHED").length, 1);
    assert.ok(reasons.filter((reason) => reason === "HOLDOUT").length > 5);
    assert.ok(reasons.filter((reason) => reason === "LIMIT_REACHED").length > 5);
  });
});
