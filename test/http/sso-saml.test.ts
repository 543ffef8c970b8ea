import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { aTenant } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aBrowser, told } from "../support/providers/oauth.ts";
import {
  type Asked,
  bring,
  ENTITY_ID,
  type Key,
  LOGOUT,
  type Parts,
  partsOf,
  postForm,
  responseXml,
  samlify,
  signAssertion,
  signResponse,
  toIdp,
} from "../support/sso/saml-idp.ts";
import { aSigningKey, aVerifiedDomain, putSso, samlConfig, ssoServer } from "../support/sso/server.ts";
import { madeOnce } from "../support/made.ts";

const TOKENS = ["access_token", "expires_in", "refresh_token", "token_type"];
const PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent";

const hasXmlsec = (): boolean => {
  try {
    execFileSync("xmlsec1", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

describe("single sign-on by SAML", () => {
  const { api, server } = ssoServer();
  const tenant = madeOnce(() => aTenant(server));
  let domain: string;
  const idp = aSigningKey();

  const configure = async (more: object = {}) =>
    must(await putSso(server, tenant, samlConfig(idp.cert, { autoProvision: true, ...more })), 200);
  const anEmail = () => `${randomUUID()}@${domain}`;
  const signedFor = (
    asked: Asked,
    email: string,
    { key = idp, ...changed }: Partial<Parts> & { key?: Key } = {},
  ) => signAssertion(responseXml(partsOf(asked, email, changed)), key);
  const signIn = async (email: string, changed: Partial<Parts> & { key?: Key } = {}) => {
    const asked = await toIdp(server, tenant);
    return bring(asked, signedFor(asked, email, changed));
  };
  const me = async ({ access_token: token = "" }: Record<string, string>) =>
    must(await server.get("/api/v1/auth/me", { token }), 200).user;

  before(async () => {
    domain = await aVerifiedDomain(server, tenant);
  });
  beforeEach(() => configure());

  it("signs in whom the identity provider names, and makes a member of somebody new", async () => {
    const email = anEmail();
    const answer = await signIn(email, { attributes: { displayName: "Grace Hopper" } });
    assert.deepEqual(Object.keys(answer).toSorted(), TOKENS);
    const user = await me(answer);
    assert.deepEqual([user.email, user.name, user.role], [email, "Grace Hopper", "VIEWER"]);
    assert.equal((await me(await signIn(email))).id, user.id);
  });

  it("reads the address from attributes where the name is another id, which stays the person", async () => {
    for (const name of [
      "email",
      "mail",
      "urn:oid:0.9.2342.19200300.100.1.3",
      "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
    ]) {
      const [id, email] = [randomUUID(), anEmail()];
      const user = await me(await signIn(id, { format: PERSISTENT, attributes: { [name]: email } }));
      assert.equal(user.email, email);
      assert.equal((await me(await signIn(id, { format: PERSISTENT }))).id, user.id);
    }
  });

  it("leaves it to the provider by which kind of NameID it names people", async () => {
    const { requestXml } = await toIdp(server, tenant);
    assert.match(requestXml, /<samlp:NameIDPolicy [^>]*AllowCreate="true"/);
    assert.doesNotMatch(requestXml, /nameid-format/);
  });

  it("takes the address from a NameID without a format where no attribute has one, by the rules for others", async () => {
    const format = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified";
    const email = anEmail();
    assert.equal((await me(await signIn(email, { format }))).email, email);
    const [other, named] = [anEmail(), anEmail()];
    assert.equal((await me(await signIn(other, { format, attributes: { email: named } }))).email, named);
    const foreign = await aTenant(server);
    assert.equal((await signIn(foreign.email, { format }))["error"], "email_not_verified");
    assert.equal((await signIn("grace", { format }))["error"], "email_missing");
    assert.equal((await signIn(anEmail(), { format: PERSISTENT }))["error"], "email_missing");
  });

  it("calls somebody new by their given name and surname where the provider tells no whole name", async () => {
    const claims = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims";
    const attributes = { [`${claims}/givenname`]: "Grace", [`${claims}/surname`]: "Hopper" };
    assert.equal((await me(await signIn(anEmail(), { attributes }))).name, "Grace Hopper");
    assert.equal((await me(await signIn(anEmail(), { attributes: { firstName: "Grace" } }))).name, "Grace");
    const whole = { ...attributes, displayName: "Rear Admiral Hopper" };
    assert.equal((await me(await signIn(anEmail(), { attributes: whole }))).name, "Rear Admiral Hopper");
  });

  it("takes a response that is signed as well", async () => {
    const asked = await toIdp(server, tenant);
    const answer = await bring(asked, signResponse(signedFor(asked, anEmail()), idp));
    assert("access_token" in answer, JSON.stringify(answer));
  });

  it("signs in members whose domain is verified, and nobody by any other address", async () => {
    const member = await aMember(api, tenant.tenantId, "ADMIN");
    assert.equal((await signIn(member.email))["error"], "email_not_verified");
    const other = await aTenant(server);
    assert.equal((await signIn(other.email))["error"], "email_not_verified");
  });

  it("takes the keys of all its certificates while one is exchanged for the next", async () => {
    const next = aSigningKey();
    await configure({ samlCertificate: `${idp.cert}\n${next.cert}` });
    for (const key of [idp, next]) assert("access_token" in (await signIn(anEmail(), { key })));
    assert.equal((await signIn(anEmail(), { key: aSigningKey() }))["error"], "provider_error");
    await configure({ samlCertificate: next.cert });
    assert.equal((await signIn(anEmail()))["error"], "provider_error");
    assert("access_token" in (await signIn(anEmail(), { key: next })));
  });

  it("takes no key whose certificate has expired since, and begins no sign-in then", async () => {
    const { SsoConfiguration } = await import("../../src/domain/accounts/sso/configuration.ts");
    const expired = aSigningKey(-1);
    const { tenantId } = tenant;
    const store = (samlCertificate: string) =>
      api.app.transact(({ em }) => em.nativeUpdate(SsoConfiguration, { tenantId }, { samlCertificate }));
    await store(`${idp.cert}${expired.cert}`);
    assert.equal((await signIn(anEmail(), { key: expired }))["error"], "provider_error");
    assert("access_token" in (await signIn(anEmail())));
    await store(expired.cert);
    const started = await aBrowser().visit(
      `${server.url}/api/v1/auth/sso/${tenantId}?redirect_uri=${encodeURIComponent("https://console.test.example/oauth?from=laurel")}`,
    );
    assert.match(told(new URL(started.headers.get("location")!))["error_description"]!, /certificate/);
  });

  it("has metadata that another implementation reads, before there is a configuration", async () => {
    const other = await aTenant(server);
    const url = `${server.url}/api/v1/auth/sso/saml/${other.tenantId}`;
    const answer = await fetch(`${url}/metadata`);
    assert.equal(answer.headers.get("content-type"), "application/samlmetadata+xml");
    const { entityMeta } = samlify.ServiceProvider({ metadata: await answer.text() });
    assert.equal(entityMeta.getEntityID(), `${url}/metadata`);
    assert.equal(entityMeta.getAssertionConsumerService("post"), `${url}/acs`);
    assert.equal(entityMeta.isWantAssertionsSigned(), true);
    const unknown = `/api/v1/auth/sso/saml/${randomUUID()}/metadata`;
    assertError(await server.get(unknown), 404);
  });

  it("works with a whole identity provider of another code base", async () => {
    const email = anEmail();
    const asked = await toIdp(server, tenant);
    const provider = samlify.IdentityProvider({
      entityID: ENTITY_ID,
      privateKey: idp.key,
      signingCert: idp.cert,
      isAssertionEncrypted: false,
      singleLogoutService: LOGOUT,
      nameIDFormat: ["urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"],
      singleSignOnService: [
        { Binding: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect", Location: "https://idp.test/sso" },
      ],
    });
    const metadata = await (await fetch(asked.spEntityId)).text();
    const sp = samlify.ServiceProvider({ metadata });
    const request = {
      extract: {
        request: { id: asked.requestId, assertionConsumerServiceUrl: asked.acsUrl },
        issuer: asked.spEntityId,
      },
    };
    const { context, entityEndpoint } = await provider.createLoginResponse(sp, request, "post", { email });
    assert.equal(entityEndpoint, asked.acsUrl);
    const form = { SAMLResponse: context, RelayState: asked.relayState };
    const { at } = await postForm(asked.browser, entityEndpoint, form);
    assert.equal((await me(told(at!))).email, email);
  });

  it("verifies what xmlsec1 has signed, and refuses it once it is changed", async function () {
    if (!hasXmlsec()) this.skip();
    const folder = mkdtempSync(join(tmpdir(), "laurel-xmlsec-"));
    try {
      const template =
        `<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:SignedInfo>` +
        `<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/>` +
        `<ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#rsa-sha512"/>` +
        `<ds:Reference URI="#ID"><ds:Transforms>` +
        `<ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/>` +
        `<ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/></ds:Transforms>` +
        `<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"/><ds:DigestValue/>` +
        `</ds:Reference></ds:SignedInfo><ds:SignatureValue/></ds:Signature>`;
      const sign = (asked: Asked, email: string): string => {
        const parts = partsOf(asked, email);
        const xml = responseXml(parts).replace(
          `<saml:Issuer>${ENTITY_ID}</saml:Issuer>`,
          (issuer) => issuer + template.replace("#ID", `#${parts.assertionId}`),
        );
        const file = (name: string) => join(folder, name);
        writeFileSync(file("in.xml"), xml);
        writeFileSync(file("key.pem"), idp.key);
        const options = ["--privkey-pem", file("key.pem"), "--output", file("out.xml")];
        const ids = ["--id-attr:ID", "urn:oasis:names:tc:SAML:2.0:assertion:Assertion"];
        execFileSync("xmlsec1", ["--sign", ...options, ...ids, file("in.xml")], { stdio: "pipe" });
        return readFileSync(file("out.xml"), "utf8");
      };
      const email = anEmail();
      const asked = await toIdp(server, tenant);
      assert.equal((await me(await bring(asked, sign(asked, email)))).email, email);
      const again = await toIdp(server, tenant);
      const tampered = sign(again, email).replace(email, anEmail());
      assert.equal((await bring(again, tampered))["error"], "provider_error");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  describe("begun at the identity provider", () => {
    const parts = (email: string, changed: Partial<Parts> = {}) => {
      const base = `${server.url}/api/v1/auth/sso/saml/${tenant.tenantId}`;
      const us = { requestId: "", acsUrl: `${base}/acs`, spEntityId: `${base}/metadata` };
      return partsOf(us, email, { inResponseTo: null, responseInResponseTo: null, ...changed });
    };
    const post = (xml: string, fields: Record<string, string> = {}) =>
      postForm(aBrowser(), `${server.url}/api/v1/auth/sso/saml/${tenant.tenantId}/acs`, {
        SAMLResponse: Buffer.from(xml).toString("base64"),
        ...fields,
      });

    it("is refused unless the tenant has switched it on; then it gives a code, once", async () => {
      const email = anEmail();
      const xml = signAssertion(responseXml(parts(email)), idp);
      assert.equal((await post(xml)).status, 400);
      await configure({ samlIdpInitiated: true });
      const { code, ...rest } = told((await post(xml)).at!);
      assert.deepEqual(rest, {});
      assert.equal(must(await server.post("/api/v1/auth/oauth/exchange", { code }), 200).user.email, email);
      assert.equal(told((await post(xml)).at!)["error"], "provider_error");
    });

    it("counts one of several copies that come at once", async () => {
      await configure({ samlIdpInitiated: true });
      const xml = signAssertion(responseXml(parts(anEmail())), idp);
      const answers = await Promise.all(Array.from({ length: 6 }, () => post(xml)));
      const codes = answers.filter(({ at }) => at && "code" in told(at));
      assert.equal(codes.length, 1);
    });

    it("takes no answer to a request of somebody else's browser", async () => {
      await configure({ samlIdpInitiated: true });
      const asked = await toIdp(server, tenant);
      const xml = signedFor(asked, anEmail());
      assert.equal(told((await post(xml)).at!)["error"], "provider_error");
      const loose = responseXml(parts(anEmail(), { inResponseTo: asked.requestId }));
      assert.equal(told((await post(signAssertion(loose, idp))).at!)["error"], "provider_error");
    });
  });
});
