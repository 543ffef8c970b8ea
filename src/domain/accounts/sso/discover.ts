import { sql } from "kysely";
import type { CustomHost } from "../domains/known.ts";
import { normaliseEmail } from "../email/address.ts";
import { forbidden } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { SsoConfiguration } from "./configuration.ts";
import { domainOf } from "./domain-name.ts";
import { enforcedIn, SSO_PLANS } from "./enforcement.ts";

/** Where somebody signs in. */
export type Discovered = { ssoRequired: boolean; authUrl: string | null; displayName: string | null };

const NOTHING: Discovered = { ssoRequired: false, authUrl: null, displayName: null };

/** Returns the configuration of the tenant that has verified the domain of an address, if it is in use. */
const findClaimant = async (work: Work, email: string): Promise<SsoConfiguration | undefined> => {
  const { rows } = await sql<{ tenant_id: string }>`
    select d.tenant_id from sso_domains d join tenants t on t.id = d.tenant_id
    where d.domain = ${domainOf(normaliseEmail(email))} and d.verified_at is not null
      and t.deleted_at is null and t.plan in (${sql.join(SSO_PLANS.map((plan) => sql.lit(plan)))})`.execute(
    work.db,
  );
  const where = rows[0] && ({ tenantId: rows[0].tenant_id, status: "ACTIVE" } as const);
  return (where && (await work.em.findOne(SsoConfiguration, where))) ?? undefined;
};

/**
 * Returns where people with addresses of a domain sign in: through the tenant that has verified it. It
 * depends on the domain alone, so it tells nobody which addresses have accounts. At a custom domain only
 * its tenant is found.
 */
export const discoverSso = async (
  work: Work,
  email: string,
  host: CustomHost | undefined,
): Promise<Discovered> => {
  const sso = await findClaimant(work, email);
  if (host && host.tenantId !== sso?.tenantId) return NOTHING;
  if (!sso) return NOTHING;
  const { tenantId, displayName } = sso;
  return {
    ssoRequired: (await enforcedIn(work, tenantId)) !== undefined,
    authUrl: `/auth/sso/${tenantId}`,
    displayName,
  };
};

/** Whether people with addresses of this domain sign in through another tenant than that. */
export const isClaimed = async (
  work: Work,
  email: string,
  tenantId: string | undefined,
): Promise<boolean> => {
  const sso = await findClaimant(work, email);
  return sso !== undefined && sso.tenantId !== tenantId;
};

/**
 * Refuses an account that nobody has invited, under an address of a domain whose people sign in through
 * another tenant: it would shut them out there, since an address has one account.
 *
 * @param tenantId the tenant that the account is for; undefined for a new one
 * @throws FORBIDDEN EMAIL_DOMAIN_CLAIMED
 */
export const requireUnclaimed = async (
  work: Work,
  email: string,
  tenantId: string | undefined,
): Promise<void> => {
  if (!(await isClaimed(work, email, tenantId))) return;
  throw forbidden(
    "EMAIL_DOMAIN_CLAIMED",
    "People with addresses of this domain sign in through their company: POST /auth/sso/discover tells " +
      "where. To join another tenant, ask it for an invitation",
  );
};
