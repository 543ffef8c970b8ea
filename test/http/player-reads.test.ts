import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

describe("a player who is read alone", () => {
  let ada: string;
  const api = madeOnce(startApp);
  const game = madeOnce(() => aGame(api));
  before(async () => {
    await game.make("/currencies", { key: "gems", name: "Gems" });
    ada = await game.player("ada");
    await game.make(`/players/${ada}/xp`, { amount: 1_234 });
  });

  it("shows a change at once: a profile, XP, a balance, a new currency, a merge", async () => {
    const read = async (ref = ada) => must(await game.get(`/players/${ref}`), 200);
    must(await game.patch(`/players/${ada}`, { displayName: "Ada" }), 200);
    assert.equal((await read()).displayName, "Ada");
    await game.make(`/players/${ada}/xp`, { amount: 1 });
    assert.equal((await read()).xp, 1_235);
    await game.make(`/players/${ada}/balances/gems/grant`, { amount: 3 });
    assert.equal((await read()).currencies.gems, 3);
    await game.make("/currencies", { key: "wood", name: "Wood" });
    assert.equal((await read()).currencies.wood, 0);
    const twin = await game.player("twin");
    must(await game.post(`/players/${ada}/merge`, { sourcePlayerId: twin }), 200);
    for (const ref of [twin, "ext:twin"]) assert.equal((await read(ref)).id, ada);
  });
});
