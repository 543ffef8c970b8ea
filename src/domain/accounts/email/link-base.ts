import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/**
 * Returns the base URL of a member's link to a new password: the `linkDomain` of the tenant, while that is
 * ACTIVE, its records were there when they were last looked at, and a certificate of this server's is still
 * good; else undefined. A name that may be somebody else's by now gets no tokens, and whoever controls it
 * gets none by which a person proves an address: the link of an unverified one does.
 */
export const ownLinkBase = async (
  { db, now }: Work,
  { tenantId, userId }: { tenantId: string; userId: string },
): Promise<string | undefined> => {
  const at = now.toISOString();
  const { rows } = await sql<{ domain: string }>`
    select d.domain from tenants t join custom_domains d on d.tenant_id = t.id and d.domain = t.link_domain
    where t.id = ${tenantId}::uuid and d.status = 'ACTIVE' and d.failing_since is null
      and d.txt = 'OK' and d.routing = 'OK'
      and not exists (
        select from custom_domain_certificates c
        where c.domain_id = d.id and c.not_after <= ${at}::timestamptz)
      and exists (select from users u where u.id = ${userId}::uuid and u.email_verified)`.execute(db);
  return rows[0] && `https://${rows[0].domain}`;
};
