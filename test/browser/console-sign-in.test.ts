import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aTenant } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { type Person, theConsole } from "../support/browser/console.ts";
import { anAddress, must } from "../support/http/client.ts";
import { githubServer } from "../support/providers/fake-github.ts";
import { aBrowser, startUrl, told } from "../support/providers/oauth.ts";
import { aMailTo, tokenIn } from "../support/mail/mailbox.ts";
import { startHostileProvider } from "../support/providers/hostile-provider.ts";
import { PERSON_HEADER } from "../support/providers/openid-provider.ts";
import { aVerifiedDomain, putSso, startSsoServer } from "../support/sso/server.ts";

describe("signing in to the console", () => {
  const { api, aPerson, at } = theConsole();
  const { server, addPerson } = githubServer();

  /** Somebody who has an account here by way of GitHub. */
  const aStranger = async () => {
    const sub = randomUUID();
    addPerson(sub, `${sub}@example.com`);
    const browser = aBrowser(sub);
    await browser.go(startUrl(server, "github", { flow: "signup" }));
    return { sub, browser };
  };

  it("needs at most 200 kB of scripts until one has", async () => {
    const ada = await aPerson();
    await ada.open("/login");
    await ada.sees("Create an account");
    const measured = await ada.page.evaluate(
      `performance.getEntriesByType("resource").filter(({ name }) => name.endsWith(".js"))
        .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0) / 1000`,
    );
    const kilobytes = Number(measured);
    assert.ok(kilobytes > 50 && kilobytes <= 200, `${kilobytes} kB`);
  });

  it("sends the mail again to whoever has to verify an address first", async () => {
    const strict = await anotherServer(api, { isVerifiedEmailRequired: true });
    const tenant = await aTenant(api);
    const ada = await aPerson(undefined, strict.url);
    await ada.signIn(tenant);
    await ada.press("Send the mail again");
    await ada.sees("Sent: look into your mail");
  });

  it("by a provider goes on by itself where it has begun", async () => {
    const { sub } = await aStranger();
    const ada = await aPerson(undefined, server.url);
    await ada.page.setExtraHTTPHeaders({ "X-Forwarded-For": anAddress(), [PERSON_HEADER]: sub });
    await ada.open("/login");
    await ada.press("Go on with GitHub");
    await ada.sees("Welcome to Laurel");
    const elsewhere = ada.faults.splice(0);
    assert.ok(elsewhere.length > 0 && elsewhere.every((fault) => /^request: .*\/login\/oauth\//.test(fault)));
  });

  it("by a link of somebody else leads into no account that one has not asked for", async () => {
    const { browser } = await aStranger();
    const { at: back } = await browser.go(startUrl(server, "github", { response_mode: "code" }));
    const link = new URLSearchParams({ code: told(back)["code"]!, error_description: "Call 555-0100" });
    const ada = await aPerson(undefined, server.url);
    await ada.open(`/oauth?${link.toString()}`);
    await ada.sees("did not begin in this window");
    link.delete("code");
    await ada.open(`/oauth?${link.toString()}`);
    await ada.sees("The sign-in has failed");
    assert.doesNotMatch(await ada.text(), /555/);
    assert.deepEqual(await ada.page.cookies(), []);
    await ada.open(`/oauth?code=${told(back)["code"]}`);
    await ada.press("Go on");
    await ada.sees("Welcome to Laurel");
  });

  it("by the single sign-on of a company, to which an invitation leads where it is enforced", async () => {
    const company = await startSsoServer(api);
    const provider = await startHostileProvider();
    try {
      const tenant = await aTenant(company);
      const domain = await aVerifiedDomain(company, tenant);
      const { issuer: oidcIssuer, clientId: oidcClientId, clientSecret: oidcClientSecret } = provider;
      const client = { provider: "OIDC", oidcIssuer, oidcClientId, oidcClientSecret };
      must(await putSso(company, tenant, { ...client, displayName: "Acme", autoProvision: true }), 200);
      const from = async (path: string, email: string, name: string): Promise<Person> => {
        provider.person = { sub: email, email, email_verified: true, name };
        const person = await aPerson(undefined, company.url);
        await person.open(path);
        return person;
      };
      const isIn = async (person: Person, name: string): Promise<void> => {
        await person.sees(name);
        const elsewhere = person.faults.splice(0);
        assert.ok(elsewhere.length > 0 && elsewhere.every((fault) => fault.includes(oidcIssuer)));
      };
      const ada = await from("/login", `ada@${domain}`, "Ada First");
      await ada.fill("Email", `ada@${domain}`);
      await ada.press("Single sign-on of your company");
      await isIn(ada, "Ada First");
      const email = `bo@${domain}`;
      const invitation = { email, role: "DESIGNER" };
      must(await company.post("/api/v1/team/invitations", invitation, { token: tenant.token }), 201);
      await api.sql`update sso_configurations set enforce_sso = true where tenant_id = ${tenant.tenantId}::uuid`;
      const token = tokenIn(await aMailTo(email, /./));
      const bo = await from(`/accept-invitation?token=${token}`, email, "Bo Second");
      await bo.press("Go on with single sign-on");
      await isIn(bo, "Bo Second");
    } finally {
      await company.close();
      await provider.close();
    }
  });

  it("as somebody else in another tab shows their work in this one, too", async () => {
    const [tenant, other] = [await aTenant(api), await aTenant(api)];
    must(await api.patch("/api/v1/auth/me", { name: "Bo Second" }, { token: other.token }), 200);
    const actions = [{ type: "grant_xp", amount: 10 }];
    const rule = { key: "mine", name: "Mine", triggers: [{ kind: "EVENT", eventTypes: ["won"] }], actions };
    const { id } = must(await api.post("/api/v1/rules", rule, { key: tenant.key }), 201);
    const ada = await at(tenant, `/rules/${id}`);
    await ada.fill("Amount", "777");
    await ada.page.waitForNetworkIdle();
    const { email, password } = other;
    const headers = { Origin: api.url, "X-Session": "cookie" };
    const { headers: answered } = await api.post("/api/v1/auth/login", { email, password }, { headers });
    const [, name = "", value = ""] = /^([^=]+)=([^;]+)/.exec(answered.get("set-cookie")!)!;
    const flags = { path: "/", secure: true, httpOnly: true, sameSite: "Strict" } as const;
    await ada.page.browserContext().setCookie({ name, value, domain: "127.0.0.1", ...flags });
    must(await api.post("/api/v1/auth/logout", { all: true }, { token: tenant.token }), 200);
    await ada.press("Live events");
    await ada.sees("Bo Second");
    assert.doesNotMatch(await ada.text(), /Test Owner|777/);
  });

  it("as somebody else in the same tab shows nothing of who was there before", async () => {
    const tenant = await aTenant(api);
    must(await api.post("/api/v1/players", { externalUserId: "secret-ida" }, { key: tenant.key }), 201);
    const ada = await at(tenant, "/players");
    await ada.sees("secret-ida");
    await ada.visit("/register");
    await ada.fill("Your name", "Bo Second");
    await ada.fill("Studio or company", randomUUID());
    await ada.fill("Email", `${randomUUID()}@example.com`);
    await ada.fill("Password", "Engine-No-1", "Enter");
    await ada.sees("Bo Second");
    await ada.visit(`/p/${tenant.projectId}/players`);
    await ada.sees("There is no such page");
    assert.doesNotMatch(await ada.text(), /secret-ida|Test/);
  });
});
