import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { addressesOf } from "./addresses.ts";

/** The addresses at a custom domain, which a provider has to know for sign-ins that begin there. */
export type CustomHostAddresses = { domain: string; acsUrl: string; oidcRedirectUri: string };

/**
 * Returns the addresses at the custom domains of a tenant that are served by TLS, the oldest first, so that a
 * domain that is added changes the place of no other.
 * @param hasDomains whether this server has custom domains
 */
export const customHostAddresses = async (
  { db }: Work,
  { publicUrl, hasDomains }: { publicUrl: string; hasDomains: boolean },
  tenantId: string,
): Promise<CustomHostAddresses[]> => {
  if (!hasDomains) return [];
  const { rows } = await sql<{ domain: string }>`
    select domain from custom_domains
    where tenant_id = ${tenantId}::uuid and status in ('ACTIVE', 'DEGRADED')
    order by created_at, id`.execute(db);
  return rows.map(({ domain }) => {
    const { acsUrl, oidcRedirectUri } = addressesOf(publicUrl, tenantId, domain);
    return { domain, acsUrl, oidcRedirectUri };
  });
};
