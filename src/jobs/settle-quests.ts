import { DUE_QUESTS, QUEST_ENDS, settlePlayersQuests } from "../domain/economy/quests/due.ts";
import { areEndsMoved } from "../domain/progression/moved-ends.ts";
import { sweepDue } from "./due-players.ts";
import type { Job } from "./job.ts";
import { followMovedEnds } from "./moved-ends.ts";

/** Expires quests whose time limit, cycle or claim window is over. */
export const settleQuests: Job = {
  concurrency: 1,
  everyMs: 30_000,
  isDue: () => areEndsMoved(QUEST_ENDS),
  run: async (app) => {
    await followMovedEnds(app, QUEST_ENDS);
    await sweepDue(app, { due: DUE_QUESTS, settle: settlePlayersQuests });
  },
};
