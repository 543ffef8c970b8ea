import { sql } from "kysely";
import { LOCK_SPACES } from "../kernel/advisory-locks.ts";
import { fnv1a } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { unanswered } from "../kernel/statements.ts";

/**
 * Serializes merges and aliases of a project: each may change whom the others are about. Must be the first
 * lock of the transaction.
 * A merge also changes the rows of those who were merged before. A batch that began before such a merge may
 * hold one of them while it waits for this merge's players; the database then ends one of the two, and
 * nothing is lost: the batch is repeated, or the caller gets 503 and retries.
 */
export const lockMerges = async ({ db }: Work, projectId: string): Promise<void> => {
  const key = fnv1a(projectId) | 0;
  await unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.MERGES}::int, ${key}::int)`,
  );
};
