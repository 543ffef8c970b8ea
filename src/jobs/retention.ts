import type { App } from "../app.ts";
import { isLockConflict } from "../domain/kernel/outages.ts";
import {
  type AfterRow,
  deleteExpired,
  deleteStrays,
  dropPartition,
  type Expired,
  findExpired,
  RETAINED,
} from "../domain/registries/retention.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

const HOUR_MS = 3_600_000;
/** Rows per transaction. */
const ROWS_AT_ONCE = 1_000;
/** Projects per transaction. */
const PROJECTS_AT_ONCE = 100;

type Retained = (typeof RETAINED)[number];

/** Drops and deletes what projects no longer keep of large tables. */
export const retention: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: HOUR_MS,
  run: async (app) => {
    for (const retained of RETAINED) await expire(app, retained);
  },
};

const expire = async (app: App, retained: Retained): Promise<void> => {
  const { partitions, rows, beforeId } = await app.transact((work) => findExpired(work, retained));
  for (const name of partitions) {
    if (await dropOrLeave(app, retained, name)) app.log.info({ partition: name }, "partition dropped");
  }
  if (beforeId !== undefined) await expireStrays(app, retained, beforeId);
  await expireRows(app, retained, rows);
};

/** Projects take turns: one of whom much has expired keeps nobody waiting. */
const expireRows = async (app: App, retained: Retained, rows: readonly Expired[]): Promise<void> => {
  for (let left = rows; left.length > 0;) {
    const again: Expired[] = [];
    for (let at = 0; at < left.length; at += PROJECTS_AT_ONCE) {
      const expired = left.slice(at, at + PROJECTS_AT_ONCE);
      const some = { expired, limit: ROWS_AT_ONCE };
      again.push(...(await app.transact((work) => deleteExpired(work, retained, some))));
      await app.limits.pause?.();
    }
    left = again;
  }
};

const expireStrays = async (app: App, retained: Retained, beforeId: string): Promise<void> => {
  let after: AfterRow | undefined = [];
  while (after) {
    const page: { beforeId: string; after: AfterRow; limit: number } = {
      beforeId,
      after,
      limit: ROWS_AT_ONCE,
    };
    after = await app.transact((work) => deleteStrays(work, retained, page));
    await app.limits.pause?.();
  }
};

/** Leaves a partition whose table is in use for the next run. */
const dropOrLeave = async (app: App, retained: Retained, name: string): Promise<boolean> => {
  try {
    return await app.transact((work) => dropPartition(work, retained, name));
  } catch (error) {
    if (!isLockConflict(error)) throw error;
    return false;
  }
};
