import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import {
  type Asked,
  assertionXml,
  bring,
  type Parts,
  partsOf,
  postForm,
  responseXml,
  signAssertion,
  signResponse,
  toIdp,
} from "../support/sso/saml-idp.ts";
import {
  aSigningKey,
  aVerifiedDomain,
  putSso,
  samlConfig,
  type SsoServer,
  startSsoServer,
} from "../support/sso/server.ts";
import { parseXml } from "../../src/platform/sso/saml-document.ts";
import { assertError } from "../support/http/assert-error.ts";
import { aBrowser } from "../support/providers/oauth.ts";

/** What attackers of sign-ins by SAML meet: two tenants, each with a provider of its own. */
type SamlStage = {
  api: TestApp;
  server: SsoServer;
  tenant: Tenant;
  other: Tenant;
  /** Of the tenant. */
  domain: string;
  /** The keys of the tenant's provider, and of the other's. */
  idp: ReturnType<typeof aSigningKey>;
  foreign: ReturnType<typeof aSigningKey>;
  victim(): string;
  attacker(): string;
  /** A request on its way to the tenant's provider. */
  ask(): Promise<Asked>;
  /** An answer with its assertion signed by the provider. */
  signed(asked: Asked, changed?: Partial<Parts>, nameId?: string): string;
  errorOf(asked: Asked, xml: string): Promise<string | undefined>;
  assertRefused(asked: Asked, xml: string): Promise<void>;
};

/**
 * Opens a stage for the tests of a `describe`, shows that an unchanged answer signs in, and after each test
 * that nobody but the attacker has an account.
 */
const samlStage = (): SamlStage => {
  const stage = { idp: aSigningKey(), foreign: aSigningKey() } as SamlStage;
  stage.victim = () => `victim@${stage.domain}`;
  stage.attacker = () => `attacker@${stage.domain}`;
  stage.ask = () => toIdp(stage.server, stage.tenant);
  stage.signed = (asked, changed = {}, nameId = stage.attacker()) =>
    signAssertion(responseXml(partsOf(asked, nameId, changed)), stage.idp);
  stage.errorOf = async (asked, xml) => {
    const answer = await bring(asked, xml);
    assert.deepEqual(Object.keys(answer).toSorted(), ["error", "error_description"]);
    return answer["error"];
  };
  stage.assertRefused = async (asked, xml) => assert.equal(await stage.errorOf(asked, xml), "provider_error");
  const members = async (): Promise<string[]> => {
    const { data } = must(await stage.server.get("/api/v1/team/members", { token: stage.tenant.token }), 200);
    return data.map(({ email }: { email: string }) => email);
  };

  before(async () => {
    stage.api = await startApp();
    stage.server = await startSsoServer(stage.api);
    stage.tenant = await aTenant(stage.server);
    stage.domain = await aVerifiedDomain(stage.server, stage.tenant);
    const config = (cert: string) => samlConfig(cert, { autoProvision: true });
    must(await putSso(stage.server, stage.tenant, config(stage.idp.cert)), 200);
    stage.other = await aTenant(stage.server);
    await aVerifiedDomain(stage.server, stage.other);
    must(await putSso(stage.server, stage.other, config(stage.foreign.cert)), 200);
  });
  afterEach(async () => assert.ok(!(await members()).includes(stage.victim())));
  after(() => stage.server.close());

  it("fail only for what each test changes: an unchanged answer signs in", async () => {
    const asked = await stage.ask();
    assert("access_token" in (await bring(asked, stage.signed(asked))));
  });
  return stage;
};

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
      await api.sql`
        update sso_flows set expires_at = expires_at - interval '10 minutes'
        where tenant_id = ${tenant.tenantId}::uuid`;
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

const ASSERTION = /<saml:Assertion[\s\S]*<\/saml:Assertion>/;

