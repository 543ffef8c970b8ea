import { advanceLobby, DUE_AT_ONCE, findDueLobbies } from "../domain/social/lobbies/timers.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import type { Job } from "./job.ts";

/** Starts games, ends graces, and closes lobbies, when it is time. */
export const advanceLobbies: Job = {
  name: "advance-lobbies",
  concurrency: 1,
  everyMs: 1_000,
  run: async (app) => {
    let found: number;
    let done: number;
    do {
      const due = await app.transact(findDueLobbies);
      [found, done] = [due.length, 0];
      for (const ref of due) {
        try {
          if (await app.transact((work) => advanceLobby(work, ref, "skip"))) done++;
        } catch (err) {
          throwOutage(err);
          // The others must not wait for one that fails.
          app.log.error({ err, ...ref }, "a lobby cannot be advanced");
        }
        await app.limits.pause?.();
      }
      // What others have in hand, or fails, is left for the next time.
    } while (found === DUE_AT_ONCE && done > 0);
  },
};
