import { tellUsage } from "../domain/accounts/billing/usage-notices.ts";
import type { Job } from "./job.ts";

/** Mails tenants that have used 80 or 100 percent of what their plan includes in a month. */
export const tellOfUsage: Job = {
  concurrency: 1,
  everyMs: 60_000,
  run: async ({ transact, mail }) => {
    while (await transact((work) => tellUsage(work, mail)));
  },
};
