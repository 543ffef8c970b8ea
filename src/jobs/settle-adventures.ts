import { ADVENTURE_ENDS, DUE_ADVENTURES, settlePlayersAdventures } from "../domain/economy/adventures/due.ts";
import { areEndsMoved } from "../domain/progression/moved-ends.ts";
import { sweepDue } from "./due-players.ts";
import type { Job } from "./job.ts";
import { followMovedEnds } from "./moved-ends.ts";

/** Unlocks items of adventures whose time has come, and expires adventures that are over. */
export const settleAdventures: Job = {
  concurrency: 1,
  everyMs: 30_000,
  isDue: () => areEndsMoved(ADVENTURE_ENDS),
  run: async (app) => {
    await followMovedEnds(app, ADVENTURE_ENDS);
    await sweepDue(app, { due: DUE_ADVENTURES, settle: settlePlayersAdventures });
  },
};
