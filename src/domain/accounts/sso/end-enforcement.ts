import { audit } from "../audit/audit.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import { conflict } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { getSso } from "./configure.ts";

/**
 * Ends the enforcement of a tenant that has lost its identity provider and its break-glass OWNER: its people
 * sign in by passwords, which they set by mail. For the operator, whose command sends no mail. The rest of
 * the configuration stays.
 *
 * @returns the name of the tenant
 * @throws NOT_FOUND, CONFLICT INVALID_STATE where nothing is enforced
 */
export const endEnforcement = async (work: Work, tenantId: string): Promise<string> => {
  const { name } = await lockTenant(work, tenantId);
  const sso = await getSso(work, tenantId);
  if (!sso.enforceSso) throw conflict("INVALID_STATE", "The tenant does not enforce single sign-on");
  const { id, displayName, breakGlassUserId } = sso;
  Object.assign(sso, { enforceSso: false, updatedAt: work.now });
  await audit(work, {
    action: "sso.enforcement_ended",
    target: { type: "sso_configuration", id },
    tenantId,
    data: { displayName, breakGlassUserId: breakGlassUserId ?? null },
  });
  return name;
};
