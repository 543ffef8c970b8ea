import { DUE_BOOSTS, endPlayersBoosts } from "../domain/economy/boosts/sweep.ts";
import { sweepDue } from "./due-players.ts";
import type { Job } from "./job.ts";

/** Ends expired boosts, so that their players are notified. */
export const endBoosts: Job = {
  concurrency: 1,
  everyMs: 5_000,
  run: (app) => sweepDue(app, { due: DUE_BOOSTS, settle: endPlayersBoosts }),
};
