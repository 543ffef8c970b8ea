import { tellOfFailingRenewals } from "../domain/accounts/domains/certificate-notices.ts";
import { tellOfCertificates } from "../domain/accounts/sso/certificate-notices.ts";
import type { Job } from "./job.ts";

/** Mails tenants whose identity provider's certificates expire soon, or whose domains' are not renewed. */
export const tellOfExpiringCertificates: Job = {
  concurrency: 1,
  everyMs: 3_600_000,
  run: async ({ transact, mail, acme }) => {
    await transact((work) => tellOfCertificates(work, mail));
    if (acme) await transact((work) => tellOfFailingRenewals(work, mail));
  },
};
