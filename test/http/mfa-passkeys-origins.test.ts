import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { aServedDomain, atHost } from "../support/domains/server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";

const CREATION = "/api/v1/auth/mfa/passkeys/options";
const REQUEST = "/api/v1/auth/passkeys/options";

describe("passkeys on a page of another origin than the console's, such as a custom domain", () => {
  it("are neither made nor asked for, and the refusal says where they work", async () => {
    const api = await startApp();
    const tenant = await aTenant(api);
    const own = { token: tenant.token };
    const [home] = api.app.config.passkeys.origins;
    const { domain } = await aServedDomain(api, tenant);
    const origins = [`https://${domain}`, `${home}.evil.example.com`, "https://evil.example.com", "null"];
    for (const origin of origins) {
      const headers = { origin };
      const of = { ...own, headers };
      const body = { currentPassword: tenant.password };
      for (const refused of [await api.post(CREATION, body, of), await api.post(REQUEST, {}, { headers })]) {
        assertError(refused, 403, "ORIGIN_NOT_ALLOWED");
        assert.ok(refused.body.error.message.includes(`pages of ${home},`), refused.body.error.message);
      }
    }
    const here = { method: "POST", path: REQUEST, body: {} };
    const atDomain = await atHost(api, domain, { ...here, headers: { origin: `https://${domain}` } });
    assert.equal(atDomain.status, 403, atDomain.body);
    const byDomain = await atHost(api, domain, { ...here, headers: { origin: home! } });
    assert.equal(byDomain.status, 200, "a page of the console may call the API by the domain");
    must(await api.post(CREATION, { currentPassword: tenant.password }, own), 200);
  });
});
