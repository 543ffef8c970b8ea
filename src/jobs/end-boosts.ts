import { DUE_BOOSTS, endPlayersBoosts } from "../domain/economy/boosts/sweep.ts";
import { sweepDue } from "./due-players.ts";
import type { Job } from "./job.ts";

/** Ends boosts whose time is over, so that players hear of it. */
export const endBoosts: Job = {
  name: "end-boosts",
  concurrency: 1,
  everyMs: 5_000,
  run: (app) => sweepDue(app, { due: DUE_BOOSTS, settle: endPlayersBoosts }),
};
