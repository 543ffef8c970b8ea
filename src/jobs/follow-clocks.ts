import type { App } from "../app.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import { followClock, sandboxesAhead } from "../domain/registries/clock/follow.ts";
import type { Job } from "./job.ts";

const followOne = async (app: App, projectId: string): Promise<void> => {
  try {
    while (await app.transact((work) => followClock(work, projectId))) await app.limits.pause?.();
  } catch (err) {
    throwOutage(err);
    // A sandbox that fails must not delay the others.
    app.log.error({ err, projectId }, "what is due in a sandbox could not be done");
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
      for (const projectId of page) await followOne(app, projectId);
      after = page.at(-1);
      if (after === undefined) return;
    }
  },
};
