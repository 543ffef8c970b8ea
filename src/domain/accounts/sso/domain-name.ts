import { X509Certificate } from "node:crypto";
import { domainToASCII } from "node:url";
import { parse } from "tldts";
import type { SsoConfiguration, SsoProvider, SsoStatus } from "./configuration.ts";
import type { Role } from "../../kernel/caller.ts";
import { DomainError } from "../../kernel/errors.ts";

/** Certificates of one identity provider: more than one while they are exchanged. */
const CERTIFICATES_MAX = 3;
export const CERTIFICATE_TEXT_MAX = 30_000;
const RSA_BITS_MIN = 2_048;
const BLOCK = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;
/** Elliptic curves whose signatures node:crypto verifies as `ecdsa-sha256`. */
const CURVES: ReadonlySet<string> = new Set(["prime256v1", "secp384r1", "secp521r1"]);

/** What is shown of a certificate. */
type Parsed = { certificate: X509Certificate; pem: string };

const parsed = (pem: string): Parsed => {
  const certificate = new X509Certificate(pem);
  return { certificate, pem: certificate.toString() };
};

/** Returns the blocks of a stored text, which were valid when it was stored. */
const blocksOf = (text: string): Parsed[] => (text.match(BLOCK) ?? []).map(parsed);

const problemOfOne = ({ certificate }: Parsed, now: Date): string | undefined => {
  const { publicKey, validToDate } = certificate;
  const { asymmetricKeyType, asymmetricKeyDetails = {} } = publicKey;
  if (validToDate <= now) return `has expired on ${validToDate.toISOString()}`;
  if (asymmetricKeyType === "rsa") {
    const bits = asymmetricKeyDetails.modulusLength ?? 0;
    return bits >= RSA_BITS_MIN ? undefined : `has an RSA key of ${bits} bits: ${RSA_BITS_MIN} are needed`;
  }
  if (asymmetricKeyType === "ec" && CURVES.has(asymmetricKeyDetails.namedCurve ?? "")) return undefined;
  return "must have an RSA key, or one on the curves P-256, P-384 or P-521";
};

/**
 * Reads certificates that somebody gives: 1 to 3 PEM blocks, or the Base64 of one alone, as identity
 * providers show it.
 *
 * @returns them as PEM, or a problem as a predicate: expired, or with a weak key
 */
const readCertificates = (text: string, now: Date): { pem: string } | { problem: string } => {
  const isBare = !text.includes("-----") && /^[A-Za-z0-9+/=\s]+$/.test(text);
  const whole = isBare ? `-----BEGIN CERTIFICATE-----\n${text.trim()}\n-----END CERTIFICATE-----` : text;
  const blocks = whole.match(BLOCK) ?? [];
  if (blocks.length === 0 || whole.replaceAll(BLOCK, "").trim() !== "")
    return { problem: "must be certificates in PEM, and nothing else" };
  if (blocks.length > CERTIFICATES_MAX)
    return { problem: `must be at most ${CERTIFICATES_MAX} certificates` };
  let certificates: Parsed[];
  try {
    certificates = blocks.map(parsed);
  } catch {
    return { problem: "cannot be read as an X.509 certificate" };
  }
  for (const one of certificates) {
    const problem = problemOfOne(one, now);
    if (problem !== undefined) return { problem };
  }
  return { pem: certificates.map(({ pem }) => pem).join("") };
};

/** Returns the certificates of a stored text that are valid now, PEM: others verify nothing. */
export const validCertificates = (text: string, now: Date): string[] =>
  blocksOf(text)
    .filter(({ certificate: { validFromDate, validToDate } }) => validFromDate <= now && now < validToDate)
    .map(({ pem }) => pem);

/** Returns what the API shows of a stored text. */
export const showCertificates = (text: string) =>
  blocksOf(text).map(({ certificate }) => ({
    fingerprint: certificate.fingerprint256.replaceAll(":", "").toLowerCase(),
    subject: certificate.subject.replaceAll("\n", ", "),
    notBefore: certificate.validFromDate.toISOString(),
    notAfter: certificate.validToDate.toISOString(),
  }));

