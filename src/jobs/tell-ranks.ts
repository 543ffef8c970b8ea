import { tellDueRanks } from "../domain/leaderboards/notices/due.ts";
import type { Job } from "./job.ts";

/** Tells changes of rank that came too soon after the last one that the player was told. */
export const tellRanks: Job = {
  name: "tell-ranks",
  concurrency: 1,
  everyMs: 5_000,
  run: async (app) => {
    while (await tellDueRanks(app)) await app.limits.pause?.();
  },
};
