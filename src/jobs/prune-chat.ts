import { FIRST_CHANNEL, pruneChannels, type RetentionCursor } from "../domain/social/chat/retention.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

const HOUR_MS = 3_600_000;

/** Deletes messages past their retention period, and channels of lobbies that were closed long ago. */
export const pruneChat: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: HOUR_MS,
  run: async (app) => {
    let at: RetentionCursor | undefined = FIRST_CHANNEL;
    while (at) {
      const after: RetentionCursor = at;
      at = await app.transact((work) => pruneChannels(work, after));
      await app.limits.pause?.();
    }
  },
};
