import { sql } from "kysely";
import { fnv1a } from "./ids.ts";
import { KEPT, UNANSWERED, type Work } from "./work.ts";

/**
 * First key of the advisory locks that keep evaluation and changes of definitions apart; the second is the
 * project.
 */
const LOCK_SPACE = 79;

const keyOf = (projectId: string): number => fnv1a(projectId) | 0;

/**
 * Keeps the definitions of projects as they are until commit. What evaluates takes it first, and reads the
 * config version in a later statement: a statement sees what was committed before it began, not before its
 * lock was granted. A row lock would do the same, but share locks on a row pass a waiting writer, who then
 * waits for a gap that never comes; advisory locks are granted in turn.
 */
export const shareConfig = async ({ db }: Work, projectIds: readonly string[]): Promise<void> => {
  // All in one order, so that two batches and two changes cannot wait for one another in a ring.
  const keys = [...new Set(projectIds)].toSorted().map(keyOf);
  await sql`
    ${sql.raw(UNANSWERED + KEPT)} select pg_advisory_xact_lock_shared(${LOCK_SPACE}::int, k)
    from unnest(${`{${keys.join(",")}}`}::int[]) as u(k)`.execute(db);
};

/**
 * As `shareConfig`, without waiting for whoever changes definitions, or waits to.
 * @returns the projects whose definitions are kept as they are now
 */
export const tryShareConfig = async (
  { db }: Work,
  projectIds: readonly string[],
): Promise<ReadonlySet<string>> => {
  const ids = [...new Set(projectIds)].toSorted();
  const result = await sql<{ k: number; ok: boolean }>`
    ${sql.raw(KEPT)} select k, pg_try_advisory_xact_lock_shared(${LOCK_SPACE}::int, k) as ok
    from unnest(${`{${ids.map(keyOf).join(",")}}`}::int[]) as u(k)`.execute(db);
  const granted = new Set(result.rows.filter(({ ok }) => ok).map(({ k }) => k));
  return new Set(ids.filter((id) => granted.has(keyOf(id))));
};

/**
 * Waits until no other transaction of this process is to change a project's definitions: without a
 * connection, and in the order of their coming. `changeConfig` does it too; call it first where something
 * comes before that.
 * @throws OutOfTurn, for `transact`
 */
export const awaitConfigTurn = ({ turns }: Work, projectId: string): void =>
  turns.take(`config ${projectId}`);

/**
 * Bumps a project's config version, alone: this waits for every batch that evaluates with the definitions of
 * before, and batches that come later wait for this commit and see the new ones. What is read after this call
 * therefore has everything of the former and nothing of the latter.
 */
export const changeConfig = async (work: Work, projectId: string): Promise<void> => {
  awaitConfigTurn(work, projectId);
  const { db } = work;
  const key = keyOf(projectId);
  await sql`
    ${sql.raw(UNANSWERED)} select pg_advisory_xact_lock(${LOCK_SPACE}::int, ${key}::int)`.execute(db);
  await sql`update projects set config_version = config_version + 1 where id = ${projectId}`.execute(db);
};
