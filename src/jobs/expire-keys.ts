import { markExpiredKeys } from "../domain/accounts/api-keys/expire.ts";
import type { Job } from "./job.ts";

/** Marks API keys that have passed their expiry time as expired. */
export const expireKeys: Job = {
  concurrency: 1,
  everyMs: 3_600_000,
  run: (app) => app.transact(markExpiredKeys),
};
