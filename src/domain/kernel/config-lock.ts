import { sql } from "kysely";
import { LOCK_SPACES } from "./advisory-locks.ts";
import { fnv1a } from "./ids.ts";
import type { Work } from "./work.ts";
import { kept, unanswered, unansweredKept } from "./statements.ts";

const keyOf = (projectId: string): number => fnv1a(projectId) | 0;

/** The waiting events of a project in one partition. */
export type ProjectPartition = { projectId: string; part: number };

const keyOfPartition = ({ projectId, part }: ProjectPartition): number => fnv1a(`${projectId} ${part}`) | 0;

/**
 * Locks the definitions of projects against changes until commit. To be called before evaluation, which reads
 * the config version in a later statement: a statement sees what was committed before it began, not before
 * its lock was granted. Not a row lock: share locks on a row overtake a waiting writer, which would starve;
 * advisory locks are granted in order.
 */
export const shareConfig = async ({ db }: Work, projectIds: readonly string[]): Promise<void> => {
  // All in one order, so that batches and changes cannot deadlock.
  const keys = [...new Set(projectIds)].toSorted().map(keyOf);
  await unansweredKept(
    db,
    sql`
    select pg_advisory_xact_lock_shared(${LOCK_SPACES.DEFINITIONS}::int, k)
    from unnest(${`{${keys.join(",")}}`}::int[]) as u(k)`,
  );
};

/**
 * As `shareConfig`, for a claim: without waiting for transactions that change definitions, or wait to. It
 * also locks events against `holdEvents`, so that the hot path has one statement for both.
 * @returns whether the definitions of a project, and the events of a partition, are locked
 */
export const tryShareConfig = async (
  { db }: Work,
  projectIds: readonly string[],
  places: readonly ProjectPartition[],
): Promise<{ hasConfig(projectId: string): boolean; hasEvents(place: ProjectPartition): boolean }> => {
  const configs = new Set(projectIds.map(keyOf));
  const events = new Set(places.map(keyOfPartition));
  const result = await kept(
    db,
    sql<{ s: number; k: number; ok: boolean }>`
    select s, k, pg_try_advisory_xact_lock_shared(s, k) as ok from (
      select ${LOCK_SPACES.DEFINITIONS}::int as s, k
      from unnest(${`{${[...configs].join(",")}}`}::int[]) as u(k)
      union all
      select ${LOCK_SPACES.EVENTS}::int, k from unnest(${`{${[...events].join(",")}}`}::int[]) as u(k)) x`,
  );
  const granted = new Set(result.rows.filter(({ ok }) => ok).map(({ s, k }) => `${s} ${k}`));
  return {
    hasConfig: (projectId) => granted.has(`${LOCK_SPACES.DEFINITIONS} ${keyOf(projectId)}`),
    hasEvents: (place) => granted.has(`${LOCK_SPACES.EVENTS} ${keyOfPartition(place)}`),
  };
};

/**
 * Waits until no claim holds events of a project in these partitions, and keeps claims from them until
 * commit; claims of other projects' events go on. A claim may have read them before: a change to a waiting
 * event must requeue it or remove it from the queue, which rolls such a claim back. To be called before
 * definitions and players are locked, as in the lock order of claims.
 */
export const holdEvents = async ({ db }: Work, projectId: string, parts: Iterable<number>): Promise<void> => {
  const keys = [...new Set([...parts].map((part) => keyOfPartition({ projectId, part })))].toSorted(
    (a, b) => a - b,
  );
  await unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.EVENTS}::int, k)
    from unnest(${`{${keys.join(",")}}`}::int[]) as u(k)`,
  );
};

/**
 * Waits until no other transaction of this process is about to change the project's definitions: in order of
 * arrival, without holding a connection. `changeConfig` does so too; to be called first where other
 * statements precede it.
 * @throws LaneOccupied, handled by `transact`
 */
export const awaitConfigLane = ({ lanes }: Work, projectId: string): void => lanes.take(turnOf(projectId));

const turnOf = (projectId: string): string => `config ${projectId}`;

/** Whether this transaction changes a project's definitions: their version is not final until it commits. */
export const mayChangeConfig = ({ lanes }: Work, projectId: string): boolean => lanes.has(turnOf(projectId));

/**
 * Waits for all batches of a project, and keeps others waiting until commit: for changes of what evaluation
 * reads with the project, apart from its definitions.
 */
export const holdConfig = async (work: Work, projectId: string): Promise<void> => {
  awaitConfigLane(work, projectId);
  work.changed(projectId);
  await unanswered(
    work.db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.DEFINITIONS}::int, ${keyOf(projectId)}::int)`,
  );
};

/**
 * Increments a project's config version under an exclusive lock: it waits for all batches that evaluate with
 * the previous definitions, and later batches wait for this commit and see the new ones. Reads after this
 * call therefore see all effects of the former and none of the latter.
 */
export const changeConfig = async (work: Work, projectId: string): Promise<void> => {
  await holdConfig(work, projectId);
  await sql`update projects set config_version = config_version + 1 where id = ${projectId}`.execute(work.db);
};
