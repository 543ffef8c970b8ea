import assert from "node:assert/strict";
import type { Browser, CDPSession, Page } from "puppeteer-core";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { launchChromium, needChromium } from "../support/browser/chromium.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { startOAuthServer, type OAuthServer } from "../support/providers/oauth.ts";

describe("passkeys in Chromium", () => {
  let api: TestApp;
  let server: OAuthServer;
  let tenant: Tenant;
  let browser: Browser;
  let page: Page;
  let devtools: CDPSession;
  let authenticatorId: string;

  before(async function () {
    needChromium(this);
    api = await startApp();
    server = await startOAuthServer(
      api,
      async () => ({ google: undefined, github: undefined }),
      {},
      ({ port }) => ({ rpId: "localhost", origins: [`http://localhost:${port}`] }),
    );
    browser = await launchChromium();
    page = await browser.newPage();
    devtools = await page.createCDPSession();
    await devtools.send("WebAuthn.enable");
    ({ authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", {
      options: {
        protocol: "ctap2",
        transport: "internal",
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    }));
    await page.goto(`http://localhost:${new URL(server.url).port}/api/v1/openapi.json`);
  });
  after(async () => {
    await browser?.close();
    await server?.close();
  });
  beforeEach(async () => {
    tenant = await aTenant(api);
    await devtools.send("WebAuthn.clearCredentials", { authenticatorId });
    await devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true });
  });

  /** What a console's page does, in a few words of the browser's own. */
  const inPage = (kind: "create" | "get", options: object): Promise<object> =>
    page.evaluate(
      async (text) => {
        const { kind: which, given } = JSON.parse(text);
        // oxlint-disable-next-line typescript/no-explicit-any -- the types of the browser are not there
        const here = globalThis as any;
        const publicKey =
          which === "create"
            ? here.PublicKeyCredential.parseCreationOptionsFromJSON(given)
            : here.PublicKeyCredential.parseRequestOptionsFromJSON(given);
        const credential = await here.navigator.credentials[which]({ publicKey });
        return credential.toJSON();
      },
      JSON.stringify({ kind, given: options }),
    );
  const add = async (name: string, proof: object = {}) => {
    const options = { token: tenant.token };
    const asked = { currentPassword: tenant.password, ...proof };
    const given = must(await server.post("/api/v1/auth/mfa/passkeys/options", asked, options), 200);
    const credential = await inPage("create", given);
    return server.post("/api/v1/auth/mfa/passkeys", { name, credential }, options);
  };
  const prove = async () => inPage("get", must(await server.post("/api/v1/auth/passkeys/options", {}), 200));

  it("are made, sign in alone, and complete a login", async () => {
    const { passkey, recoveryCodes } = must(await add("This laptop"), 201);
    assert.equal(passkey.name, "This laptop");
    assert.equal(recoveryCodes.length, 10);
    const credential = await prove();
    const { user } = must(await server.post("/api/v1/auth/passkeys/login", { credential }), 200);
    assert.equal(user.id, tenant.userId);
    const { email, password } = tenant;
    const refused = await server.post("/api/v1/auth/login", { email, password });
    assertError(refused, 401, "MFA_REQUIRED");
    const challengeToken = refused.body.error.challenge.token;
    must(await server.post("/api/v1/auth/login/mfa", { challengeToken, passkey: await prove() }), 200);
  });

  it("are not made twice by one authenticator for one account", async () => {
    must(await add("This laptop"), 201);
    await assert.rejects(add("Again"), /InvalidStateError|credentials already registered/);
  });

  it("are refused when the browser has not verified who is there", async () => {
    must(await add("This laptop"), 201);
    const options = must(await server.post("/api/v1/auth/passkeys/options", {}), 200);
    await devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
    // The browser obeys `required`; a page that asks for less gets a proof that the server refuses.
    await assert.rejects(inPage("get", options), /NotAllowedError/);
    const credential = await inPage("get", { ...options, userVerification: "discouraged" });
    assertError(await server.post("/api/v1/auth/passkeys/login", { credential }), 401, "PASSKEY_INVALID");
  });

  it("whose counter goes back, as a copy's would, are refused", async () => {
    must(await add("This laptop"), 201);
    must(await server.post("/api/v1/auth/passkeys/login", { credential: await prove() }), 200);
    const { credentials } = await devtools.send("WebAuthn.getCredentials", { authenticatorId });
    const [copy] = credentials;
    must(await server.post("/api/v1/auth/passkeys/login", { credential: await prove() }), 200);
    await devtools.send("WebAuthn.clearCredentials", { authenticatorId });
    await devtools.send("WebAuthn.addCredential", { authenticatorId, credential: copy! });
    const credential = await prove();
    assertError(await server.post("/api/v1/auth/passkeys/login", { credential }), 401, "PASSKEY_INVALID");
    assert.ok(copy!.signCount > 0);
  });

  it("belong to their host: a page of another one gets none, and is told where they work", async () => {
    must(await add("This laptop"), 201);
    const options = must(await server.post("/api/v1/auth/passkeys/options", {}), 200);
    await page.goto(`http://127.0.0.1:${new URL(server.url).port}/api/v1/openapi.json`);
    const origin = await page.evaluate("location.origin");
    const refused = await server.post(
      "/api/v1/auth/passkeys/options",
      {},
      { headers: { origin: String(origin) } },
    );
    assertError(refused, 403, "ORIGIN_NOT_ALLOWED");
    assert.match(refused.body.error.message, /pages of http:\/\/localhost:\d+,/);
    await assert.rejects(inPage("get", options), /SecurityError|invalid domain/i);
    await page.goto(`http://localhost:${new URL(server.url).port}/api/v1/openapi.json`);
  });
});
