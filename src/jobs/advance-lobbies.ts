import { advanceLobby, areLobbiesDue, DUE_AT_ONCE, findDueLobbies } from "../domain/social/lobbies/timers.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Starts games, ends grace periods, and closes lobbies when they are due. */
export const advanceLobbies: Job = {
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: areLobbiesDue,
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
          // A lobby that fails must not delay the others.
          app.log.error({ err, ...ref }, "a lobby cannot be advanced");
        }
        await app.limits.pause?.();
      }
      // Lobbies that another worker is processing, or that fail, are left for the next run.
    } while (found === DUE_AT_ONCE && done > 0);
  },
};
