import { DUE_BOOSTS, endPlayersBoosts } from "../domain/economy/boosts/sweep.ts";
import { arePlayersDue } from "../domain/progression/due-players.ts";
import { sweepDue } from "./due-players.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Ends expired boosts, so that their players are notified. */
export const endBoosts: Job = {
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: arePlayersDue(DUE_BOOSTS),
  run: (app) => sweepDue(app, { due: DUE_BOOSTS, settle: endPlayersBoosts }),
};
