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
    /** The provider's id of the person; unique over the whole platform together with the provider. */
    subject: p.text(),
    /** The verified address when the identity was linked; only for display. */
    email: p.text().nullable(),
    createdAt: p.datetime(3),
  },
});
/** A user's account at a provider. */
export class Identity extends IdentitySchema.class {}
IdentitySchema.setClass(Identity);
