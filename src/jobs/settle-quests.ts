import { DUE_QUESTS, settlePlayersQuests } from "../domain/economy/quests/due.ts";
import { sweepDue } from "./due-players.ts";
import type { Job } from "./job.ts";

/** Expires quests whose time limit, cycle or claim window is over. */
export const settleQuests: Job = {
  concurrency: 1,
  everyMs: 30_000,
  run: (app) => sweepDue(app, { due: DUE_QUESTS, settle: settlePlayersQuests }),
};
