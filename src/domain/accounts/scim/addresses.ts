import { SsoConfiguration } from "../sso/configuration.ts";
import { domainOf } from "../sso/domain-name.ts";
import { isVerified } from "../sso/domains.ts";
import type { Work } from "../../kernel/work.ts";
import { invalidValue } from "./error.ts";

/**
 * Refuses an address that single sign-on would make no account for: it must be of a domain that the tenant
 * has verified, and of `allowedDomains` where these are set. @throws ScimError invalidValue
 */
export const requireOwnAddress = async (work: Work, tenantId: string, email: string): Promise<void> => {
  const domain = domainOf(email);
  if (!(await isVerified(work, tenantId, domain)))
    throw invalidValue("emails", `must be of a domain that the tenant has verified: ${domain} is none`);
  const sso = await work.em.findOne(SsoConfiguration, { tenantId });
  if (!sso || sso.allowedDomains.length === 0 || sso.allowedDomains.includes(domain)) return;
  throw invalidValue("emails", `must be of one of the allowedDomains of single sign-on: ${domain} is none`);
};