export const DOMAIN_MAX = 253;
const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/** What begins or separates other parts of an address than its host. */
const NO_HOST = /[/\\?#@:%]/;

/** Returns a domain as it is stored: ASCII, lower case; "" for what is none. */
export const normaliseDomain = (text: string): string =>
  NO_HOST.test(text) ? "" : domainToASCII(text.trim()).toLowerCase();

/**
 * Returns why a normalised name cannot be a domain of email addresses, as a predicate; undefined if it can:
 * it must be below a public suffix, and no address, wildcard or port.
 */
export const domainProblem = (domain: string): string | undefined => {
  if (domain === "" || domain.length > DOMAIN_MAX || !domain.split(".").every((label) => LABEL.test(label)))
    return "must be a domain, such as example.com";
  const { domain: registrable, isIp } = parse(domain, { allowPrivateDomains: true });
  if (isIp === true || registrable === null) return "must be a domain that somebody can register";
  return undefined;
};

/** Returns the domain of a normalised address. */
export const domainOf = (email: string): string => normaliseDomain(email.slice(email.lastIndexOf("@") + 1));

/** A configuration as an OWNER gives it; what is left out has its default. */
export type SsoInput = {
  provider: SsoProvider;
  displayName: string;
  samlEntityId?: string | undefined;
  samlSsoUrl?: string | undefined;
  samlCertificate?: string | undefined;
  samlIdpInitiated: boolean;
  oidcIssuer?: string | undefined;
  oidcClientId?: string | undefined;
  /** Left out: the stored one stays. */
  oidcClientSecret?: string | undefined;
  oidcScopes?: string[] | undefined;
  autoProvision: boolean;
  defaultRole: Role;
  allowedDomains: string[];
  enforceSso: boolean;
  breakGlassUserId?: string | undefined;
  status: SsoStatus;
};

/** The fields of a configuration that say who its identity provider is. */
export type IdpFields = Pick<
  SsoConfiguration,
  | "provider"
  | "samlEntityId"
  | "samlSsoUrl"
  | "samlCertificate"
  | "oidcIssuer"
  | "oidcClientId"
  | "oidcScopes"
>;

const DEFAULT_SCOPES = ["openid", "email", "profile"];
const GOOGLE_ISSUER = "https://accounts.google.com";
/** Of one directory: those of `common` and `organizations` vouch for people of any. */
const ENTRA_HOSTS: ReadonlySet<string> = new Set([
  "login.microsoftonline.com",
  "login.microsoftonline.us",
  "login.partner.microsoftonline.cn",
]);
const ENTRA_PATH = /^\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\/v2\.0$/i;

const isEntraIssuer = (text: string): boolean => {
  const url = URL.parse(text);
  return url !== null && url.href === text && ENTRA_HOSTS.has(url.host) && ENTRA_PATH.test(url.pathname);
};

/** Builds the error for a configuration that cannot be. */
export const configInvalid = (field: string, message: string, reason = "SSO_CONFIG_INVALID"): DomainError =>
  new DomainError("UNPROCESSABLE_ENTITY", `${field}: ${message}`, {
    reason,
    details: [{ field, message }],
  });

const needed = (value: string | undefined, field: string, provider: SsoProvider): string => {
  if (value !== undefined && value !== "") return value;
  throw configInvalid(field, `is needed for ${provider}`);
};

/** Whether browsers and this server may be sent to an address. */
const isAddress = (text: string, isLocal: boolean): boolean => {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "" || text.includes("#")) return false;
  return url.protocol === "https:" || (isLocal && url.protocol === "http:");
};

const address = (text: string, field: string, isLocal: boolean): string => {
  if (isAddress(text, isLocal)) return text;
  throw configInvalid(field, "must be an address that starts with https://, without a user and a fragment");
};

const samlFields = (input: SsoInput, isLocal: boolean, now: Date): IdpFields => {
  const certificates = readCertificates(needed(input.samlCertificate, "samlCertificate", "SAML"), now);
  if ("problem" in certificates)
    throw configInvalid("samlCertificate", certificates.problem, "CERTIFICATE_INVALID");
  return {
    provider: "SAML",
    samlEntityId: needed(input.samlEntityId, "samlEntityId", "SAML"),
    samlSsoUrl: address(needed(input.samlSsoUrl, "samlSsoUrl", "SAML"), "samlSsoUrl", isLocal),
    samlCertificate: certificates.pem,
    oidcIssuer: null,
    oidcClientId: null,
    oidcScopes: [],
  };
};

const oidcFields = (input: SsoInput, isLocal: boolean): IdpFields => {
  const { provider, oidcScopes = DEFAULT_SCOPES, allowedDomains, samlIdpInitiated } = input;
  const preset = provider === "GOOGLE_WORKSPACE" ? GOOGLE_ISSUER : undefined;
  const issuer = needed(input.oidcIssuer ?? preset, "oidcIssuer", provider);
  if (provider === "AZURE_AD" && !isEntraIssuer(issuer))
    throw configInvalid(
      "oidcIssuer",
      "must be that of your directory: https://login.microsoftonline.com/{directory id}/v2.0",
    );
  if (provider === "GOOGLE_WORKSPACE" && allowedDomains.length === 0)
    throw configInvalid("allowedDomains", "must name your Workspace: everybody can have a Google account");
  if (samlIdpInitiated) throw configInvalid("samlIdpInitiated", "is for SAML");
  return {
    provider,
    samlEntityId: null,
    samlSsoUrl: null,
    samlCertificate: null,
    oidcIssuer: address(issuer, "oidcIssuer", isLocal),
    oidcClientId: needed(input.oidcClientId, "oidcClientId", provider),
    oidcScopes: [...new Set(["openid", ...oidcScopes])],
  };
};

/**
 * Returns the identity provider that an input describes.
 * @throws UNPROCESSABLE_ENTITY SSO_CONFIG_INVALID, CERTIFICATE_INVALID
 */
export const idpOf = (input: SsoInput, isLocal: boolean, now: Date): IdpFields =>
  input.provider === "SAML" ? samlFields(input, isLocal, now) : oidcFields(input, isLocal);

/** Returns the domains as they are stored. @throws UNPROCESSABLE_ENTITY SSO_CONFIG_INVALID */
export const domainsOf = ({ allowedDomains }: SsoInput): string[] => {
  const domains = allowedDomains.map((text, index) => {
    const domain = normaliseDomain(text);
    const problem = domainProblem(domain);
    if (problem !== undefined) throw configInvalid(`allowedDomains.${index}`, problem);
    return domain;
  });
  return [...new Set(domains)];
};
