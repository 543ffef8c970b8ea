import { DUE_ADVENTURES, settlePlayersAdventures } from "../domain/economy/adventures/due.ts";
import { sweepDue } from "./due-players.ts";
import type { Job } from "./job.ts";

/** Unlocks items of adventures whose time has come, and expires adventures that are over. */
export const settleAdventures: Job = {
  concurrency: 1,
  everyMs: 30_000,
  run: (app) => sweepDue(app, { due: DUE_ADVENTURES, settle: settlePlayersAdventures }),
};
