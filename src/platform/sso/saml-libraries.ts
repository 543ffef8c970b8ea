import { createRequire } from "node:module";

/** The part of a DOM node that this server reads. */
export type XmlNode = {
  nodeType: number;
  parentNode: XmlNode | null;
  firstChild: XmlNode | null;
  nextSibling: XmlNode | null;
  textContent: string | null;
};
export type XmlElement = XmlNode & {
  localName: string;
  namespaceURI: string | null;
  hasAttribute(name: string): boolean;
  getAttribute(name: string): string | null;
};
export type XmlDocument = { documentElement: XmlElement };

type ErrorHandler = Record<"warning" | "error" | "fatalError", (message: string) => void>;
type ParserClass = new (options: { errorHandler: ErrorHandler }) => {
  parseFromString(text: string, type: "text/xml"): XmlDocument;
};

/** What a service provider remembers of its requests. */
export type RequestCache = {
  saveAsync(key: string, value: string): Promise<{ value: string; createdAt: number }>;
  getAsync(key: string): Promise<string | null>;
  removeAsync(key: string | null): Promise<string | null>;
};

/** Options of node-saml 5.1 that this server sets. */
export type SamlConfig = {
  callbackUrl: string;
  entryPoint: string;
  issuer: string;
  audience: string;
  idpCert: string[];
  wantAssertionsSigned: boolean;
  wantAuthnResponseSigned: boolean;
  acceptedClockSkewMs: number;
  maxAssertionAgeMs: number;
  disableRequestedAuthnContext: boolean;
  identifierFormat: null;
  signatureAlgorithm: "sha256";
  generateUniqueId?: () => string;
  validateInResponseTo?: "always" | "never";
  cacheProvider?: RequestCache;
};

type Verified = { profile: { getAssertionXml?(): string } | null };
type SamlClass = new (config: SamlConfig) => {
  getAuthorizeUrlAsync(relayState: string, host: undefined, options: object): Promise<string>;
  validatePostResponseAsync(container: { SAMLResponse: string }): Promise<Verified>;
};

// Their own types would bring those of browsers into every file.
const require = createRequire(import.meta.url);

// Loaded when somebody signs in by SAML: they are large, and every start would wait for them.
export const loadSaml = () => require("@node-saml/node-saml") as { SAML: SamlClass };
export const loadDom = () => require("@xmldom/xmldom") as { DOMParser: ParserClass };
