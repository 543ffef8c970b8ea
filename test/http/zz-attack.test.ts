import assert from "node:assert/strict";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app.ts";
import { must } from "../support/client.ts";
import { rulesOf } from "../support/rules-api.ts";

describe("attack", () => {
  let api: TestApp;
  let tenant: Tenant;
  let rules: ReturnType<typeof rulesOf>;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    rules = rulesOf(api, tenant);
  });
  it("a rule that hears what both the making of a player and its first event bring about", async () => {
    const key = tenant.key;
    const on = (...eventTypes: string[]) => ({ triggers: [{ kind: "EVENT", eventTypes }] });
    await rules.publish({ key: "welcome", ...on("player.created"), actions: [{ type: "grant_xp", amount: 10 }] });
    await rules.publish({ key: "lesson", ...on("lesson.completed"), actions: [{ type: "grant_xp", amount: 5 }] });
    await rules.publish({
      key: "bonus",
      ...on("player.xp_granted"),
      actions: [{ type: "adjust_lives", amount: -1 }, { type: "grant_xp", amount: 1 }],
    });
    await rules.track("u1");
    const player = must(await api.get(`/api/v1/players/ext:u1`, { key }), 200);
    console.log(player.xp);
    assert.ok(player.xp > 0);
  });
});
