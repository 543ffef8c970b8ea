import { z } from "zod";
import { ROLES } from "../../domain/kernel/caller.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { CERTIFICATE_TEXT_MAX, DOMAIN_MAX, type SsoInput } from "../../domain/accounts/sso/domain-name.ts";
import {
  SSO_DOMAINS_MAX,
  SSO_PROVIDERS,
  SSO_STATUSES,
  type SsoProvider,
} from "../../domain/accounts/sso/configuration.ts";
import { Name } from "../../domain/accounts/tenants/tenant.ts";

const ADDRESS_MAX = 2_048;
const SECRET_MAX = 1_024;
const SCOPES_MAX = 20;

const Provider = z.enum(SSO_PROVIDERS);
const Scope = z
  .string()
  .max(100)
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, "must be a scope of OAuth 2.0");
const Address = z.string().min(1).max(ADDRESS_MAX);
/** `null` leaves a field out, as clients send it that put back what they have got. */
const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined);

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
  oidcClientSecret: optional(z.string().min(1).max(SECRET_MAX)).meta({
    description: "Never returned. Left out, the stored one stays, as long as issuer and client do",
  }),
  oidcScopes: optional(z.array(Scope).max(SCOPES_MAX)).meta({
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
export const inputOf = ({ provider, providerType, type, ...rest }: z.output<typeof SsoRequest>): SsoInput => {
  const given = [provider, providerType, type].filter((one): one is SsoProvider => one !== undefined);
  const [first] = given;
  if (first === undefined) throw invalid("provider", `is needed: one of ${SSO_PROVIDERS.join(", ")}`);
  if (given.some((one) => one !== first)) throw invalid("provider", "is given twice, with other values");
  return { ...rest, provider: first };
};

const Nullable = z.string().nullable();

export const SsoBody = z
  .object({
    id: z.uuid(),
    provider: Provider,
    displayName: z.string(),
    samlEntityId: Nullable,
    samlSsoUrl: Nullable,
    samlCertificate: Nullable,
    samlCertificates: z.array(
      z.object({
        fingerprint: z.string().meta({ description: "SHA-256, hex" }),
        subject: z.string(),
        notBefore: z.iso.datetime(),
        notAfter: z.iso.datetime(),
      }),
    ),
    samlCertificateExpiresAt: z.iso
      .datetime()
      .nullable()
      .meta({ description: "When the first of them expires; OWNERs and ADMINs are mailed before" }),
    samlIdpInitiated: z.boolean(),
    oidcIssuer: Nullable,
    oidcClientId: Nullable,
    oidcClientSecretSet: z.boolean().meta({ description: "The secret itself is never returned" }),
    oidcScopes: z.array(z.string()),
    autoProvision: z.boolean(),
    defaultRole: z.enum(ROLES),
    allowedDomains: z.array(z.string()),
    enforceSso: z.boolean(),
    breakGlassUserId: z.uuid().nullable(),
    status: z.enum(SSO_STATUSES),
    spEntityId: z.string().meta({ description: "This server's entity id and metadata, for the provider" }),
    acsUrl: z.string().meta({ description: "Where the provider posts SAML responses to" }),
    oidcRedirectUri: z.string().meta({ description: "The redirect URI to register with the provider" }),
    customDomains: z
      .array(z.object({ domain: z.string(), acsUrl: z.string(), oidcRedirectUri: z.string() }))
      .meta({
        description:
          "Addresses to register besides, for sign-ins that begin at the tenant's custom domains. The " +
          "entity id is the same, and the addresses above go on to work",
      }),
    lastTestedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "SsoConfiguration" });

export const SsoDomainBody = z
  .object({
    id: z.uuid(),
    domain: z.string(),
    status: z.enum(["PENDING", "VERIFIED"]),
    txtName: z.string().meta({ description: "Name of the TXT record to make" }),
    txtValue: z.string().meta({ description: "Its value" }),
    verifiedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "SsoDomain" });

export const SsoTestBody = z
  .object({
    success: z.boolean(),
    checks: z.array(z.object({ name: z.string(), ok: z.boolean(), message: z.string() })),
    testedAt: z.iso.datetime(),
  })
  .meta({ id: "SsoTest" });

export const SsoFailureBody = z
  .object({
    error: z.string().meta({ description: "As the browser was told it", example: "provider_error" }),
    message: z.string().meta({ description: "The `error_description` that the browser was told" }),
    reason: z.string().nullable().meta({
      description: "What exactly was wrong, where more is known",
      example: "the provider says invalid_client: the client secret is wrong",
    }),
    email: z.string().nullable().meta({ description: "The address that the provider gave; null: none yet" }),
    requestId: z.string().meta({ description: "Of the last one: the operator finds it in the log" }),
    times: z.int().meta({ description: "How often this has happened" }),
    firstAt: z.iso.datetime(),
    lastAt: z.iso.datetime(),
  })
  .meta({ id: "SsoFailure" });
