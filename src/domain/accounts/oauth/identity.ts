import { defineEntity, p } from "@mikro-orm/core";
import type { ProviderId } from "./provider.ts";

export const IdentitySchema = defineEntity({
  name: "Identity",
  tableName: "identities",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    userId: p.uuid(),
    provider: p.text().$type<ProviderId>(),
    /** The provider's name for the person; with the provider unique over the whole platform. */
    subject: p.text(),
    /** As it was proved when the identity was linked; only shown. */
    email: p.text().nullable(),
    createdAt: p.datetime(3),
  },
});
/** A user's account at a provider. */
export class Identity extends IdentitySchema.class {}
IdentitySchema.setClass(Identity);
