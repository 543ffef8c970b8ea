import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { aKey } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { theConsole } from "../support/browser/console.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { madeForEach } from "../support/made.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { startReceiver } from "../support/webhooks/receiver.ts";

const DAY_MS = 86_400_000;

describe("the work of a team in the console", () => {
  const { api, at } = theConsole();
  const game = madeForEach(() => aGame(api));

  /** Attempts are minutes and hours apart. */
  const hurryToLastAttempt = (webhookId: string) =>
    api.sql`update webhook_deliveries set attempts = 50, due_at = now()
      where webhook_id = ${webhookId}::uuid`;

  it("sends what a webhook has missed again, once its receiver is mended", async () => {
    let status = 500;
    const receiver = await startReceiver((response) => {
      response.statusCode = status;
      response.end();
    });
    try {
      const { token } = game.tenant;
      const body = { url: receiver.url, events: ["player.created"] };
      const { id } = must(await api.post("/api/v1/webhooks", body, { token }), 201);
      const developer = await at(game.tenant, `/webhooks/${id}`);
      await game.player("ada");
      await developer.sees(/player\.created\s+Pending\s+500/);
      await hurryToLastAttempt(id);
      await developer.sees(/player\.created\s+Failed\s+500/);
      status = 200;
      await developer.press("Send again", "player.created");
      await developer.sees(/player\.created\s+Delivered\s+200/);
    } finally {
      await receiver.close();
    }
  });

  it("reads how many players come back and how far they come, and saves that as CSV", async () => {
    const send = async (externalUserId: string, eventType: string, daysAgo: number) => {
      const timestamp = new Date(Date.now() - daysAgo * DAY_MS).toISOString();
      must(await game.post("/events?wait=true", { externalUserId, eventType, timestamp }), 200);
    };
    for (const player of ["ada", "bob", "cleo"]) await send(player, "joined", 2);
    for (const player of ["ada", "bob"]) await send(player, "bought", 1);
    const steps = "steps=joined,bought&window=7d&order=ordered&period=30d";
    await eventually(
      async () => must(await game.get(`/analytics/funnels?${steps}`), 200).steps[1].players === 2,
    );
    const folder = await temporaryDir();
    try {
      const analyst = await at(game.tenant, "/analytics/retention", folder.path);
      await analyst.sees(/Began\s+Players\s+D0\s+D1/);
      await analyst.sees(/\b3\s+100%\s+66\.7%/);
      await analyst.press("Funnels");
      await analyst.fill("Steps", "joined", "Enter");
      await analyst.fill("Steps", "bought", "Enter");
      await analyst.sees(/Began\s+3\s+Came to the end\s+2\s+66\.7%/);
      await analyst.sees("1 lost after joined");
      await analyst.press("Save as CSV");
      const csv = await eventually(() => readFile(join(folder.path, "funnels.csv"), "utf8"));
      assert.match(csv, /joined,.*\r?\n.*bought,/);
      await analyst.press("Segments");
      await analyst.press("New (7 days)");
      await analyst.sees("3 players");
      await analyst.sees("cleo");
    } finally {
      await folder.remove();
    }
  });

  it("keeps what is typed into a rule until it is saved, and tells of it who publishes", async () => {
    const rule = { key: "kept", name: "Kept", triggers: [{ kind: "EVENT", eventTypes: ["played"] }] };
    const actions = [{ type: "grant_xp", amount: 10 }];
    const { id } = await game.make("/rules", { ...rule, actions });
    const designer = await at(game.tenant, `/rules/${id}`);
    await designer.fill("Amount", "2.5");
    await designer.press("Statistics");
    await designer.sees("Looked at");
    await designer.press("Rules");
    await designer.pressRow("Kept");
    await designer.sees("then give 2.5 XP");
    await designer.press("Publish…");
    await designer.sees("not saved stays out");
    await designer.page.keyboard.press("Escape");
    const { key } = game.tenant;
    const others = { draftVersion: 1, name: "Of another" };
    must(await api.patch(`/api/v1/rules/${id}`, others, { key }), 200);
    await designer.fill("Amount", "25");
    await designer.press("Save the draft");
    await designer.sees(/changed|version/i);
    await designer.press("Discard what is not saved");
    await designer.sees("then give 10 XP");
  });

  it("clears what was cleared, and keeps what is typed where one types it", async () => {
    const metric = { source: "CUSTOM" };
    const more = { operator: "BEST", description: "Old", bounds: { max: 5 } };
    const { id } = await game.make("/leaderboards", { key: "board", name: "Board", metric, ...more });
    const designer = await at(game.tenant, `/leaderboards/${id}?tab=design`);
    await designer.press("Remove Bounds");
    await designer.press("More (6)");
    await designer.fill("Display limit", "250");
    await designer.press("Save");
    await designer.sees("Saved");
    const { bounds, displayLimit, description } = must(await game.get("/leaderboards/board"), 200);
    assert.deepEqual([bounds, displayLimit, description], [null, 250, "Old"]);
  });

  it("keeps the JSON of a rule that its form cannot show", async () => {
    const rule = { key: "rule", name: "Rule", triggers: [{ kind: "EVENT", eventTypes: ["played"] }] };
    const { id } = await game.make("/rules", { ...rule, actions: [{ type: "grant_xp", amount: 1 }] });
    const designer = await at(game.tenant, `/rules/${id}`);
    await designer.press("JSON");
    await designer.fill("JSON", '{"triggers": 5}');
    await designer.press("Rules");
    await designer.pressRow("When played");
    await designer.press("Form");
    await designer.sees("The form cannot show triggers as it is written here");
    await designer.fill("JSON", '{"conditions": {"all": 5}}');
    await designer.press("Form");
    await designer.sees("The form cannot show conditions as it is written here");
    await designer.fill("JSON", '{"actions": [{"type": "grant_xp", "amount": 3}]}');
    await designer.press("Form");
    await designer.sees("then give 3 XP.");
  });

  it("erases a player whose external id is typed", async () => {
    const player = await game.player("ada-1815");
    const admin = await at(game.tenant, `/players/${player}`);
    await admin.press("Data");
    await admin.press("Erase");
    await admin.sees("Erase the player?");
    await admin.fill("Type ada-1815 to confirm", "ada-1816");
    await admin.press("Erase");
    await admin.sees("This is not ada-1815");
    await admin.fill("Type ada-1815 to confirm", "ada-1815", "Enter");
    await admin.sees("The player is being erased");
    await admin.sees("No players yet");
    await eventually(async () => (await game.get("/players/ext:ada-1815")).status === 404);
  });

  it("brings what was changed in the sandbox into the live project", async () => {
    const { token, projectId } = game.tenant;
    must(await api.post(`/api/v1/projects/${projectId}/sandbox`, {}, { token }), 201);
    const key = await aKey(api, { token, projectId, environment: "test" });
    must(await game.post("/currencies", { key: "gems", name: "Gems of the deep" }, key), 201);
    const designer = await at(game.tenant, "/project");
    await designer.press("Bring the sandbox's definitions here");
    await designer.sees("gems");
    await designer.press("Bring 1 change into Test Game");
    await designer.sees("The definitions are here");
    await designer.press("Economy");
    await designer.sees("Gems of the deep");
    assert.equal(must(await game.get("/currencies/gems"), 200).name, "Gems of the deep");
  });
});
