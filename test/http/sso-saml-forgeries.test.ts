import assert from "node:assert/strict";
import { parseXml } from "../../src/platform/sso/saml-document.ts";
import {
  type Asked,
  assertionXml,
  bring,
  partsOf,
  postForm,
  responseXml,
  signAssertion,
  signResponse,
} from "../support/sso/saml-idp.ts";
import { samlStage } from "../support/sso/saml-stage.ts";

const SIGNATURE = /<ds:Signature[\s\S]*?<\/ds:Signature>/;
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
