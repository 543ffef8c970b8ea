import type { App } from "../app.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import { type EndingRows, followEnd, movedEnds } from "../domain/progression/moved-ends.ts";

/**
 * Makes rows of players due by the ends of their definitions that were moved. A definition that fails delays
 * no other, and is tried again by the next run.
 */
export const followMovedEnds = async (app: App, rows: EndingRows): Promise<void> => {
  for (const moved of await app.transact((work) => movedEnds(work, rows))) {
    try {
      while ((await app.transact((work) => followEnd(work, rows, moved))) === "MORE")
        await app.limits.pause?.();
    } catch (err) {
      throwOutage(err);
      app.log.error({ err, moved, kind: rows.kind }, "an end that was moved could not be followed");
    }
  }
};
