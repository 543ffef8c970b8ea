import { defineEntity, p } from "@mikro-orm/core";
import type { Role } from "../../kernel/caller.ts";

/** Kinds of identity providers; all but SAML speak OpenID Connect. */
export const SSO_PROVIDERS = ["SAML", "OIDC", "AZURE_AD", "OKTA", "GOOGLE_WORKSPACE"] as const;
export type SsoProvider = (typeof SSO_PROVIDERS)[number];

export const SSO_STATUSES = ["ACTIVE", "DISABLED"] as const;
export type SsoStatus = (typeof SSO_STATUSES)[number];

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
    status: p.text().$type<SsoStatus>(),
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
