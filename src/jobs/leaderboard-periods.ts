import type { App } from "../app.ts";
import {
  type BoardOf,
  deleteChunk,
  listToArchive,
  markArchived,
} from "../domain/leaderboards/periods/archive.ts";
import { sql } from "kysely";
import {
  areListsDue,
  beginClosing,
  closingLists,
  type ClosingStep,
  projectsToClose,
  stepClosing,
} from "../domain/leaderboards/periods/close.ts";
import { areWindowsDue, openWindows, projectsToOpen } from "../domain/leaderboards/periods/open.ts";
import type { PeriodOf } from "../domain/leaderboards/periods/period-row.ts";
import { stepRanking, windowsToRank } from "../domain/leaderboards/periods/values.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Processes items one after another; a failure delays no other and is retried in the next sweep. */
const each = async <T>(
  app: App,
  things: readonly T[],
  run: (thing: T) => Promise<unknown>,
): Promise<void> => {
  for (const thing of things) {
    try {
      await run(thing);
    } catch (err) {
      throwOutage(err);
      app.log.error({ err, thing }, "a leaderboard period could not go on");
    }
    await app.limits.pause?.();
  }
};

/** Only frees memory: the index of a closed list is rebuilt on demand. */
const dropIndex = async (app: App, { projectId, periodId }: PeriodOf): Promise<void> => {
  try {
    await app.ranks.drop(projectId, periodId);
  } catch (err) {
    app.log.warn({ err, projectId, periodId }, "the rank index of a closed period stays");
  }
};

/** Performs one step of archiving a board's old lists. @returns whether it may have another */
const stepArchive = async (app: App, board: BoardOf): Promise<boolean> => {
  const list = await app.transact((work) => listToArchive(work, board));
  if (!list) return false;
  if (await app.transact((work) => deleteChunk(work, list))) return true;
  await app.transact((work) => markArchived(work, list));
  await dropIndex(app, list);
  return true;
};

/** Performs one step of a list. */
const stepList = async (app: App, list: PeriodOf): Promise<ClosingStep> => {
  const done = await app.transact((work) => stepClosing(work, list));
  if (done.step === "CLOSED") await dropIndex(app, list);
  return done;
};

/**
 * Opens the windows of leaderboards as they begin, and closes those that are over: a step of each list in
 * turn, then one of archiving, so that a long one delays neither short ones nor the next windows.
 */
export const leaderboardPeriods: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: (at) => sql`(${areWindowsDue(at)} or ${areListsDue(at)})`,
  run: async (app) => {
    let isMore = true;
    /** Boards that may have old lists, by id. */
    const closed = new Map<string, BoardOf>();
    while (isMore || closed.size > 0) {
      isMore = false;
      await each(app, await app.transact(projectsToOpen), (projectId) =>
        app.transact((work) => openWindows(work, projectId)),
      );
      await each(app, await app.transact(projectsToClose), (projectId) =>
        app.transact((work) => beginClosing(work, projectId)),
      );
      await each(app, await app.transact(closingLists), async (list) => {
        const done = await stepList(app, list);
        if (done.step === "MORE") isMore = true;
        if (done.step === "CLOSED") closed.set(done.leaderboardId, { ...list, ...done });
      });
      await each(app, await app.transact(windowsToRank), async (window) => {
        if ((await app.transact((work) => stepRanking(work, window))) === "MORE") isMore = true;
      });
      await each(app, [...closed].slice(0, 1), async ([id, board]) => {
        closed.delete(id);
        if (await stepArchive(app, board)) closed.set(id, board);
      });
    }
  },
};
