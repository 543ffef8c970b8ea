import { OAuthError, profileFrom } from "../../domain/accounts/oauth/provider.ts";
import type { SamlArrival, SamlClaims, SamlSettings, SsoClients } from "../../domain/accounts/sso/clients.ts";
import {
  ASSERTION_NS,
  attributeOf,
  checkShape,
  childrenOf,
  decodeResponse,
  elementsIn,
  loadSaml,
  onlyChild,
  parseXml,
  PROTOCOL_NS,
  SamlRefused,
  type XmlElement,
} from "./saml-document.ts";

const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);

const consumer = (acsUrl: string, index: number): string =>
  `<AssertionConsumerService index="${index}" isDefault="${index === 0}"
      Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="${escaped(acsUrl)}"/>`;

type Metadata = { spEntityId: string; acsUrls: readonly string[] };

/** Returns the metadata of a tenant's service provider (SAML 2.0 Metadata, 2.4.4). */
const samlMetadata = ({ spEntityId, acsUrls }: Metadata): string =>
  `<?xml version="1.0" encoding="UTF-8"?>
<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${escaped(spEntityId)}">
  <SPSSODescriptor AuthnRequestsSigned="false" WantAssertionsSigned="true"
      protocolSupportEnumeration="${PROTOCOL_NS}">
    <NameIDFormat>urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress</NameIDFormat>
    <NameIDFormat>urn:oasis:names:tc:SAML:2.0:nameid-format:persistent</NameIDFormat>
    ${acsUrls.map(consumer).join("\n    ")}
  </SPSSODescriptor>
</EntityDescriptor>
`;

/** How far the clock of an identity provider may be off, in ms. */
const SKEW_MS = 60_000;
/** Maximum age of an assertion, whatever it says itself, in ms. */
const AGE_MAX_MS = 600_000;
/** Maximum length of what is quoted of an answer. */
const QUOTED_MAX = 200;
const BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer";
const SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success";
const TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient";
const EMAIL_FORMAT = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress";
/** Also where none is told. */
const UNSPECIFIED = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified";

/** Attributes that hold the address, by precedence. */
const EMAILS = [
  "email",
  "mail",
  "urn:oid:0.9.2342.19200300.100.1.3",
  "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
  "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
];
const NAMES = [
  "name",
  "displayName",
  "urn:oid:2.16.840.1.113730.3.1.241",
  "http://schemas.microsoft.com/identity/claims/displayname",
];
const GIVEN_NAMES = [
  "givenName",
  "firstName",
  "urn:oid:2.5.4.42",
  "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname",
];
const SURNAMES = [
  "surname",
  "lastName",
  "sn",
  "urn:oid:2.5.4.4",
  "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/surname",
];

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$/;

const timeOf = (element: XmlElement, name: string): number | undefined => {
  const text = attributeOf(element, name);
  if (text === undefined) return undefined;
  const ms = TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms)) throw new SamlRefused(`${name} is not a time in UTC`);
  return ms;
};

const textOf = (element: XmlElement): string => (element.textContent ?? "").trim();

/** Checks that now is within an element's NotBefore and NotOnOrAfter. */
const checkWindow = (element: XmlElement, now: Date): void => {
  const [from, until] = [timeOf(element, "NotBefore"), timeOf(element, "NotOnOrAfter")];
  if (until === undefined) throw new SamlRefused(`${element.localName} has no NotOnOrAfter`);
  if (now.getTime() - SKEW_MS >= until) throw new SamlRefused(`${element.localName} has expired`);
  if (from !== undefined && now.getTime() + SKEW_MS < from)
    throw new SamlRefused(`${element.localName} is not valid yet`);
};

/** Checks what the response itself says, which may be unsigned: it can only make it refused. */
const checkResponse = (root: XmlElement, settings: SamlSettings, { requestId }: SamlArrival): void => {
  const status = onlyChild(onlyChild(root, PROTOCOL_NS, "Status"), PROTOCOL_NS, "StatusCode");
  if (attributeOf(status, "Value") !== SUCCESS) {
    const reason = { text: saidIn(status), isAnybodys: true };
    throw new OAuthError("access_denied", "The sign-in was refused at the provider", undefined, reason);
  }
  const destination = attributeOf(root, "Destination");
  if (destination !== undefined && destination !== settings.acsUrl)
    throw new SamlRefused(`Destination is not ${settings.acsUrl}`);
  if (attributeOf(root, "InResponseTo") !== requestId)
    throw new SamlRefused("InResponseTo is not the request of this browser");
  for (const issuer of childrenOf(root, ASSERTION_NS, "Issuer"))
    if (textOf(issuer) !== settings.entityId) throw otherIssuer(issuer);
};

