import { randomUUID } from "node:crypto";
import { must } from "../support/http/client.ts";
import { aTenant } from "../support/app/app.ts";
import { theConsole } from "../support/browser/console.ts";

describe("the first steps in the console", () => {
  const { api, aPerson, at } = theConsole();

  it("lead from registering to an event that is seen as it comes", async () => {
    const ada = await aPerson();
    await ada.open("/register");
    await ada.fill("Your name", "Ada Lovelace");
    await ada.fill("Studio or company", "Analytical Games");
    await ada.fill("Email", `${randomUUID()}@example.com`);
    await ada.fill("Password", "Engine-No-1");
    await ada.press("Create the account");
    await ada.press("Create your first project");
    await ada.fill("Name", "Difference");
    await ada.press("Save");
    await ada.sees("Five steps from nothing");
    await ada.press("Make a key");
    await ada.press("Save");
    await ada.sees("Your key");
    const [key] = /svc_live_\w+/.exec(await ada.text()) ?? [];
    await ada.press("Live events");
    await ada.sees("No events yet");
    await ada.sees(/^Live$/m);
    const event = { externalUserId: "charles", eventType: "wheel_turned", properties: { teeth: 12 } };
    must(await api.post("/api/v1/events", event, { key: key! }), 200);
    await ada.sees("wheel_turned");
    await ada.sees('{"teeth":12}');
  });

  it("make a rule a draft, try it on an event that came, and publish it", async () => {
    const tenant = await aTenant(api);
    const { key } = tenant;
    const track = async () => {
      const event = { externalUserId: "ada", eventType: "level_finished", properties: { level: 3 } };
      must(await api.post("/api/v1/events?wait=true", event, { key }), 200);
    };
    await track();
    const ada = await at(tenant, "/rules");
    await ada.press("New rule");
    await ada.fill("Name", "Levels pay");
    await ada.fill("Key", "levels-pay");
    await ada.press("Save the draft");
    await ada.sees("When level_finished, then give 10 XP.");
    await ada.sees("Draft");
    await ada.press("Try it");
    await ada.press("Simulate");
    await ada.sees("Fired");
    await ada.sees("+10 XP");
    await ada.press("Publish…");
    await ada.sees("this is its first version");
    await ada.press("Publish");
    await ada.sees("Version 1");
    await ada.press("Versions");
    await ada.sees(/\s1\s.*\sTest Owner\s/);
    await track();
    await ada.press("Players");
    await ada.pressRow("ada");
    await ada.sees("+10 XP");
  });
});
