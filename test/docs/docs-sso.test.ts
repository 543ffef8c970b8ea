import assert from "node:assert/strict";
import { dirname } from "node:path";
import { sql } from "kysely";
import { type Environment, runSteps, stepsOf } from "../support/documents/documents.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aBrowser, told } from "../support/providers/oauth.ts";
import { startOpenIdProvider } from "../support/providers/openid-provider.ts";
import { aDomain, ssoServer, ssoUrl } from "../support/sso/server.ts";
import { skipWithout } from "../support/made.ts";

const SSO = "docs/guides/sso.md";

describe("the commands of the guide to single sign-on", function () {
  before(function () {
    skipWithout(this, "bash", "curl");
  });
  const { api, server } = ssoServer();

  /** Makes the TXT records of a domain as soon as it is claimed, as the reader does. */
  const makeRecords = (domain: string): NodeJS.Timeout =>
    setInterval(() => {
      void api.app.transact(async ({ db }) => {
        const { rows } = await sql<{ token: string }>`
          select token from sso_domains where domain = ${domain}`.execute(db);
        const records = rows.map(({ token }) => [`laurel-domain-verification=${token}`]);
        server.dns.records.set(`_laurel-challenge.${domain}`, records);
      });
    }, 50);

  it("lead from a domain to a provider that signs people in, and to its enforcement", async () => {
    assert.ok(stepsOf(SSO).length > 12);
    const provider = await startOpenIdProvider("https://not.registered.example");
    const domain = aDomain();
    provider.people.set("grace", { sub: "grace", email: `grace@${domain}`, name: "Grace Hopper" });
    const timer = makeRecords(domain);
    const environment = {
      PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
      HOME: process.env["HOME"],
      URL: server.url,
      ISSUER: provider.issuer,
      CLIENT_ID: provider.clientId,
      CLIENT_SECRET: provider.clientSecret,
      DOMAIN: domain,
    };
    let ended: Environment;
    try {
      ended = await runSteps(SSO, environment, async ({ TENANT: tenantId = "", RETURN = "" }) => {
        provider.redirectUris.push(`${server.url}/api/v1/auth/sso/oidc/${tenantId}/callback`);
        const url = ssoUrl(server, { tenantId }, { response_mode: "code", redirect_uri: RETURN });
        const { at } = await aBrowser("grace").go(url, RETURN);
        return told(at)["code"]!;
      });
    } finally {
      clearInterval(timer);
    }
    const { ADA: email, TOKEN: token, SSO_TOKEN: own } = ended;
    const sso = must(await server.get("/api/v1/enterprise/sso", { token: own! }), 200);
    assert.deepEqual([sso.enforceSso, sso.status], [true, "ACTIVE"]);
    assertError(await server.get("/api/v1/auth/me", { token: token! }), 401, "SESSION_REVOKED");
    const login = { email, password: "Engine-No-1" };
    assertError(await server.post("/api/v1/auth/login", login), 401, "MFA_REQUIRED");
    await provider.close();
  });
});
