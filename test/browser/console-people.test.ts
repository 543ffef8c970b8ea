import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant } from "../support/app/app.ts";
import { theConsole } from "../support/browser/console.ts";
import { aScene } from "../support/browser/scene.ts";
import { aMailTo, tokenIn } from "../support/mail/mailbox.ts";
import { must } from "../support/http/client.ts";
import { totpCode } from "../support/mfa/second-factor.ts";

const SECRET = /^[A-Z2-7]{32}$/m;

/** What somebody may press who only looks: it shows, copies or saves, or is their own. */
const LOOKING =
  /^(|Ada|Its chat|Show numbers|Save .*as CSV|Save as a file|(Copy|Clear) ?.*|Try again|Leave the team|\d+%|\d+ lost after \w+)$/;
/** Its buttons are groups of players, and show who is in them. */
const GROUPS = "/analytics/segments";

describe("people at the console", () => {
  const { api, aPerson, at } = theConsole();

  it("stay signed in when they reload, until they sign out", async () => {
    const ada = await at(await aTenant(api), "/rules");
    await ada.sees("No rules yet");
    await ada.page.reload();
    await ada.sees("No rules yet");
    await ada.page.setOfflineMode(true);
    await ada.press("Your account Test Owner");
    await ada.press("Sign out");
    await ada.sees("You are still signed in here");
    await ada.page.setOfflineMode(false);
    await ada.press("Your account Test Owner");
    await ada.press("Sign out");
    await ada.sees("Forgot your password?");
    await ada.page.reload();
    await ada.sees("Forgot your password?");
    await ada.seesNo("No rules yet");
  });

  it("make a further project, and take the deletion of their account back", async () => {
    const tenant = await aTenant(api);
    const { token, password: currentPassword } = tenant;
    const ada = await at(tenant, "/rules");
    await ada.press("Your account Test Owner");
    await ada.press("New project");
    await ada.press("Create a project");
    await ada.fill("Name", "Second game");
    await ada.press("Save");
    await ada.sees("Five steps from nothing");
    const { data } = must(await api.get("/api/v1/projects", { token }), 200);
    assert.ok(data.some(({ name }: { name: string }) => name === "Second game"));
    must(await api.delete("/api/v1/tenant", { token, body: { currentPassword } }), 200);
    await ada.press("Settings");
    await ada.press("Take the deletion back");
    await ada.seesNo("Will be deleted");
    await ada.sees("Delete the account");
  });

  it("come by a link to what it shows, with its filters, through the sign-in", async () => {
    const tenant = await aTenant(api);
    for (const externalUserId of ["ada", "adele", "bob"])
      must(await api.post("/api/v1/players", { externalUserId }, { key: tenant.key }), 201);
    const ada = await at(tenant, "/players?search=ad&sort=externalUserId&order=desc");
    await ada.sees(/adele\s.*\s+ada\s.*\s+2 in all/s);
    assert.match(ada.page.url(), /players\?search=ad&sort=externalUserId&order=desc$/);
  });

  it("who may only look find no button that changes anything", async function () {
    this.timeout(600_000);
    const { game, screens } = await aScene(api, ["Ada", "Bob"]);
    const owner = await at(game.tenant, "/start");
    await owner.open("/team");
    const email = `${randomUUID()}@example.com`;
    await owner.press("Invite somebody");
    await owner.fill("Email", email);
    await owner.choose("Role", "Viewer");
    await owner.press("Invite");
    await owner.sees("The invitation is on its way");
    const viewer = await aPerson();
    await viewer.open(`/accept-invitation?token=${tokenIn(await aMailTo(email, /Test Studio/))}`);
    await viewer.sees("as viewer");
    await viewer.fill("Your name", "Vera");
    await viewer.fill("Password", "Engine-No-1");
    await viewer.press("Join");
    await viewer.sees("Five steps from nothing");
    const found = new Set<string>();
    for (const path of [...screens.project, ...screens.account.filter((one) => one !== "/account")]) {
      await viewer.visit(path);
      const buttons = `[...document.querySelectorAll("main button:not([role=tab])")]
        .map((button) => (button.getAttribute("aria-label") ?? button.innerText).trim())`;
      for (const name of (await viewer.page.evaluate(buttons)) as string[])
        if (!LOOKING.test(name) && !path.endsWith(GROUPS)) found.add(`${path}: ${name}`);
    }
    assert.deepEqual([...found], []);
  });

  it("empty what was filled in, change nothing else, and delete a project", async () => {
    const tenant = await aTenant(api);
    const { token, projectId } = tenant;
    const path = `/api/v1/projects/${projectId}`;
    const put = (body: object) => api.patch(path, body, { token });
    must(await put({ allowedOrigins: ["https://game.example"], description: "Old" }), 200);
    const ada = await at(tenant, "/project");
    await ada.press("Allowed origins");
    must(await put({ description: "Of another" }), 200);
    await ada.page.keyboard.press("Backspace");
    await ada.press("Save");
    await ada.sees("Saved");
    const { allowedOrigins, description } = must(await api.get(path, { token }), 200);
    assert.deepEqual([allowedOrigins, description], [[], "Of another"]);
    await ada.press("Delete the project");
    await ada.fill("Type Test Game to confirm", "Test Game");
    await ada.press("Delete the project");
    await ada.sees("Create your first project");
  });

  it("are approved with their team by a super-admin", async () => {
    const admin = await anAdmin(api);
    const owner = { email: `${randomUUID()}@example.com`, password: "Engine-No-1" };
    const tenantName = `Studio ${randomUUID()}`;
    const { user } = must(
      await api.post("/api/v1/auth/register", { ...owner, name: "Ada", tenantName }),
      201,
    );
    await api.sql`update tenants set approval_status = 'PENDING' where id = ${user.tenantId}::uuid`;
    const ada = await aPerson();
    await ada.signIn(owner);
    await ada.sees("Your account is pending");
    const operator = await aPerson();
    await operator.signIn(await aTenant(api));
    await operator.open("/superadmin");
    await operator.fill("Email", admin.email);
    await operator.fill("Password", admin.password);
    await operator.press("Sign in");
    await operator.press("Set one up");
    await operator.press("Use an app");
    await operator.fill("Current password", admin.password);
    await operator.press("Use an app");
    await operator.sees(SECRET);
    const [secret] = SECRET.exec(await operator.text())!;
    await operator.fill("Code", totpCode(secret));
    await operator.press("Switch it on");
    await operator.sees("Your recovery codes");
    await operator.press("Tenants");
    await operator.fill("Search", tenantName);
    await operator.sees("1 in all");
    await operator.press("Approve", tenantName);
    await operator.sees(/Studio \S+\s+Approved/);
    await operator.press("Sign out");
    await operator.press("To the console of your team");
    await operator.sees("Get started");
    await ada.page.reload();
    await ada.sees("Create your first project");
    await ada.seesNo("Your account is pending");
  });
});
