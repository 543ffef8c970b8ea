import { audit } from "../audit/audit.ts";
import type { SignInMethod } from "../auth/session.ts";
import type { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { notifyOwners } from "../tenants/notify-owners.ts";
import type { Work } from "../../kernel/work.ts";
import { enforcedIn } from "./enforcement.ts";

/** Tells all OWNERs, and the audit log, that the break-glass user signs in past single sign-on. */
export const tellOfBreakGlass = async (
  work: Work,
  mail: Mail,
  user: User,
  method: SignInMethod,
): Promise<void> => {
  if (method === "SSO") return;
  const { id, tenantId, email } = user;
  // Held before the mails are written, in the order of those who change it.
  if ((await enforcedIn(work, tenantId, { isHeld: true }))?.breakGlassUserId !== id) return;
  const target = { type: "user", id };
  await audit(work, { action: "sso.break_glass_used", target, tenantId, data: { method } });
  const values = { email, at: work.now.toISOString() };
  await notifyOwners(mail, work, tenantId, { template: "sso-break-glass-used", values });
};
