import { sql } from "kysely";
import { isLockTimeout } from "../kernel/outages.ts";
import { BATCH, chosenTimeouts } from "../kernel/timeouts.ts";
import type { Work } from "../kernel/work.ts";
import { savepoint } from "../kernel/savepoint.ts";
import { unanswered } from "../kernel/statements.ts";

/** Maximum time that a claim waits for a lock held by a request, in ms. */
const BRIEF_MS = 50;

const limitWaits = async ({ db }: Work, ms: number): Promise<void> => {
  await unanswered(db, sql`set local lock_timeout = ${sql.lit(ms)}`);
};

/**
 * Runs statements of a claim that wait for locks of other transactions, each only briefly.
 * @returns undefined on timeout; then all its statements are rolled back
 */
export const waitBriefly = async <T>(work: Work, run: () => Promise<T>): Promise<T | undefined> => {
  try {
    return await savepoint(work, async () => {
      await limitWaits(work, BRIEF_MS);
      const value = await run();
      await limitWaits(work, (chosenTimeouts() ?? BATCH).lockMs);
      return value;
    });
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    return undefined;
  }
};
