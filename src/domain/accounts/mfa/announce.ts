import type { FactorChange, Mail } from "../email/mail.ts";
import type { Work } from "../../kernel/work.ts";
import { type FactorOwner, tenantIdOf } from "./owner.ts";

/** Mails the owner of an account what happened to its second factor. */
export const announce = async (
  work: Work,
  mail: Mail,
  owner: FactorOwner,
  change: FactorChange,
): Promise<void> => {
  const { id, email, name } = owner.row;
  await mail.queue(work, {
    template: "second-factor-changed",
    to: email,
    values: { name, change },
    tenantId: tenantIdOf(owner),
    userId: owner.kind === "user" ? id : null,
  });
};
