import type { App } from "../app.ts";
import { isLockConflict } from "../domain/kernel/outages.ts";
import { deleteExpired, dropPartition, findExpired, RETAINED } from "../domain/registries/retention.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

const HOUR_MS = 3_600_000;
/** Rows per transaction. */
const ROWS_AT_ONCE = 1_000;

/** Drops and deletes what projects no longer keep of large tables. */
export const retention: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: HOUR_MS,
  run: async (app) => {
    for (const retained of RETAINED) await expire(app, retained);
  },
};

const expire = async (app: App, retained: (typeof RETAINED)[number]): Promise<void> => {
  const { partitions, rows } = await app.transact((work) => findExpired(work, retained));
  for (const name of partitions) {
    if (await dropOrLeave(app, retained, name)) app.log.info({ partition: name }, "partition dropped");
  }
  for (const expired of rows) {
    let deleted: number;
    do {
      deleted = await app.transact((work) =>
        deleteExpired(work, retained, { ...expired, limit: ROWS_AT_ONCE }),
      );
      await app.limits.pause?.();
    } while (deleted === ROWS_AT_ONCE);
  }
};

/** Leaves a partition whose table is in use for the next run. */
const dropOrLeave = async (app: App, retained: (typeof RETAINED)[number], name: string): Promise<boolean> => {
  try {
    return await app.transact((work) => dropPartition(work, retained, name));
  } catch (error) {
    if (!isLockConflict(error)) throw error;
    return false;
  }
};
