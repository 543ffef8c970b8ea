import assert from "node:assert/strict";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { issueUserToken } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { newPersonAt, startHostileProvider } from "../support/providers/hostile-provider.ts";
import { aBrowser, CONSOLE, startOAuthServer, startUrl, told } from "../support/providers/oauth.ts";
import { madeOnce } from "../support/made.ts";

const OWNERS_PASSWORD = "Difference-Engine-2";

/** `tenant` is an account that a stranger has set up under the address of somebody else, its owner. */
describe("an account that a stranger has set up", () => {
  const api = madeOnce(startApp);
  const google = madeOnce(startHostileProvider);
  const server = madeOnce(() => startOAuthServer(api, async () => ({ google, github: undefined })));
  let tenant: Tenant;

  const asGoogle = (claims: object = {}) => newPersonAt(google, claims);
  const startLink = async (): Promise<string> => {
    const options = { token: tenant.token };
    const body = { redirect_uri: CONSOLE, currentPassword: tenant.password };
    return must(await server.post("/api/v1/auth/oauth/google/link", body, options), 200).authUrl;
  };
  const follow = async (url: string) => told((await aBrowser().go(url)).at);
  const login = (parameters = {}) => follow(startUrl(server, "google", parameters));
  const setVerified = (emailVerified: boolean) =>
    api.app.transact(({ em }) => em.nativeUpdate(User, { id: tenant.userId }, { emailVerified }));
  /** What its owner does, who gets the mail. */
  const recover = async () => {
    const { userId, tenantId, email } = tenant;
    const purpose = "RESET_PASSWORD";
    const token = await api.app.transact((work) =>
      issueUserToken(work, { userId, tenantId, email, purpose, seconds: 60 }),
    );
    const body = { token, password: OWNERS_PASSWORD };
    must(await server.post("/api/v1/auth/reset-password", body), 200);
  };

  beforeEach(async () => {
    tenant = await aTenant(api);
    google.malice = {};
    asGoogle();
  });
  after(async () => {
    await server.close();
    await google.close();
  });

  it("does not let the stranger in by a linked provider once its owner has set a password", async () => {
    assert("access_token" in (await follow(await startLink())));
    await recover();
    assert.equal((await login())["error"], "account_not_found");
  });

  it("keeps a provider that proved its very address, and all that an account proved before has", async () => {
    asGoogle({ email: tenant.email });
    assert("access_token" in (await follow(await startLink())));
    await recover();
    assert("access_token" in (await login()));

    tenant = await aTenant(api);
    await setVerified(true);
    asGoogle();
    assert("access_token" in (await follow(await startLink())));
    await recover();
    assert("access_token" in (await login()));
  });

  it("takes no link that was begun before its owner set a password", async () => {
    const unopened = await startLink();
    const browser = aBrowser();
    const opened = (await browser.visit(await startLink())).headers.get("location")!;
    await recover();
    for (const at of [(await browser.go(opened)).at, (await aBrowser().go(unopened)).at]) {
      assert.equal(told(at)["error"], "access_denied");
    }
    assert.equal((await login())["error"], "account_not_found");
  });

  it("takes no link whose session has ended, by logging out or from another device", async () => {
    const browser = aBrowser();
    const opened = (await browser.visit(await startLink())).headers.get("location")!;
    must(await server.post("/api/v1/auth/logout", { all: true }, { token: tenant.token }), 200);
    assert.equal(told((await browser.go(opened)).at)["error"], "access_denied");
  });

  it("gives no session for a code of before, once the password was set", async () => {
    await follow(await startLink());
    await setVerified(true);
    const { code } = await login({ response_mode: "code" });
    await recover();
    assertError(await server.post("/api/v1/auth/oauth/exchange", { code }), 400, "OAUTH_CODE_INVALID");
  });

  it("is never joined to its owner's provider while nobody has proved the address", async () => {
    await setVerified(false);
    asGoogle({ email: tenant.email });
    assert.equal((await login())["error"], "account_not_found");
    assert.equal((await login({ flow: "signup" }))["error"], "account_exists");
    await recover();
    assert("access_token" in (await login()));
    assertError(await server.get("/api/v1/auth/me", { token: tenant.token }), 401, "SESSION_REVOKED");
  });
});
