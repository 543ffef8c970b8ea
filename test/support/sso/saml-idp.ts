import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { inflateRawSync } from "node:zlib";
import { aBrowser, type Browser, told } from "../providers/oauth.ts";
import type { Tenant } from "../app/app.ts";
import { type SsoServer, ssoUrl } from "./server.ts";

/** The part of samlify that tests use; its own types would bring those of browsers into every file. */
type Samlify = {
  setSchemaValidator(validator: { validate(xml: string): Promise<unknown> }): void;
  ServiceProvider(settings: { metadata: string }): ServiceProvider;
  IdentityProvider(settings: object): IdentityProvider;
  SamlLib: {
    constructSAMLSignature(options: {
      rawSamlMessage: string;
      referenceTagXPath?: string;
      isMessageSigned?: boolean;
      privateKey: string;
      signingCert: string;
      signatureAlgorithm: string;
      isBase64Output: false;
      signatureConfig: { prefix: string; location: { reference: string; action: "after" } };
    }): string;
  };
};
type ServiceProvider = {
  entityMeta: {
    getEntityID(): string;
    getAssertionConsumerService(binding: string): string;
    isWantAssertionsSigned(): boolean;
  };
};
type LoginRequest = {
  extract: { request: { id: string; assertionConsumerServiceUrl: string }; issuer: string };
};
type IdentityProvider = {
  parseLoginRequest(
    sp: ServiceProvider,
    binding: "redirect",
    request: { query: object },
  ): Promise<LoginRequest>;
  createLoginResponse(
    sp: ServiceProvider,
    request: LoginRequest,
    binding: "post",
    user: { email: string },
  ): Promise<{ context: string; entityEndpoint: string }>;
};

export const samlify = createRequire(import.meta.url)("samlify") as Samlify;
samlify.setSchemaValidator({ validate: async () => "not validated" });

export const ENTITY_ID = "https://idp.test/metadata";
const RSA_SHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256";
const EMAIL_FORMAT = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress";
const BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer";
const SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success";

