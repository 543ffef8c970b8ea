import { createRequire } from "node:module";

/** The part of a DOM node that this server reads. */
type XmlNode = {
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

type Verified = { profile: { getAssertionXml?(): string } | null };
type SamlClass = new (config: object) => {
  getAuthorizeUrlAsync(relayState: string, host: undefined, options: object): Promise<string>;
  validatePostResponseAsync(container: { SAMLResponse: string }): Promise<Verified>;
};

// Their own types would bring those of browsers into every file.
const require = createRequire(import.meta.url);

// Loaded when somebody signs in by SAML: they are large, and every start would wait for them.
export const loadSaml = () => require("@node-saml/node-saml") as { SAML: SamlClass };
const loadDom = () => require("@xmldom/xmldom") as { DOMParser: ParserClass };

/** Maximum bytes of a response, decoded. */
export const RESPONSE_MAX_BYTES = 192 * 1_024;
/** Maximum elements of a response: each costs time when signatures are verified. */
const ELEMENTS_MAX = 400;
/**
 * Maximum attributes and namespace declarations of all elements, and of one: those of one take quadratic time
 * to parse, and to bring into canonical form.
 */
const ATTRIBUTES_MAX = 1_600;
const ATTRIBUTES_OF_ONE_MAX = 64;
/** Transforms of a signature: the enveloped signature, and the canonical form. */
const TRANSFORMS_MAX = 2;
/** Maximum length of the prefixes that a canonical form includes: they are looked up at each element. */
const PREFIXES_MAX_LENGTH = 256;
/** Maximum depth of elements. */
const DEPTH_MAX = 64;
const ELEMENT = 1;

export const ASSERTION_NS = "urn:oasis:names:tc:SAML:2.0:assertion";
export const PROTOCOL_NS = "urn:oasis:names:tc:SAML:2.0:protocol";
const DSIG_NS = "http://www.w3.org/2000/09/xmldsig#";

/** Why a response is refused, for who runs the provider: nothing of the response but its issuer. */
export class SamlRefused extends Error {}

const SIGNATURES: ReadonlySet<string> = new Set([
  "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
  "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384",
  "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512",
  "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256",
  "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384",
  "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512",
]);
const DIGESTS: ReadonlySet<string> = new Set([
  "http://www.w3.org/2001/04/xmlenc#sha256",
  "http://www.w3.org/2001/04/xmldsig-more#sha384",
  "http://www.w3.org/2001/04/xmlenc#sha512",
]);
const CANONICAL: ReadonlySet<string> = new Set([
  "http://www.w3.org/2001/10/xml-exc-c14n#",
  "http://www.w3.org/2000/09/xmldsig#enveloped-signature",
]);

const ALGORITHMS: readonly (readonly [element: string, allowed: ReadonlySet<string>])[] = [
  ["SignatureMethod", SIGNATURES],
  ["DigestMethod", DIGESTS],
  ["CanonicalizationMethod", CANONICAL],
  ["Transform", CANONICAL],
];

/** Parses XML strictly. @throws SamlRefused */
export const parseXml = (xml: string): XmlDocument => {
  const refuse = (): never => {
    throw new SamlRefused("it is not well-formed XML");
  };
  const errorHandler = { warning: refuse, error: refuse, fatalError: refuse };
  try {
    const { DOMParser } = loadDom();
    return new DOMParser({ errorHandler }).parseFromString(xml, "text/xml");
  } catch {
    return refuse();
  }
};

const isNamed = ({ localName, namespaceURI }: XmlElement, namespace: string, name: string): boolean =>
  (name === "*" || localName === name) && (namespace === "*" || namespaceURI === namespace);

/** Elements below a root, itself included, in document order; of any name, or of one. */
export const elementsIn = (root: XmlElement, namespace = "*", name = "*", depth = 0): XmlElement[] => {
  if (depth > DEPTH_MAX) throw new SamlRefused(`it is deeper than ${DEPTH_MAX}`);
  const below = childrenOf(root).flatMap((child) => elementsIn(child, namespace, name, depth + 1));
  return isNamed(root, namespace, name) ? [root, ...below] : below;
};

/** Child elements, of any name, or of one. */
export const childrenOf = (parent: XmlElement, namespace = "*", name = "*"): XmlElement[] => {
  const found: XmlElement[] = [];
  // By siblings: reading a list by index counts from its start each time.
  for (let node = parent.firstChild; node; node = node.nextSibling)
    if (node.nodeType === ELEMENT) found.push(node as XmlElement);
  return found.filter((child) => isNamed(child, namespace, name));
};

/** The only child of that name. @throws SamlRefused for none, or several */
export const onlyChild = (parent: XmlElement, namespace: string, name: string): XmlElement => {
  const found = childrenOf(parent, namespace, name);
  if (found.length === 1) return found[0]!;
  throw new SamlRefused(`it has ${found.length} ${name} in ${parent.localName}`);
};

/** The value of an attribute; undefined without one. */
export const attributeOf = (element: XmlElement, name: string): string | undefined =>
  element.hasAttribute(name) ? (element.getAttribute(name) ?? undefined) : undefined;

/** Counts what costs time, from the text alone: what is refused costs no parsing. @throws SamlRefused */
const checkSize = (xml: string): void => {
  // Each element has one tag or two.
  const tags = xml.split("<");
  if (tags.length > 2 * ELEMENTS_MAX) throw new SamlRefused(`it has more than ${ELEMENTS_MAX} elements`);
  let attributes = 0;
  for (const tag of tags) {
    const own = tag.match(/=\s*["']/g)?.length ?? 0;
    attributes += own;
    if (own > ATTRIBUTES_OF_ONE_MAX || attributes > ATTRIBUTES_MAX)
      throw new SamlRefused(
        `it has more than ${ATTRIBUTES_MAX} attributes, or ${ATTRIBUTES_OF_ONE_MAX} at once`,
      );
  }
};

/**
 * Decodes a response as browsers bring it. What parsers read in different ways is refused before anything
 * parses it: document types and entities, comments, processing instructions and CDATA.
 *
 * @throws SamlRefused
 */
export const decodeResponse = (response: string): string => {
  const base64 = response.replaceAll(/\s/g, "");
  if (base64 === "" || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) throw new SamlRefused("it is not Base64");
  const bytes = Buffer.from(base64, "base64");
  if (bytes.length > RESPONSE_MAX_BYTES)
    throw new SamlRefused(`it has more than ${RESPONSE_MAX_BYTES} bytes`);
  let xml: string;
  try {
    xml = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new SamlRefused("it is not UTF-8");
  }
  checkSize(xml);
  const body = xml.replace(/^\s*<\?xml[^?]*\?>/, "");
  if (/<!|<\?/.test(body))
    throw new SamlRefused("it has a document type, a comment, CDATA or a processing instruction");
  return xml;
};

const checkAlgorithms = (root: XmlElement): void => {
  for (const [name, allowed] of ALGORITHMS)
    for (const element of elementsIn(root, "*", name))
      if (!allowed.has(element.getAttribute("Algorithm") ?? ""))
        throw new SamlRefused(`it uses a ${name} that is not allowed`);
};

const checkIds = (elements: readonly XmlElement[]): void => {
  const ids = elements
    .flatMap((element) => ["ID", "Id", "id"].map((name) => attributeOf(element, name)))
    .filter((id) => id !== undefined);
  if (new Set(ids).size < ids.length) throw new SamlRefused("two elements have one ID");
};

/** A signature signs its parent, which is the response or its assertion, and nothing hides in it. */
const checkSignatures = (root: XmlElement, parents: readonly XmlElement[]): void => {
  for (const signature of elementsIn(root, DSIG_NS, "Signature")) {
    if (!parents.some((parent) => parent === signature.parentNode))
      throw new SamlRefused("it has a signature out of place");
    const references = elementsIn(signature, DSIG_NS, "Reference");
    const id = (signature.parentNode as XmlElement).getAttribute("ID");
    if (references.length !== 1 || references[0]!.getAttribute("URI") !== `#${id}`)
      throw new SamlRefused("it has a signature of something else");
    if (elementsIn(signature, DSIG_NS, "Object").length > 0)
      throw new SamlRefused("it has a signature that holds an object");
    if (elementsIn(signature, "*", "Transform").length > TRANSFORMS_MAX)
      throw new SamlRefused(`it has more than ${TRANSFORMS_MAX} transforms`);
    for (const list of elementsIn(signature, "*", "InclusiveNamespaces"))
      if ((list.getAttribute("PrefixList") ?? "").length > PREFIXES_MAX_LENGTH)
        throw new SamlRefused("it has a list of prefixes that is too long");
  }
};

/**
 * Checks the shape of a response: one Response, with one Assertion as its child and no other anywhere, which
 * is signed; signatures of what they are in; algorithms that are allowed.
 *
 * @throws SamlRefused
 */
export const checkShape = (document: XmlDocument): XmlElement => {
  const root = document.documentElement;
  const elements = elementsIn(root);
  if (root.localName !== "Response" || root.namespaceURI !== PROTOCOL_NS)
    throw new SamlRefused("it is not a Response");
  if (elementsIn(root, "*", "EncryptedAssertion").length > 0)
    throw new SamlRefused("it has an encrypted assertion, which this server does not take");
  const everywhere = elementsIn(root, "*", "Assertion");
  const responses = elementsIn(root, "*", "Response");
  if (everywhere.length !== 1 || responses.length !== 1)
    throw new SamlRefused(`it has ${everywhere.length} assertions in ${responses.length} responses`);
  const assertion = onlyChild(root, ASSERTION_NS, "Assertion");
  checkIds(elements);
  checkAlgorithms(root);
  checkSignatures(root, [root, assertion]);
  if (childrenOf(assertion, DSIG_NS, "Signature").length !== 1)
    throw new SamlRefused("its assertion is not signed");
  return root;
};
