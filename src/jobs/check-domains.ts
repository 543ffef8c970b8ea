import { checkDueDomains, isCheckDue } from "../domain/accounts/domains/check.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Looks at the records of custom domains that are due. */
export const checkDomains: Job = {
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: isCheckDue,
  run: async ({ config, transact, dns, mail, domains }) => {
    if (!config.domains) return;
    const hasOwnCertificates = config.domains.acme !== undefined;
    await checkDueDomains({ transact, dns, mail, ingress: config.domains, hasOwnCertificates });
    domains.forget();
  },
};
