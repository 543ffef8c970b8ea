import assert from "node:assert/strict";
import { demoGame } from "../../src/cli/demo-game.ts";
import { readSeason, renewSeason } from "../../src/cli/demo-seed.ts";
import { aTenant, startApp, type TestApp } from "../support/app/app.ts";

const DAY_MS = 86_400_000;

describe("the season of the demo", () => {
  let api: TestApp;
  before(async () => {
    api = await startApp();
  });

  /** A project with the season of a demo that was made so many days ago. */
  const aSeason = async (daysAgo: number): Promise<{ key: string; projectId: string }> => {
    const { key, projectId } = await aTenant(api);
    const document = demoGame(Date.now() - daysAgo * DAY_MS);
    assert.equal((await api.post("/config/import", { document }, { key })).status, 200);
    return { key, projectId };
  };
  const found = async (key: string) => (await api.get("/adventures/season", { key })).body;

  it("is put off where it is over or soon will be, and players go on in it", async () => {
    for (const daysAgo of [500, 50]) {
      const { key, projectId } = await aSeason(daysAgo);
      const before = await found(key);
      await renewSeason(api.app, projectId);
      const renewed = await found(key);
      assert.deepEqual([renewed.status, renewed.startsAt], ["ACTIVE", before.startsAt]);
      assert.ok(Date.parse(renewed.endsAt) - Date.now() > 55 * DAY_MS, renewed.endsAt);
      const event = { externalUserId: "ada", eventType: "level_finished", properties: { stars: 3 } };
      await api.post("/events?wait=true", event, { key });
      const { body } = await api.get("/players/ext:ada/adventures/season", { key });
      assert.equal(body.state, "IN_PROGRESS");
      const told = await readSeason(api.app, projectId);
      assert.deepEqual([told?.endsAt, told?.players], [renewed.endsAt, 1]);
    }
  });

  it("is left alone while it goes on for long, and where a designer has decided about it", async () => {
    const running = await aSeason(0);
    const before = await found(running.key);
    await renewSeason(api.app, running.projectId);
    assert.deepEqual(await found(running.key), before);

    const ended = await aSeason(50);
    assert.equal((await api.post("/adventures/season/end", {}, { key: ended.key })).status, 200);
    await renewSeason(api.app, ended.projectId);
    assert.equal((await found(ended.key)).status, "ENDED");
    assert.equal(await readSeason(api.app, ended.projectId), undefined);

    const edited = await aSeason(500);
    await api.patch("/adventures/season", { name: "My season" }, { key: edited.key });
    await renewSeason(api.app, edited.projectId);
    assert.equal((await found(edited.key)).status, "ENDED");
  });
});
