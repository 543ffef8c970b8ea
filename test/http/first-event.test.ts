import assert from "node:assert/strict";
import { must } from "../support/http/client.ts";
import { ownRules } from "../support/rules/rules-api.ts";

describe("the first event of a player whom it makes", () => {
  const { api, tenant, rules } = ownRules();
  const on = (eventType: string) => ({ triggers: [{ kind: "EVENT", eventTypes: [eventType] }] });

  /** Gives XP to who is new and for a lesson, and a coin for each gain of XP. */
  const publishAll = async (more: Record<string, unknown> = {}): Promise<void> => {
    await rules.define("currencies", { key: "coins" });
    const coin = { type: "adjust_currency", currencyKey: "coins", amount: 1 };
    await rules.publish({
      key: "welcome",
      ...on("player.created"),
      actions: [{ type: "grant_xp", amount: 10 }],
    });
    await rules.publish({ key: "lesson", actions: [{ type: "grant_xp", amount: 5 }] });
    await rules.publish({ key: "bonus", ...on("player.xp_granted"), actions: [coin], ...more });
  };
  const coinsOf = async (user: string): Promise<number> => {
    const { body } = await api.get(`/api/v1/players/ext:${user}/balances`, { key: tenant.key });
    return body.data.find(({ currencyKey }: { currencyKey: string }) => currencyKey === "coins").balance;
  };
  const xpOf = async (user: string): Promise<number> =>
    must(await api.get(`/api/v1/players/ext:${user}`, { key: tenant.key }), 200).xp;

  it("lets a rule that hears what both the player's making and the event bring about fire once", async () => {
    await publishAll();
    assert.equal((await rules.track("u1")).status, "PROCESSED");
    assert.deepEqual([await xpOf("u1"), await coinsOf("u1")], [15, 1]);
    await rules.track("u1");
    assert.deepEqual([await xpOf("u1"), await coinsOf("u1")], [20, 2]);
  });

  it("lets a reentrant one fire for both, each time under a ledger key of its own", async () => {
    await publishAll({ reentrant: true });
    assert.equal((await rules.track("u1")).status, "PROCESSED");
    assert.deepEqual([await xpOf("u1"), await coinsOf("u1")], [15, 2]);
  });
});
