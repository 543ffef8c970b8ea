import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { jobResult } from "../support/app/processed.ts";

const CAP = { asset: "xp", max: 10, window: "DAY" };

describe("caps of rules and projects", () => {
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  beforeEach(async () => {
    await game.make("/currencies", { key: "coins", name: "Coins" });
  });

  const rule = (caps: readonly object[], action: object = { type: "grant_xp" }) => ({
    key: "votes",
    name: "Votes",
    triggers: [{ kind: "EVENT", eventTypes: ["vote"] }],
    actions: [{ ...action, amount: { ref: "event.properties.n" } }],
    limits: { caps },
  });
  const publish = async (document: object): Promise<void> => {
    await game.make("/rules", document);
    must(await game.post("/rules/votes/publish"), 200);
  };
  const vote = async (n: number, user = "ada"): Promise<string> => {
    const event = { externalUserId: user, eventType: "vote", properties: { n } };
    const { body } = await game.post("/events?wait=true", event);
    assert.equal(body.status, "PROCESSED", JSON.stringify(body));
    return body.eventId;
  };
  const xp = async (user = "ada"): Promise<number> => must(await game.get(`/players/ext:${user}`), 200).xp;
  const setCaps = (caps: unknown) => game.patch("/project-settings", { caps });
  it("give room back with a revert, and count both players of a merge", async () => {
    await publish(rule([CAP]));
    await vote(4);
    const second = await vote(9);
    const { id } = must(await game.post(`/events/${second}/revert`, { reason: "a test" }), 200);
    await jobResult(api, game.tenant, id);
    assert.equal(await xp(), 4);
    await vote(3);
    await vote(8, "eve");
    const eve = must(await game.get("/players/ext:eve"), 200).id;
    must(await game.post("/players/ext:ada/merge", { sourcePlayerId: eve, dryRun: false }), 200);
    assert.equal(await xp(), 15);
    await vote(5);
    assert.equal(await xp(), 15, "7 and 8 leave no room");
  });

  it("of the project hold for all of its rules, by a setting that can be taken back", async () => {
    assert.deepEqual(must(await setCaps([{ ...CAP, asset: "currency:coins" }]), 200).caps, [
      { ...CAP, asset: "currency:coins", counts: "GAINS" },
    ]);
    await publish(rule([], { type: "adjust_currency", currencyKey: "coins" }));
    const coins = async () => must(await game.get("/players/ext:ada"), 200).currencies.coins;
    await vote(25);
    assert.equal(await coins(), 10);
    must(await game.post("/players/ext:ada/balances/coins/grant", { amount: 5 }), 201);
    assert.equal(await coins(), 15, "by hand nothing is cut");
    must(await setCaps([]), 200);
    await vote(25);
    assert.equal(await coins(), 40);
  });

  it("are shown by a simulation, which can do without", async () => {
    await publish(rule([CAP]));
    await vote(6);
    const simulate = async (more: object = {}) =>
      must(
        await game.post("/rules/simulate", {
          event: { eventType: "vote", properties: { n: 9 } },
          player: { externalUserId: "ada" },
          ...more,
        }),
        200,
      );
    const cut = await simulate();
    assert.equal(cut.resultingState.after.xp, 10);
    assert.match(JSON.stringify(cut), /a cap leaves 4 of 9 xp/);
    const free = await simulate({ overrides: { limits: "IGNORE" } });
    assert.equal(free.resultingState.after.xp, 15);
    assert.equal(await xp(), 6);
  });
});
