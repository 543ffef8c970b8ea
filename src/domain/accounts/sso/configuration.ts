import { X509Certificate } from "node:crypto";
import { defineEntity, p } from "@mikro-orm/core";
import { z } from "zod";
import { DOMAIN_MAX, domainProblem, normaliseDomain } from "./domain-name.ts";
import { Name } from "../tenants/tenant.ts";
import { type Role, ROLES } from "../../kernel/caller.ts";
import { DomainError, invalid } from "../../kernel/errors.ts";

/** Kinds of identity providers; all but SAML speak OpenID Connect. */
export const SSO_PROVIDERS = ["SAML", "OIDC", "AZURE_AD", "OKTA", "GOOGLE_WORKSPACE"] as const;
export type SsoProvider = (typeof SSO_PROVIDERS)[number];

export const SSO_STATUSES = ["ACTIVE", "DISABLED"] as const;

/** Maximum domains in `allowedDomains`, and domains that a tenant may claim. */
export const SSO_DOMAINS_MAX = 50;

const SsoConfigurationSchema = defineEntity({
  name: "SsoConfiguration",
  tableName: "sso_configurations",
  properties: {
    id: p.uuid().primary(),
    /** Unique: a tenant has one. */
    tenantId: p.uuid(),
    provider: p.text().$type<SsoProvider>(),
    displayName: p.text(),
    samlEntityId: p.text().nullable(),
    samlSsoUrl: p.text().nullable(),
    /** 1 to 3 certificates, PEM. */
    samlCertificate: p.text().nullable(),
    /** Whether sign-ins may begin at the identity provider. */
    samlIdpInitiated: p.boolean(),
    oidcIssuer: p.text().nullable(),
    oidcClientId: p.text().nullable(),
    /** Sealed; see `secretContext`. */
    oidcClientSecret: p.text().nullable(),
    oidcScopes: p.array(),
    autoProvision: p.boolean(),
    defaultRole: p.text().$type<Role>(),
    allowedDomains: p.array(),
    enforceSso: p.boolean(),
    /** The OWNER who may sign in otherwise while it is enforced. */
    breakGlassUserId: p.uuid().nullable(),
    status: p.text().$type<(typeof SSO_STATUSES)[number]>(),
    /** When it last began to mean another identity provider: sign-ins in progress end. */
    idpChangedAt: p.datetime(3),
    lastTestedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** A tenant's identity provider, and who may sign in through it. */
export class SsoConfiguration extends SsoConfigurationSchema.class {}
SsoConfigurationSchema.setClass(SsoConfiguration);

/** Names the row in which a client secret is sealed. */
export const secretContext = ({ id }: Pick<SsoConfiguration, "id">): string => `sso_configurations:${id}`;

/** Certificates of one identity provider: more than one while they are exchanged. */
const CERTIFICATES_MAX = 3;
const CERTIFICATE_TEXT_MAX = 30_000;
const RSA_BITS_MIN = 2_048;
const BLOCK = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;
/** Elliptic curves whose signatures node:crypto verifies as `ecdsa-sha256`. */
const CURVES: ReadonlySet<string> = new Set(["prime256v1", "secp384r1", "secp521r1"]);

/** Returns the certificates of a text. @throws where one cannot be read, as none can be that is stored */
const certificatesIn = (text: string): X509Certificate[] =>
  (text.match(BLOCK) ?? []).map((pem) => new X509Certificate(pem));

const problemOfOne = ({ publicKey, validToDate }: X509Certificate, now: Date): string | undefined => {
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
 * @returns them as PEM
 * @throws UNPROCESSABLE_ENTITY CERTIFICATE_INVALID also for one that has expired, or has a weak key
 */
const readCertificates = (text: string, now: Date): string => {
  const isBare = !text.includes("-----") && /^[A-Za-z0-9+/=\s]+$/.test(text);
  const whole = isBare ? `-----BEGIN CERTIFICATE-----\n${text.trim()}\n-----END CERTIFICATE-----` : text;
  const blocks = whole.match(BLOCK) ?? [];
  if (blocks.length === 0 || whole.replaceAll(BLOCK, "").trim() !== "")
    throw certificateInvalid("must be certificates in PEM, and nothing else");
  if (blocks.length > CERTIFICATES_MAX)
    throw certificateInvalid(`must be at most ${CERTIFICATES_MAX} certificates`);
  let certificates: X509Certificate[];
  try {
    certificates = certificatesIn(whole);
  } catch {
    throw certificateInvalid("cannot be read as an X.509 certificate");
  }
  for (const one of certificates) {
    const problem = problemOfOne(one, now);
    if (problem !== undefined) throw certificateInvalid(problem);
  }
  return certificates.join("");
};

const certificateInvalid = (problem: string): DomainError =>
  configInvalid("samlCertificate", problem, "CERTIFICATE_INVALID");

/** Returns the certificates of a stored text that are valid now, PEM: others verify nothing. */
export const validCertificates = (text: string, now: Date): string[] =>
  certificatesIn(text)
    .filter(({ validFromDate, validToDate }) => validFromDate <= now && now < validToDate)
    .map(String);

/** Returns what the API shows of a stored text. */
export const showCertificates = (text: string) =>
  certificatesIn(text).map((certificate) => ({
    fingerprint: certificate.fingerprint256.replaceAll(":", "").toLowerCase(),
    subject: certificate.subject.replaceAll("\n", ", "),
    notBefore: certificate.validFromDate.toISOString(),
    notAfter: certificate.validToDate.toISOString(),
  }));

const Provider = z.enum(SSO_PROVIDERS);
const Scope = z
  .string()
  .max(100)
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, "must be a scope of OAuth 2.0");
const Address = z.string().min(1).max(2_048);
/** `null` leaves a field out, as clients send it that put back what they have got. */
const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined);

/** A configuration as an OWNER gives it; what is left out has its default. */
export const SsoRequest = z.strictObject({
  provider: Provider.optional(),
  providerType: Provider.optional().meta({ description: "Another name of `provider`" }),
  type: Provider.optional().meta({ description: "Another name of `provider`" }),
  displayName: Name.meta({ description: "Label of the sign-in button", example: "Acme single sign-on" }),
  samlEntityId: optional(Address).meta({ description: "Entity id of the identity provider (SAML)" }),
  samlSsoUrl: optional(Address).meta({ description: "Its sign-on address, https (SAML)" }),
  samlCertificate: optional(z.string().max(CERTIFICATE_TEXT_MAX)).meta({
    description: "Its signing certificates, PEM: 1 to 3, so that one can be exchanged for the next (SAML)",
  }),
  samlIdpInitiated: z.boolean().default(false).meta({
    description: "Whether sign-ins may begin at the identity provider, which gives up a protection (SAML)",
  }),
  oidcIssuer: optional(Address).meta({
    description: "Issuer of the OpenID provider; GOOGLE_WORKSPACE has a default",
  }),
  oidcClientId: optional(z.string().min(1).max(255)),
  oidcClientSecret: optional(z.string().min(1).max(1_024)).meta({
    description: "Never returned. Left out, the stored one stays, as long as issuer and client do",
  }),
  oidcScopes: optional(z.array(Scope).max(20)).meta({
    description: "openid is always asked for; default openid, email, profile",
  }),
  autoProvision: z.boolean().default(false).meta({
    description: "Create users on first login; needs a verified domain, and their addresses are of one",
  }),
  defaultRole: z.enum(ROLES).default("VIEWER").meta({
    description: "Role of created users; OWNER is refused with 422",
  }),
  allowedDomains: z
    .array(z.string().max(DOMAIN_MAX))
    .max(SSO_DOMAINS_MAX)
    .default([])
    .meta({ description: "Domains of addresses that may sign in; empty means all" }),
  enforceSso: z
    .boolean()
    .default(false)
    .meta({
      description:
        "No password login for any user but breakGlassUserId. Can be switched on within 10 minutes of " +
        "signing in through this provider, in that session; all other sessions end",
    }),
  breakGlassUserId: optional(z.uuid()).meta({
    description: "An OWNER with a second factor, who signs in when the provider does not work",
  }),
  status: z.enum(SSO_STATUSES).default("ACTIVE").meta({
    description: "DISABLED keeps the configuration, and ends the sessions that began through it",
  }),
});

/** Returns the input, whichever name it has given the provider by. @throws VALIDATION_ERROR */
export const inputOf = ({ provider, providerType, type, ...rest }: z.output<typeof SsoRequest>) => {
  const given = [provider, providerType, type].filter((one): one is SsoProvider => one !== undefined);
  const [first] = given;
  if (first === undefined) throw invalid("provider", `is needed: one of ${SSO_PROVIDERS.join(", ")}`);
  if (given.some((one) => one !== first)) throw invalid("provider", "is given twice, with other values");
  return { ...rest, provider: first };
};

export type SsoInput = ReturnType<typeof inputOf>;

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

const samlFields = (input: SsoInput, isLocal: boolean, now: Date): IdpFields => ({
  provider: "SAML",
  samlCertificate: readCertificates(needed(input.samlCertificate, "samlCertificate", "SAML"), now),
  samlEntityId: needed(input.samlEntityId, "samlEntityId", "SAML"),
  samlSsoUrl: address(needed(input.samlSsoUrl, "samlSsoUrl", "SAML"), "samlSsoUrl", isLocal),
  oidcIssuer: null,
  oidcClientId: null,
  oidcScopes: [],
});

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
