import { DomainError } from "../../kernel/errors.ts";
import type { Role } from "../../kernel/caller.ts";
import { readCertificates } from "./certificates.ts";
import type { SsoConfiguration, SsoProvider, SsoStatus } from "./configuration.ts";
import { domainProblem, normaliseDomain } from "./domain-name.ts";

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
export const GOOGLE_ISSUER = "https://accounts.google.com";
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