/** Of which samlify warns where it is missing. */
export const LOGOUT = [
  { Binding: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect", Location: "https://idp.test/slo" },
];

export type Key = { key: string; cert: string };

/** What the browser was sent to the identity provider with. */
export type Asked = {
  browser: Browser;
  requestXml: string;
  requestId: string;
  relayState: string;
  acsUrl: string;
  spEntityId: string;
};

/** Begins a sign-in, as far as the identity provider. */
export const toIdp = async (server: SsoServer, tenant: Tenant, parameters = {}): Promise<Asked> => {
  const browser = aBrowser();
  const { at } = await browser.go(ssoUrl(server, tenant, parameters));
  const metadata = `${server.url}/api/v1/auth/sso/saml/${tenant.tenantId}/metadata`;
  const sp = samlify.ServiceProvider({ metadata: await (await fetch(metadata)).text() });
  const idp = samlify.IdentityProvider({
    entityID: ENTITY_ID,
    wantAuthnRequestsSigned: false,
    singleLogoutService: LOGOUT,
    singleSignOnService: [
      { Binding: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect", Location: "https://idp.test/sso" },
    ],
  });
  const query = Object.fromEntries(at.searchParams);
  const { extract } = await idp.parseLoginRequest(sp, "redirect", { query });
  return {
    browser,
    requestXml: inflateRawSync(Buffer.from(query["SAMLRequest"] ?? "", "base64")).toString(),
    requestId: extract.request.id,
    relayState: query["RelayState"] ?? "",
    acsUrl: extract.request.assertionConsumerServiceUrl,
    spEntityId: extract.issuer,
  };
};

/** The parts of a response, each of which a test may change; null leaves one out. */
export type Parts = {
  assertionId: string;
  issuer: string;
  responseIssuer: string | null;
  destination: string | null;
  responseInResponseTo: string | null;
  inResponseTo: string | null;
  recipient: string | null;
  audience: string | null;
  method: string;
  confirmation: string | null;
  status: string;
  nameId: string;
  format: string;
  nameIdXml: string;
  attributes: Record<string, string>;
  issuedAt: Date;
  notBefore: Date;
  conditionsUntil: Date | null;
  confirmedUntil: Date | null;
  confirmedFrom: Date | null;
};

const attribute = (name: string, value: string | null): string =>
  value === null ? "" : ` ${name}="${value}"`;
const time = (name: string, value: Date | null): string => attribute(name, value?.toISOString() ?? null);
const in_ = (ms: number): Date => new Date(Date.now() + ms);

export const partsOf = (
  { requestId, acsUrl, spEntityId }: Pick<Asked, "requestId" | "acsUrl" | "spEntityId">,
  nameId: string,
  changed: Partial<Parts> = {},
): Parts => ({
  assertionId: `_${randomUUID()}`,
  issuer: ENTITY_ID,
  responseIssuer: ENTITY_ID,
  destination: acsUrl,
  responseInResponseTo: requestId,
  inResponseTo: requestId,
  recipient: acsUrl,
  audience: spEntityId,
  method: BEARER,
  confirmation: "",
  status: SUCCESS,
  nameId,
  format: EMAIL_FORMAT,
  nameIdXml: "",
  attributes: {},
  issuedAt: in_(0),
  notBefore: in_(-5_000),
  conditionsUntil: in_(300_000),
  confirmedUntil: in_(300_000),
  confirmedFrom: null,
  ...changed,
});

const confirmationXml = (parts: Parts): string => {
  const data =
    attribute("InResponseTo", parts.inResponseTo) +
    attribute("Recipient", parts.recipient) +
    time("NotBefore", parts.confirmedFrom) +
    time("NotOnOrAfter", parts.confirmedUntil);
  return (
    `<saml:SubjectConfirmation Method="${parts.method}">` +
    `<saml:SubjectConfirmationData${data}/></saml:SubjectConfirmation>`
  );
};

export const assertionXml = (parts: Parts): string => {
  const attributes = Object.entries(parts.attributes).map(
    ([name, value]) =>
      `<saml:Attribute Name="${name}"><saml:AttributeValue>${value}</saml:AttributeValue></saml:Attribute>`,
  );
  const audience =
    parts.audience === null
      ? ""
      : `<saml:AudienceRestriction><saml:Audience>${parts.audience}</saml:Audience>` +
        `</saml:AudienceRestriction>`;
  return (
    `<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="${parts.assertionId}" ` +
    `Version="2.0" IssueInstant="${parts.issuedAt.toISOString()}">` +
    `<saml:Issuer>${parts.issuer}</saml:Issuer>` +
    `<saml:Subject><saml:NameID Format="${parts.format}">${parts.nameId}</saml:NameID>${parts.nameIdXml}` +
    `${parts.confirmation === null ? "" : confirmationXml(parts)}</saml:Subject>` +
    `<saml:Conditions${time("NotBefore", parts.notBefore)}${time("NotOnOrAfter", parts.conditionsUntil)}>` +
    `${audience}</saml:Conditions>` +
    `<saml:AuthnStatement AuthnInstant="${parts.issuedAt.toISOString()}"><saml:AuthnContext>` +
    `<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef>` +
    `</saml:AuthnContext></saml:AuthnStatement>` +
    `<saml:AttributeStatement>${attributes.join("") || '<saml:Attribute Name="x"/>'}` +
    `</saml:AttributeStatement>` +
    `</saml:Assertion>`
  );
};

export const responseXml = (parts: Parts, assertion = assertionXml(parts)): string => {
  const issuer =
    parts.responseIssuer === null
      ? ""
      : `<saml:Issuer xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">${parts.responseIssuer}` +
        `</saml:Issuer>`;
  return (
    `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ` +
    `ID="_${randomUUID()}" Version="2.0" ` +
    `IssueInstant="${parts.issuedAt.toISOString()}"${attribute("Destination", parts.destination)}` +
    `${attribute("InResponseTo", parts.responseInResponseTo)}>${issuer}` +
    `<samlp:Status><samlp:StatusCode Value="${parts.status}"/></samlp:Status>${assertion}</samlp:Response>`
  );
};

type Signing = { key: string; cert: string; algorithm?: string };

/** Signs by samlify, with the signature after `reference`. */
const sign = (
  xml: string,
  { key, cert, algorithm = RSA_SHA256 }: Signing,
  reference: string,
  of: { referenceTagXPath: string } | { isMessageSigned: true },
): string =>
  samlify.SamlLib.constructSAMLSignature({
    rawSamlMessage: xml,
    ...of,
    privateKey: key,
    signingCert: cert.replaceAll(/-----[^-]+-----|\s/g, ""),
    signatureAlgorithm: algorithm,
    isBase64Output: false,
    signatureConfig: { prefix: "ds", location: { reference, action: "after" } },
  });

const ASSERTION = "//*[local-name(.)='Assertion']";

/** Signs the assertion of a response. */
export const signAssertion = (xml: string, signing: Signing): string =>
  sign(xml, signing, `${ASSERTION}/*[local-name(.)='Issuer']`, { referenceTagXPath: ASSERTION });

/** Signs a whole response. */
export const signResponse = (xml: string, signing: Signing): string =>
  sign(xml, signing, "/*/*[local-name(.)='Issuer']", { isMessageSigned: true });

type Posted = { status: number; at: URL | undefined; body: string };

/** Posts a form as a page of the identity provider does. */
export const postForm = async (
  browser: Browser,
  url: string,
  fields: Record<string, string>,
): Promise<Posted> => {
  const cookies = browser.cookies.get(new URL(url).origin) ?? new Map<string, string>();
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const response = await fetch(url, {
    method: "POST",
    redirect: "manual",
    headers: { origin: "https://idp.test", ...(cookie && { cookie }) },
    body: new URLSearchParams(fields),
  });
  const location = response.headers.get("location");
  return {
    status: response.status,
    at: location === null ? undefined : new URL(location),
    body: await response.text(),
  };
};

/** Brings a response to the server; what the console is told. */
export const bring = async (asked: Asked, xml: string): Promise<Record<string, string>> => {
  const form = { SAMLResponse: Buffer.from(xml).toString("base64"), RelayState: asked.relayState };
  const { at, body } = await postForm(asked.browser, asked.acsUrl, form);
  return at ? told(at) : { status: body };
};
