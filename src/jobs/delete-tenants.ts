import { deleteDueTenants } from "../domain/accounts/tenants/deletion.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

/** Deletes tenants whose cancellation period is over. */
export const deleteTenants: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: 3_600_000,
  run: async (app) => {
    while ((await app.transact(deleteDueTenants)) > 0) await app.limits.pause?.();
  },
};
