import { DUE_STREAKS, settlePlayersStreaks } from "../domain/economy/streaks/due.ts";
import { sweepDue } from "./due-players.ts";
import type { Job } from "./job.ts";

/** Warns of streaks that end soon, and settles those that are over. */
export const settleStreaks: Job = {
  concurrency: 1,
  everyMs: 30_000,
  run: (app) => sweepDue(app, { due: DUE_STREAKS, settle: settlePlayersStreaks }),
};