describe("forged documents of single sign-on by SAML", () => {
  const stage = samlStage();
  const { idp, victim, attacker, ask, signed, assertRefused } = stage;
  before(() => {
    ({} = stage);
  });

  describe("by wrapping a signature", () => {
    type Pieces = { whole: string; response: string; assertion: string; signature: string; evil: string };
    /** The forged assertion has its own id, or that of the one that was signed. */
    const piecesOf = (asked: Asked, sameId = false): Pieces => {
      const parts = partsOf(asked, attacker());
      const whole = signAssertion(responseXml(parts), idp);
      const assertion = ASSERTION.exec(whole)![0];
      const signature = SIGNATURE.exec(assertion)![0];
      const evilParts = partsOf(asked, victim(), sameId ? { assertionId: parts.assertionId } : {});
      return { whole, response: whole, assertion, signature, evil: assertionXml(evilParts) };
    };
    const inner = (assertion: string, xml: string) =>
      assertion.replace("</saml:Issuer>", `</saml:Issuer>${xml}`);
    const bare = ({ assertion, signature }: Pieces) => assertion.replace(signature, "");
    const forms: Record<string, (asked: Asked) => string> = {
      "1: a forged response around the signed one, in its signature": (asked) => {
        const whole = signResponse(responseXml(partsOf(asked, attacker())), idp);
        const signature = SIGNATURE.exec(whole)![0];
        const original = whole.replace(signature, "");
        const evil = responseXml(partsOf(asked, victim()));
        const holding = signature.replace("</ds:Signature>", `${original}</ds:Signature>`);
        return evil.replace("</saml:Issuer>", `</saml:Issuer>${holding}`);
      },
      "2: a forged response with the signed one beside its signature": (asked) => {
        const whole = signResponse(responseXml(partsOf(asked, attacker())), idp);
        const signature = SIGNATURE.exec(whole)![0];
        const evil = responseXml(partsOf(asked, victim()));
        const original = whole.replace(signature, "");
        return evil.replace("</saml:Issuer>", `</saml:Issuer>${original}${signature}`);
      },
      "3: a forged assertion before the signed one": (asked) => {
        const { whole, assertion, evil } = piecesOf(asked);
        return whole.replace(assertion, evil + assertion);
      },
      "4: a forged assertion around the signed one": (asked) => {
        const { whole, assertion, evil } = piecesOf(asked);
        return whole.replace(assertion, evil.replace("</saml:Assertion>", `${assertion}</saml:Assertion>`));
      },
      "5: a forged assertion with the signature, the signed one after it": (asked) => {
        const pieces = piecesOf(asked);
        const { whole, assertion, signature, evil } = pieces;
        return whole.replace(assertion, inner(evil, signature) + bare(pieces));
      },
      "6: a forged assertion with the signature that holds the signed one": (asked) => {
        const pieces = piecesOf(asked);
        const { whole, assertion, signature, evil } = pieces;
        const holding = signature.replace("</ds:Signature>", `${bare(pieces)}</ds:Signature>`);
        return whole.replace(assertion, inner(evil, holding));
      },
      "7: a forged assertion of the same id in extensions": (asked) => {
        const { whole, assertion, evil } = piecesOf(asked, true);
        return whole.replace(assertion, `<samlp:Extensions>${evil}</samlp:Extensions>${assertion}`);
      },
      "8: a forged assertion of the same id whose signature holds the signed one as an object": (asked) => {
        const pieces = piecesOf(asked, true);
        const { whole, assertion, signature, evil } = pieces;
        const object = `<ds:Object>${bare(pieces)}</ds:Object></ds:Signature>`;
        return whole.replace(assertion, inner(evil, signature.replace("</ds:Signature>", object)));
      },
      "the signed assertion twice": (asked) => {
        const { whole, assertion } = piecesOf(asked);
        return whole.replace(assertion, assertion + assertion);
      },
      "the signature moved to the response": (asked) => {
        const pieces = piecesOf(asked);
        const without = pieces.whole.replace(pieces.signature, "");
        return without.replace("<samlp:Status>", `${pieces.signature}<samlp:Status>`);
      },
      "the signed assertion hidden, with another element of its id": (asked) => {
        const { whole, assertion, evil } = piecesOf(asked);
        const id = /ID="([^"]+)"/.exec(assertion)![1]!;
        const twin = evil.replace(/ID="[^"]+"/, `Id="${id}"`);
        return whole.replace(assertion, `${assertion}<samlp:Extensions>${twin}</samlp:Extensions>`);
      },
    };
    for (const [name, forge] of Object.entries(forms))
      it(`${name}: refused`, async () => {
        const asked = await ask();
        const xml = forge(asked);
        assert.ok(xml.includes("SignatureValue"));
        assert.doesNotThrow(() => parseXml(xml), "it is XML all the same");
        await assertRefused(asked, xml);
      });
  });

  describe("by what parsers read differently", () => {
    it("comments in names are refused, before and after signing", async () => {
      const before = await ask();
      await assertRefused(before, signed(before, {}, `${victim()}<!---->.evil.example`));
      const after = await ask();
      const name = `x${victim()}`;
      await assertRefused(after, signed(after, {}, name).replace(name, `x<!-- -->${victim()}`));
      const digest = await ask();
      await assertRefused(digest, signed(digest).replace("<ds:DigestValue>", "<ds:DigestValue><!--x-->"));
    });

    it("document types, entities, processing instructions and CDATA are refused", async () => {
      const heads = [
        `<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>`,
        `<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>`,
        `<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x.dtd">`,
        `<?php x ?>`,
      ];
      for (const head of heads) {
        const asked = await ask();
        await assertRefused(asked, head + signed(asked));
      }
      const asked = await ask();
      await assertRefused(asked, signed(asked).replace(attacker(), `<![CDATA[${attacker()}]]>`));
    });

    it("what is not XML, too large, too deep or has too many elements is refused, quickly", async () => {
      const junk = (text: string) =>
        `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol">${text}</samlp:Response>`;
      const bad = [
        "",
        "not XML",
        "<a",
        junk("<a/>".repeat(30_000)),
        junk("<a>".repeat(1_500) + "</a>".repeat(1_500)),
        junk("x".repeat(200_000)),
        "\u0000",
      ];
      for (const xml of bad) {
        const asked = await ask();
        const form = {
          SAMLResponse: Buffer.from(xml || " ").toString("base64"),
          RelayState: asked.relayState,
        };
        const { at } = await postForm(asked.browser, asked.acsUrl, form);
        assert.equal(at?.searchParams.get("error"), "provider_error");
      }
    });

    it("forms without a response, with two, too long, and JSON are refused", async () => {
      const asked = await ask();
      const form = (body: string | URLSearchParams, type = "application/x-www-form-urlencoded") =>
        fetch(asked.acsUrl, { method: "POST", headers: { "content-type": type }, body, redirect: "manual" });
      const RelayState = asked.relayState;
      assert.equal((await form(new URLSearchParams({ RelayState }))).status, 400);
      assert.equal((await form("SAMLResponse=YQ&SAMLResponse=YQ")).status, 400);
      assert.equal((await form(new URLSearchParams({ SAMLResponse: "a".repeat(400_000) }))).status, 413);
      assert.equal((await form("{}", "application/json")).status, 415);
      assert("access_token" in (await bring(asked, signed(asked))), "the sign-in itself goes on");
    });

    it("an encrypted assertion is refused", async () => {
      const asked = await ask();
      const xml = signed(asked);
      const hidden = `<saml:EncryptedAssertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"/>`;
      await assertRefused(asked, xml.replace(ASSERTION, hidden));
      const beside = await ask();
      await assertRefused(beside, signed(beside).replace("</samlp:Response>", `${hidden}</samlp:Response>`));
    });
  });
});
