import type { App } from "../app.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import { followClock, sandboxesAhead } from "../domain/registries/clock/follow.ts";
import type { Job } from "./job.ts";

/** Maximum steps of a sandbox in a run: those behind it, and others that are advanced, have their turn. */
const STEPS_MAX = 100;

/** @returns whether the sandbox may have another step */
const stepOne = async (app: App, projectId: string): Promise<boolean> => {
  try {
    const isMore = await app.transact((work) => followClock(work, projectId));
    if (isMore) await app.limits.pause?.();
    return isMore;
  } catch (err) {
    throwOutage(err);
    // A sandbox that fails must not delay the others.
    app.log.error({ err, projectId }, "what is due in a sandbox could not be done");
    return false;
  }
};

/** Does a step of each in turn. */
const followAll = async (app: App, projectIds: readonly string[]): Promise<void> => {
  let left = projectIds;
  for (let n = 0; n < STEPS_MAX && left.length > 0; n++) {
    const busy: string[] = [];
    for (const projectId of left) if (await stepOne(app, projectId)) busy.push(projectId);
    left = busy;
  }
};

/** Does what falls due in sandboxes by their own clocks, as these go on after an advance. */
export const followClocks: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: 10_000,
  run: async (app) => {
    for (let after: string | undefined; ;) {
      const page = await app.transact((work) => sandboxesAhead(work, after));
      await followAll(app, page);
      after = page.at(-1);
      if (after === undefined) return;
    }
  },
};
