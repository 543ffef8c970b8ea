import {
  DUE_HOLDS,
  DUE_LOTS,
  expirePlayersHolds,
  expirePlayersLots,
} from "../domain/economy/currencies/sweep.ts";
import { sweepDue } from "./due-players.ts";
import type { Job } from "./job.ts";

/** Releases expired holds, and removes expired currency lots. */
export const expireCurrencies: Job = {
  concurrency: 1,
  everyMs: 5_000,
  run: async (app) => {
    await sweepDue(app, { due: DUE_HOLDS, settle: expirePlayersHolds });
    await sweepDue(app, { due: DUE_LOTS, settle: expirePlayersLots });
  },
};
