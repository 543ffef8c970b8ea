import { defineEntity, p } from "@mikro-orm/core";

export const SsoDomainSchema = defineEntity({
  name: "SsoDomain",
  tableName: "sso_domains",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    /** ASCII, lower case. Several tenants may claim a domain; one can have proved it. */
    domain: p.text(),
    /** What the TXT record must hold; not a secret. */
    token: p.text(),
    verifiedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
  },
});
/** A domain of email addresses that a tenant claims. */
export class SsoDomain extends SsoDomainSchema.class {}
SsoDomainSchema.setClass(SsoDomain);
