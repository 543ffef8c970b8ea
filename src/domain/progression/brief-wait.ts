import { sql } from "kysely";
import { isLockTimeout } from "../kernel/outages.ts";
import { BATCH, chosenPatience } from "../kernel/patience.ts";
import type { Work } from "../kernel/work.ts";
import { savepoint } from "../kernel/savepoint.ts";
import { unanswered } from "../kernel/statements.ts";

/** How long claims wait for a lock that a request may hold, in ms. */
const BRIEF_MS = 50;

const limitWaits = async ({ db }: Work, ms: number): Promise<void> => {
  await unanswered(db, sql`set local lock_timeout = ${sql.lit(ms)}`);
};

/**
 * Runs statements of a claim that wait for locks of others, each in the queue of its lock, but only briefly.
 * @returns undefined where that was too long; then nothing of it was done
 */
export const waitBriefly = async <T>(work: Work, run: () => Promise<T>): Promise<T | undefined> => {
  try {
    return await savepoint(work, async () => {
      await limitWaits(work, BRIEF_MS);
      const value = await run();
      await limitWaits(work, (chosenPatience() ?? BATCH).lockMs);
      return value;
    });
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    return undefined;
  }
};
