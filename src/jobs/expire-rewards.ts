import { expireGrants } from "../domain/economy/rewards/player-rewards.ts";
import type { Job } from "./job.ts";

/** Grants per transaction. */
const GRANTS_AT_ONCE = 1_000;

/** Marks unclaimed rewards as expired. */
export const expireRewards: Job = {
  concurrency: 1,
  everyMs: 60_000,
  run: async (app) => {
    while ((await app.transact((work) => expireGrants(work, GRANTS_AT_ONCE))) === GRANTS_AT_ONCE)
      await app.limits.pause?.();
  },
};
