import {
  DUE_HOLDS,
  DUE_LOTS,
  expirePlayersHolds,
  expirePlayersLots,
} from "../domain/economy/currencies/sweep.ts";
import { sql } from "kysely";
import { arePlayersDue } from "../domain/progression/due-players.ts";
import { sweepDue } from "./due-players.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Releases expired holds, and removes expired currency lots. */
export const expireCurrencies: Job = {
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: (at) => sql`(${arePlayersDue(DUE_HOLDS)(at)} or ${arePlayersDue(DUE_LOTS)(at)})`,
  run: async (app) => {
    await sweepDue(app, { due: DUE_HOLDS, settle: expirePlayersHolds });
    await sweepDue(app, { due: DUE_LOTS, settle: expirePlayersLots });
  },
};
