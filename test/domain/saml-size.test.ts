import assert from "node:assert/strict";
import { checkShape, decodeResponse, parseXml } from "../../src/platform/sso/saml-document.ts";
import { type Asked, partsOf, responseXml, signAssertion } from "../support/sso/saml-idp.ts";
import { aSigningKey } from "../support/sso/server.ts";

const idp = aSigningKey();
const asked = { requestId: "_q", acsUrl: "http://localhost/acs", spEntityId: "sp" } as unknown as Asked;
const SIGNED = signAssertion(responseXml(partsOf(asked, "ada@acme.test")), idp);
const CANONICAL = /<ds:Transform Algorithm="http:\/\/www.w3.org\/2001\/10\/xml-exc-c14n#"\/>/;

const decode = (xml: string): string => decodeResponse(Buffer.from(xml).toString("base64"));
const shapeOf = (xml: string) => checkShape(parseXml(decode(xml)));
const many = (count: number, of: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => of(i)).join("");
const inRoot = (attributes: string) => SIGNED.replace("<samlp:Response ", `<samlp:Response ${attributes} `);
const inStatement = (xml: string) =>
  SIGNED.replace("</saml:AttributeStatement>", `${xml}</saml:AttributeStatement>`);

describe("the size of a SAML response", () => {
  it("is within the limits for a person of 200 roles, each value with its type", () => {
    const value = (i: number) =>
      `<saml:AttributeValue xmlns:xs="http://www.w3.org/2001/XMLSchema" xsi:type="xs:string"` +
      ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">role-${i}</saml:AttributeValue>`;
    const roles = `<saml:Attribute Name="roles">${many(200, value)}</saml:Attribute>`;
    assert.equal(shapeOf(inStatement(roles)).localName, "Response");
  });

  for (const [what, xml] of Object.entries({
    "namespaces in one element": inRoot(many(100, (i) => ` xmlns:n${i}="u"`)),
    "attributes in one element": inRoot(many(100, (i) => ` a${i}=''`)),
    "attributes in all elements": inStatement(many(390, () => '<b a="" b="" c="" d="" e=""/>')),
  }))
    it(`is refused before it is parsed for too many ${what}`, () => {
      assert.throws(() => decode(xml), /attributes/);
    });

  it("is refused for transforms and prefixes that would each be done again and again", () => {
    assert.match(SIGNED, CANONICAL);
    const transforms = SIGNED.replace(CANONICAL, (own) => own.repeat(3));
    assert.throws(() => shapeOf(transforms), /transforms/);
    const prefixes = `xmlns="http://www.w3.org/2001/10/xml-exc-c14n#" PrefixList="${"n ".repeat(200)}`;
    const included = SIGNED.replace(CANONICAL, (own) =>
      own.replace("/>", `><InclusiveNamespaces ${prefixes}"/></ds:Transform>`),
    );
    assert.throws(() => shapeOf(included), /prefixes/);
  });
});