/** The status that a provider gives instead of an assertion: codes within codes, the inner one says more. */
const saidIn = (status: XmlElement): string => {
  const codes = [status, ...childrenOf(status, PROTOCOL_NS, "StatusCode")].map(
    (one) => attributeOf(one, "Value")?.split(":").at(-1) ?? "",
  );
  return `the browser came back with ${codes.join(", ")}`.slice(0, QUOTED_MAX);
};

const otherIssuer = (issuer: XmlElement): SamlRefused =>
  new SamlRefused(`Issuer is not samlEntityId, but ${textOf(issuer).slice(0, QUOTED_MAX)}`);

const confirmationProblem = (
  confirmation: XmlElement,
  { acsUrl }: SamlSettings,
  { requestId, now }: SamlArrival,
): string | undefined => {
  if (attributeOf(confirmation, "Method") !== BEARER) return "its method is not bearer";
  const data = onlyChild(confirmation, ASSERTION_NS, "SubjectConfirmationData");
  if (attributeOf(data, "Recipient") !== acsUrl) return `Recipient is not ${acsUrl}`;
  if (attributeOf(data, "InResponseTo") !== requestId) return "InResponseTo is another request";
  if (attributeOf(data, "NotBefore") !== undefined) return "it must have no NotBefore";
  checkWindow(data, now);
  return undefined;
};

/** Requires a confirmation that is for us, for this request, now. */
const checkSubject = (subject: XmlElement, settings: SamlSettings, arrival: SamlArrival): void => {
  const confirmations = childrenOf(subject, ASSERTION_NS, "SubjectConfirmation");
  const problems = confirmations.map((one) => confirmationProblem(one, settings, arrival));
  if (problems.includes(undefined)) return;
  throw new SamlRefused(`SubjectConfirmation: ${problems[0] ?? "there is none"}`);
};

const checkConditions = (assertion: XmlElement, { spEntityId }: SamlSettings, now: Date): void => {
  const conditions = onlyChild(assertion, ASSERTION_NS, "Conditions");
  checkWindow(conditions, now);
  const restrictions = childrenOf(conditions, ASSERTION_NS, "AudienceRestriction");
  const isForUs = (restriction: XmlElement): boolean =>
    childrenOf(restriction, ASSERTION_NS, "Audience").some((one) => textOf(one) === spEntityId);
  if (restrictions.length === 0 || !restrictions.every(isForUs))
    throw new SamlRefused(`Audience is not ${spEntityId}`);
  const issuedMs = timeOf(assertion, "IssueInstant");
  if (issuedMs === undefined || now.getTime() - issuedMs > AGE_MAX_MS + SKEW_MS)
    throw new SamlRefused("IssueInstant is too long ago");
  if (issuedMs - now.getTime() > SKEW_MS) throw new SamlRefused("IssueInstant is in the future");
};

const attributesOf = (assertion: XmlElement): Map<string, string> => {
  const found = new Map<string, string>();
  for (const attribute of elementsIn(assertion, ASSERTION_NS, "Attribute")) {
    const name = attributeOf(attribute, "Name") ?? "";
    const [value] = childrenOf(attribute, ASSERTION_NS, "AttributeValue");
    if (value && !found.has(name)) found.set(name, textOf(value));
  }
  return found;
};

/** Returns the address and the name of a person; what is no address counts as none later. */
const personIn = (assertion: XmlElement, format: string, nameId: string) => {
  const attributes = attributesOf(assertion);
  const first = (names: readonly string[]): string | undefined =>
    names.map((name) => attributes.get(name)).find((value) => value !== undefined && value !== "");
  const told = first(EMAILS) ?? (format === UNSPECIFIED ? nameId : undefined);
  const parts = [first(GIVEN_NAMES), first(SURNAMES)].filter((one) => one !== undefined);
  return { email: format === EMAIL_FORMAT ? nameId : told, name: first(NAMES) ?? parts.join(" ") };
};

/**
 * Checks a signed assertion and returns its claims. Nothing but the bytes that were signed is looked at.
 * @throws SamlRefused, OAuthError provider_error
 */
