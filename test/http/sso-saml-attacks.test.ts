import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { sql } from "kysely";
import { aTenant, type Tenant, type TestApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aBrowser } from "../support/providers/oauth.ts";
import {
  type Asked,
  bring,
  type Parts,
  partsOf,
  postForm,
  responseXml,
  signAssertion,
  signResponse,
  toIdp,
} from "../support/sso/saml-idp.ts";
import type { SsoServer } from "../support/sso/server.ts";
import { samlStage } from "../support/sso/saml-stage.ts";

const minutes = (count: number): Date => new Date(Date.now() + count * 60_000);
const SIGNATURE = /<ds:Signature[\s\S]*?<\/ds:Signature>/;

describe("attacks on single sign-on by SAML", () => {
  const stage = samlStage();
  const { idp, foreign, victim, attacker, ask, signed, errorOf, assertRefused } = stage;
  let api: TestApp;
  let server: SsoServer;
  let tenant: Tenant;
  let other: Tenant;
  before(() => {
    ({ api, server, tenant, other } = stage);
  });

  describe("with another content, rightly signed", () => {
    const acs = "https://other.example/acs";
    // Times are made with each test: the suite may have run for minutes.
    const cases: Record<string, Partial<Parts> | (() => Partial<Parts>)> = {
      "another recipient": { recipient: acs },
      "no recipient": { recipient: null },
      "another audience": { audience: "https://other.example/metadata" },
      "no audience": { audience: null },
      "another destination": { destination: acs },
      "another issuer of the assertion": { issuer: "https://evil.test/metadata" },
      "another issuer of the response": { responseIssuer: "https://evil.test/metadata" },
      "expired conditions": () => ({ conditionsUntil: minutes(-5) }),
      "no end of its conditions": { conditionsUntil: null },
      "conditions that begin later": () => ({ notBefore: minutes(5) }),
      "an expired confirmation": () => ({ confirmedUntil: minutes(-5) }),
      "no end of its confirmation": { confirmedUntil: null },
      "a confirmation that begins": () => ({ confirmedFrom: minutes(-1) }),
      "an issue long ago": () => ({ issuedAt: minutes(-30) }),
      "an issue in the future": () => ({ issuedAt: minutes(30) }),
      "no confirmation": { confirmation: null },
      "another method of confirmation": { method: "urn:oasis:names:tc:SAML:2.0:cm:holder-of-key" },
      "another request in its confirmation": { inResponseTo: "_another" },
      "no request in its confirmation": { inResponseTo: null },
      "another request in the response": { responseInResponseTo: "_another" },
      "no request in the response": { responseInResponseTo: null },
      "no request at all": { responseInResponseTo: null, inResponseTo: null },
      "a name for this time only": { format: "urn:oasis:names:tc:SAML:2.0:nameid-format:transient" },
      "two names": { nameIdXml: "<saml:NameID>victim@example.com</saml:NameID>" },
      "an encrypted name": { nameIdXml: "<saml:EncryptedID/>", nameId: "" },
    };
    for (const [name, changed] of Object.entries(cases))
      it(`${name} is refused`, async () => {
        const asked = await ask();
        const parts = typeof changed === "function" ? changed() : changed;
        await assertRefused(asked, signed(asked, parts));
      });

    it("a refusal of the identity provider is one", async () => {
      const asked = await ask();
      const status = "urn:oasis:names:tc:SAML:2.0:status:Responder";
      assert.equal(await errorOf(asked, signed(asked, { status })), "access_denied");
    });

    it("one that says that it is valid for ever is accepted, by its age", async () => {
      const ever = new Date("9999-12-31T23:59:59Z");
      const asked = await ask();
      const parts = { conditionsUntil: ever, confirmedUntil: ever };
      assert("access_token" in (await bring(asked, signed(asked, parts))));
    });

    it("a clock that is half a minute off is accepted", async () => {
      const asked = await ask();
      const off = { issuedAt: minutes(0.5), notBefore: minutes(0.5), conditionsUntil: minutes(-0.5) };
      const late = { ...off, notBefore: minutes(-1), confirmedUntil: minutes(-0.5) };
      assert("access_token" in (await bring(asked, signed(asked, late))));
    });
  });

  describe("with signatures", () => {
    const SHA1 = "http://www.w3.org/2000/09/xmldsig#rsa-sha1";

    it("of another key are refused", async () => {
      const asked = await ask();
      await assertRefused(asked, signAssertion(responseXml(partsOf(asked, victim())), foreign));
    });

    it("that do not fit the content are refused", async () => {
      const asked = await ask();
      await assertRefused(asked, signed(asked).replace(attacker(), victim()));
    });

    it("that are missing are refused: of both, and of the assertion in a signed response", async () => {
      const bare = await ask();
      await assertRefused(bare, responseXml(partsOf(bare, victim())));
      const stripped = await ask();
      await assertRefused(stripped, signed(stripped).replace(SIGNATURE, ""));
      const around = await ask();
      await assertRefused(around, signResponse(responseXml(partsOf(around, victim())), idp));
    });

    it("of the assertion alone leave nothing for the response around it to say", async () => {
      const asked = await ask();
      const xml = signed(asked);
      const saml = `xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"`;
      const inside = `<saml:NameID ${saml}>${victim()}</saml:NameID>`;
      const name = `<samlp:Extensions>${inside}</samlp:Extensions>`;
      const answer = await bring(asked, xml.replace("<samlp:Status>", `${name}<samlp:Status>`));
      const { user } = must(await server.get("/api/v1/auth/me", { token: answer["access_token"]! }), 200);
      assert.equal(user.email, attacker());
      const status = await ask();
      const denied = signed(status).replace("status:Success", "status:Requester");
      assert.equal(await errorOf(status, denied), "access_denied");
    });

    it("by weak algorithms are refused: SHA-1, and HMAC with the certificate as its key", async () => {
      const asked = await ask();
      const xml = responseXml(partsOf(asked, victim()));
      await assertRefused(asked, signAssertion(xml, { ...idp, algorithm: SHA1 }));
      const hmac = await ask();
      const info = /<ds:SignedInfo>[\s\S]*<\/ds:SignedInfo>/;
      const forged = signed(hmac).replace("rsa-sha256", "hmac-sha256");
      const value = createHmac("sha256", idp.cert).update(info.exec(forged)![0]).digest("base64");
      await assertRefused(hmac, forged.replace(/<ds:SignatureValue>[^<]*/, `<ds:SignatureValue>${value}`));
      const digest = await ask();
      const sha1 = signed(digest).replace(
        "http://www.w3.org/2001/04/xmlenc#sha256",
        "http://www.w3.org/2000/09/xmldsig#sha1",
      );
      await assertRefused(digest, sha1);
    });

    it("whose transforms select something else are refused", async () => {
      const asked = await ask();
      const xpath = "http://www.w3.org/TR/1999/REC-xpath-19991116";
      await assertRefused(
        asked,
        signed(asked).replace("http://www.w3.org/2000/09/xmldsig#enveloped-signature", xpath),
      );
    });
  });

  describe("by using an answer elsewhere", () => {
    const invalid = async (asked: Asked, xml: string) => {
      const form = { SAMLResponse: Buffer.from(xml).toString("base64"), RelayState: asked.relayState };
      const { status, at, body } = await postForm(asked.browser, asked.acsUrl, form);
      assert.equal(at, undefined);
      assertError({ status, headers: new Headers(), body: JSON.parse(body) }, 400, "OAUTH_STATE_INVALID");
    };

    it("again: once is enough, also of copies that come at once", async () => {
      const asked = await ask();
      const xml = signed(asked);
      assert("access_token" in (await bring(asked, xml)));
      await invalid(asked, xml);
      const many = await ask();
      const copies = signed(many);
      const form = { SAMLResponse: Buffer.from(copies).toString("base64"), RelayState: many.relayState };
      const answers = await Promise.all(
        Array.from({ length: 4 }, () => postForm(many.browser, many.acsUrl, form)),
      );
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [302, 400, 400, 400]);
    });

    it("in another sign-in of the same browser, or of another", async () => {
      const first = await ask();
      const xml = signed(first);
      const second = await ask();
      await assertRefused(second, xml);
      // An attacker's answer in a victim's browser.
      await invalid({ ...first, browser: aBrowser() }, xml);
      await invalid({ ...first, browser: second.browser }, xml);
    });

    it("after 10 minutes", async () => {
      const asked = await ask();
      await api.app.transact(({ db }) =>
        sql`
          update sso_flows set expires_at = expires_at - interval '10 minutes'
          where tenant_id = ${tenant.tenantId}::uuid`.execute(db),
      );
      await invalid(asked, signed(asked));
    });

    it("at another tenant: neither its key nor its address takes it", async () => {
      const asked = await ask();
      const xml = signed(asked);
      const theirs = await toIdp(server, other);
      await assertRefused(theirs, xml);
      const moved = { ...asked, acsUrl: theirs.acsUrl };
      await invalid(moved, xml);
      const again = await ask();
      await assertRefused(again, signAssertion(responseXml(partsOf(again, victim())), foreign));
      // Their provider, with a right answer for them, names somebody of this tenant's domain.
      const own = await toIdp(server, other);
      const claiming = signAssertion(responseXml(partsOf(own, victim())), foreign);
      assert.equal(await errorOf(own, claiming), "email_not_verified");
      const owner = await toIdp(server, other);
      const takeOver = signAssertion(responseXml(partsOf(owner, tenant.email)), foreign);
      assert.equal(await errorOf(owner, takeOver), "email_not_verified");
    });

    it("at a tenant that signs in by OpenID Connect, or not at all", async () => {
      const none = await aTenant(server);
      const acsUrl = `${server.url}/api/v1/auth/sso/saml/${none.tenantId}/acs`;
      const asked = await ask();
      const form = {
        SAMLResponse: Buffer.from(signed(asked)).toString("base64"),
        RelayState: asked.relayState,
      };
      assert.equal((await postForm(asked.browser, acsUrl, form)).status, 404);
      const unknown = acsUrl.replace(none.tenantId, randomUUID());
      assert.equal((await postForm(asked.browser, unknown, form)).status, 404);
    });
  });
});
