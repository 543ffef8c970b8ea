import { areNoticesDue, sendDueNotices } from "../domain/leaderboards/notices/due.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Notifies players of rank changes that came too soon after their last notice. */
export const tellRanks: Job = {
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: areNoticesDue,
  run: async (app) => {
    while (await sendDueNotices(app)) await app.limits.pause?.();
  },
};
