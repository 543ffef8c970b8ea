import { sql } from "kysely";
import { LOCK_SPACES } from "./advisory-locks.ts";
import { fnv1a } from "./ids.ts";
import { unanswered } from "./statements.ts";
import type { Work } from "./work.ts";

/** What of a project is limited in number. */
export type Limited =
  | "jobs"
  | "rules"
  | "lobbies"
  | "channels"
  | "event schemas"
  | "drafts"
  | "exports"
  | "reports"
  | `codes ${string}`
  | `quest codes ${string}`;

/** Part of a limit from which on it is counted under the lock. */
const NEAR = 0.9;

/** Whether a limit is so near that those who ask at once could exceed it together. */
export const isNear = (count: number, max: number): boolean => count >= max * NEAR;

/**
 * Makes transactions that add to what a project may have a limited number of take turns until commit: two
 * that count at the same time would both find the last place free. To be called before they are counted, and
 * before rows are locked that another such transaction may wait for.
 */
export const lockRoom = ({ db }: Work, projectId: string, limited: Limited): Promise<void> => {
  const key = fnv1a(`${projectId} ${limited}`) | 0;
  return unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.ROOM}::int, ${key}::int)`,
  );
};

/**
 * Counts what is added often, and takes the lock only where the limit is near: far from it, no number of
 * transactions at once can reach it.
 */
export const countNear = async (
  work: Work,
  { projectId, limited, max }: { projectId: string; limited: Limited; max: number },
  count: () => Promise<number>,
): Promise<number> => {
  const first = await count();
  if (!isNear(first, max) || first >= max) return first;
  await lockRoom(work, projectId, limited);
  return count();
};
