import assert from "node:assert/strict";
import { randomInt, randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aMailTo, tokenIn } from "../support/mail/mailbox.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { type FakeGithub, startFakeGithub } from "../support/providers/fake-github.ts";
import { aBrowser, startOAuthServer, startUrl, told } from "../support/providers/oauth.ts";
import { startOpenIdProvider, type TestProvider } from "../support/providers/openid-provider.ts";
import { aSigningKey, samlConfig } from "../support/sso/saml-config.ts";
import { aVerifiedDomain, putSso, startSsoServer } from "../support/sso/server.ts";

describe("sign-up by a provider with an address whose domain signs in through another tenant", () => {
  const api = madeOnce(startApp);
  let google: TestProvider;
  let github: FakeGithub;
  const server = madeOnce(
    () =>
      startOAuthServer(api, async (url) => {
        google = await startOpenIdProvider(`${url}/api/v1/auth/oauth/google/callback`);
        github = await startFakeGithub();
        return { google, github };
      }),
    async (made) => {
      await made.close();
      await google.close();
      await github.close();
    },
  );
  const sso = madeOnce(
    () => startSsoServer(api),
    (made) => made.close(),
  );
  const tenant = madeForEach(() => aTenant(sso));
  const { cert } = aSigningKey();

  type Provider = "google" | "github";
  /** Signs somebody up whose provider has verified the address. */
  const signUp = async (provider: Provider, email: string, parameters: Record<string, string> = {}) => {
    const person = randomUUID();
    google.people.set(person, { sub: person, email, email_verified: true, name: "Eve" });
    const emails = [{ email, primary: true, verified: true, visibility: "public" as const }];
    github.people.set(person, { id: randomInt(2 ** 40), name: "Eve", email: null, emails });
    const address = startUrl(server, provider, { flow: "signup", ...parameters });
    return told((await aBrowser(person).go(address)).at);
  };
  const find = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));

  for (const provider of ["google", "github"] as const)
    it(`makes no account by ${provider}, unless they are invited, or nobody claims it any more`, async () => {
      const domain = await aVerifiedDomain(sso, tenant);
      const email = `ceo@${domain}`;
      must(await putSso(sso, tenant, samlConfig(cert)), 200);
      const refused = await signUp(provider, email);
      assert.deepEqual(Object.keys(refused).toSorted(), ["error", "error_description"]);
      assert.equal(refused["error"], "sso_required");
      assert.equal((await signUp(provider, email.toUpperCase()))["error"], "sso_required");
      assert.equal(await find(email), null);

      const other: Tenant = await aTenant(sso);
      const partner = `partner@${domain}`;
      const invitation = { email: partner, role: "VIEWER" };
      must(await sso.post("/api/v1/team/invitations", invitation, { token: other.token }), 201);
      const invitation_token = tokenIn(await aMailTo(partner, /./));
      assert("access_token" in (await signUp(provider, partner, { invitation_token })));
      assert.equal((await find(partner))?.tenantId, other.tenantId);

      must(await putSso(sso, tenant, samlConfig(cert, { status: "DISABLED" })), 200);
      assert("access_token" in (await signUp(provider, email)));
    });
});
