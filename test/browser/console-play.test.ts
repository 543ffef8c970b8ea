import assert from "node:assert/strict";
import { must } from "../support/http/client.ts";
import { aGame } from "../support/app/game.ts";
import { theConsole } from "../support/browser/console.ts";
import { manual } from "../support/quests/quest-game.ts";
import { madeForEach } from "../support/made.ts";

describe("what players do, in the console", () => {
  const { api, at } = theConsole();
  const game = madeForEach(() => aGame(api));
  beforeEach(async () => {
    for (const player of ["ada", "bob"]) await game.player(player);
  });

  it("is reviewed: a step that somebody has to approve completes its quest", async () => {
    const steps = [manual("photo", { evidence: "TEXT", requiresApproval: true })];
    await game.make("/quests", { key: "tree", name: "Plant a tree", steps, rewards: { xp: 40 } });
    must(await game.post("/quests/tree/publish"), 200);
    const evidence = "An oak, behind the mill";
    must(await game.post("/players/ext:ada/quests/tree/steps/photo/submit", { evidence }), 200);
    const reviewer = await at(game.tenant, "/quests");
    await reviewer.press("To be reviewed");
    await reviewer.press("Approve", evidence);
    await reviewer.sees("Nothing waits for a review");
    await reviewer.press("Players");
    await reviewer.pressRow("ada");
    await reviewer.sees("+40 XP");
    await reviewer.press("Quests and streaks");
    await reviewer.sees(/Plant a tree\s+Claimed/);
  });

  it("is rewarded: a badge is awarded, and taken away", async () => {
    const player = await game.player("cleo");
    await game.make("/badges", { key: "explorer", name: "The Explorer" });
    const designer = await at(game.tenant, `/players/${player}`);
    await designer.press("Badges");
    await designer.sees("No badges yet");
    await designer.press("Award a badge");
    await designer.choose("Badge", "explorer");
    await designer.press("Award");
    await designer.press("Take away", "The Explorer");
    await designer.sees("Take The Explorer away?");
    await designer.press("Take away");
    await designer.sees("No badges yet");
    const { data } = must(await game.get(`/players/${player}/badges?state=HELD`), 200);
    assert.deepEqual(data, []);
  });

  it("moves a leaderboard as scores come", async () => {
    const board = { key: "sprint", name: "Sprint", metric: { source: "CUSTOM" }, operator: "BEST" };
    const { id } = await game.make("/leaderboards", board);
    const score = async (player: string, points: number) =>
      must(await game.post("/leaderboards/sprint/scores", { playerId: `ext:${player}`, score: points }), 200);
    const watcher = await at(game.tenant, `/leaderboards/${id}`);
    await watcher.sees("Nobody is on it yet");
    await score("ada", 10);
    await watcher.sees(/1\s+ada\s+10/);
    await score("bob", 20);
    await watcher.sees(/1\s+bob\s+20\s+2\s+ada\s+10/);
    await score("ada", 30);
    await watcher.sees(/1\s+ada\s+30\s+2\s+bob\s+20/);
  });

  it("is judged: a message that was reported is removed", async () => {
    const channel = await game.make("/chat/channels", { key: "trade", name: "Trade" });
    const messages = `/chat/channels/${channel.id}/messages`;
    const content = "Your castle is a shed";
    const { seq } = await game.make(messages, { content, playerId: "ext:ada" });
    await game.make(`${messages}/${seq}/reports`, { playerId: "ext:bob", reason: "HARASSMENT" });
    const moderator = await at(game.tenant, "/chat");
    await moderator.pressRow("Harassment");
    await moderator.sees(content);
    await moderator.press("Remove the message");
    await moderator.sees("Nothing is reported");
    const { data } = must(await game.get(`${messages}?playerId=ext:bob`), 200);
    assert.ok(!JSON.stringify(data).includes(content));
  });
});