const claimsFromAssertion = (
  assertion: XmlElement,
  settings: SamlSettings,
  arrival: SamlArrival,
): SamlClaims => {
  if (assertion.localName !== "Assertion" || assertion.namespaceURI !== ASSERTION_NS)
    throw new SamlRefused("what is signed is not an assertion");
  const assertionId = attributeOf(assertion, "ID") ?? "";
  if (assertionId === "") throw new SamlRefused("the assertion has no ID");
  const issuer = textOf(onlyChild(assertion, ASSERTION_NS, "Issuer"));
  if (issuer !== settings.entityId) throw otherIssuer(onlyChild(assertion, ASSERTION_NS, "Issuer"));
  const subject = onlyChild(assertion, ASSERTION_NS, "Subject");
  checkSubject(subject, settings, arrival);
  checkConditions(assertion, settings, arrival.now);
  const nameId = onlyChild(subject, ASSERTION_NS, "NameID");
  const format = attributeOf(nameId, "Format") ?? UNSPECIFIED;
  if (format === TRANSIENT) {
    const message =
      "The provider names you anew each time: its NameID must be persistent, or the email address";
    const reason = { text: message, isAnybodys: false };
    throw new OAuthError("provider_error", message, new SamlRefused("NameID is transient"), reason);
  }
  const subjectName = textOf(nameId);
  const person = personIn(assertion, format, subjectName);
  return {
    issuer,
    ...profileFrom({ subject: subjectName, isEmailVerified: true, ...person }),
    isEmailVerified: false,
    isEmailUnproved: false,
    assertionId,
    // As long as a copy could be accepted: by its age, however long it says that it is valid.
    validUntil: new Date(arrival.now.getTime() + AGE_MAX_MS + 2 * SKEW_MS),
  };
};

const configOf = (settings: SamlSettings) => ({
  callbackUrl: settings.acsUrl,
  entryPoint: settings.ssoUrl,
  issuer: settings.spEntityId,
  audience: settings.spEntityId,
  idpCert: [...settings.certificates],
  wantAssertionsSigned: true,
  // A response may be signed besides its assertion.
  wantAuthnResponseSigned: false,
  acceptedClockSkewMs: SKEW_MS,
  maxAssertionAgeMs: AGE_MAX_MS,
  // How somebody proves who they are is the provider's business.
  disableRequestedAuthnContext: true,
  // The provider's own choice: an address or a persistent id.
  identifierFormat: null,
  signatureAlgorithm: "sha256",
  // `checkResponse` and `confirmationProblem` say whose answer it is, as the library would, and more.
  validateInResponseTo: "never",
});

const verify = async (settings: SamlSettings, arrival: SamlArrival): Promise<SamlClaims> => {
  if (settings.certificates.length === 0)
    throw new SamlRefused("no certificate of the identity provider is valid now");
  const signed = await signedIn(settings, arrival);
  try {
    return claimsFromAssertion(parseXml(signed).documentElement, settings, arrival);
  } catch (error) {
    throw refusal(error, false);
  }
};

/** Verifies the signature, and what the library checks besides. @returns the XML that was signed */
const signedIn = async (settings: SamlSettings, arrival: SamlArrival): Promise<string> => {
  const xml = decodeResponse(arrival.response);
  checkResponse(checkShape(parseXml(xml)), settings, arrival);
  const { SAML } = loadSaml();
  const container = { SAMLResponse: Buffer.from(xml).toString("base64") };
  const { profile } = await new SAML(configOf(settings)).validatePostResponseAsync(container);
  const assertion = profile?.getAssertionXml?.();
  if (assertion === undefined) throw new SamlRefused("it has no assertion");
  return assertion;
};

/** Maximum length of what the library says: it may quote what it has found. */
const REASON_MAX = 300;

/**
 * One message for all that is wrong: who signs in cannot mend it. `isAnybodys`: no signature says yet that it
 * comes from the provider.
 */
const refusal = (error: unknown, isAnybodys = true): OAuthError => {
  if (error instanceof OAuthError) return error;
  const text = error instanceof Error ? error.message.slice(0, REASON_MAX) : "it cannot be read";
  const reason = { text, isAnybodys };
  return new OAuthError("provider_error", "The provider's answer could not be trusted", error, reason);
};

/** A SAML 2.0 service provider, one for all tenants. */
export const createSaml = (probe: SsoClients["saml"]["probe"]): SsoClients["saml"] => ({
  probe,
  authorizationUrl: (settings, { requestId, relayState }) => {
    const { SAML } = loadSaml();
    const library = new SAML({ ...configOf(settings), generateUniqueId: () => requestId });
    return library.getAuthorizeUrlAsync(relayState, undefined, {});
  },
  claimsOf: async (settings, arrival) => {
    try {
      return await verify(settings, arrival);
    } catch (error) {
      throw refusal(error);
    }
  },
  metadata: samlMetadata,
});
