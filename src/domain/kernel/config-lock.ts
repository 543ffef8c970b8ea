import { sql } from "kysely";
import { fnv1a } from "./ids.ts";
import type { Work } from "./work.ts";
import { kept, unanswered, unansweredKept } from "./statements.ts";

/**
 * First key of the advisory locks that keep evaluation and changes of definitions apart; the second is the
 * project.
 */
const LOCK_SPACE = 79;

/** As LOCK_SPACE, of those that keep claims and jobs from the same events; the second is their place. */
const EVENTS_SPACE = 89;

const keyOf = (projectId: string): number => fnv1a(projectId) | 0;

/** The events of a project that wait in one partition. */
export type EventsPlace = { projectId: string; part: number };

const keyOfPlace = ({ projectId, part }: EventsPlace): number => fnv1a(`${projectId} ${part}`) | 0;

/**
 * Keeps the definitions of projects as they are until commit. What evaluates takes it first, and reads the
 * config version in a later statement: a statement sees what was committed before it began, not before its
 * lock was granted. A row lock would do the same, but share locks on a row pass a waiting writer, who then
 * waits for a gap that never comes; advisory locks are granted in turn.
 */
export const shareConfig = async ({ db }: Work, projectIds: readonly string[]): Promise<void> => {
  // All in one order, so that two batches and two changes cannot wait for one another in a ring.
  const keys = [...new Set(projectIds)].toSorted().map(keyOf);
  await unansweredKept(
    db,
    sql`
    select pg_advisory_xact_lock_shared(${LOCK_SPACE}::int, k)
    from unnest(${`{${keys.join(",")}}`}::int[]) as u(k)`,
  );
};

/**
 * As `shareConfig`, for a claim: without waiting for whoever changes definitions, or waits to. With them it
 * keeps events of some places from `holdEvents`, so that the hot path has one statement for both.
 * @returns whether definitions of a project are kept as they are now, and events of a place for this claim
 */
export const tryShareConfig = async (
  { db }: Work,
  projectIds: readonly string[],
  places: readonly EventsPlace[],
): Promise<{ hasConfig(projectId: string): boolean; hasEvents(place: EventsPlace): boolean }> => {
  const configs = new Set(projectIds.map(keyOf));
  const events = new Set(places.map(keyOfPlace));
  const result = await kept(
    db,
    sql<{ s: number; k: number; ok: boolean }>`
    select s, k, pg_try_advisory_xact_lock_shared(s, k) as ok from (
      select ${LOCK_SPACE}::int as s, k from unnest(${`{${[...configs].join(",")}}`}::int[]) as u(k)
      union all
      select ${EVENTS_SPACE}::int, k from unnest(${`{${[...events].join(",")}}`}::int[]) as u(k)) x`,
  );
  const granted = new Set(result.rows.filter(({ ok }) => ok).map(({ s, k }) => `${s} ${k}`));
  return {
    hasConfig: (projectId) => granted.has(`${LOCK_SPACE} ${keyOf(projectId)}`),
    hasEvents: (place) => granted.has(`${EVENTS_SPACE} ${keyOfPlace(place)}`),
  };
};

/**
 * Waits until no claim has events of a project in these partitions, and keeps claims from them until commit,
 * while those of other projects go on. A claim may have read them before: what is changed here of an event
 * that waits has to give it a new place in the queue, or none, which undoes such a claim. Call it before
 * definitions and players are locked, which is the order of claims.
 */
export const holdEvents = async ({ db }: Work, projectId: string, parts: Iterable<number>): Promise<void> => {
  const keys = [...new Set([...parts].map((part) => keyOfPlace({ projectId, part })))].toSorted(
    (a, b) => a - b,
  );
  await unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${EVENTS_SPACE}::int, k)
    from unnest(${`{${keys.join(",")}}`}::int[]) as u(k)`,
  );
};

/**
 * Waits until no other transaction of this process is to change a project's definitions: without a
 * connection, and in the order of their coming. `changeConfig` does it too; call it first where something
 * comes before that.
 * @throws OutOfTurn, for `transact`
 */
export const awaitConfigTurn = ({ turns }: Work, projectId: string): void => turns.take(turnOf(projectId));

const turnOf = (projectId: string): string => `config ${projectId}`;

/** Whether this transaction changes a project's definitions: their version is not final until it commits. */
export const mayChangeConfig = ({ turns }: Work, projectId: string): boolean => turns.has(turnOf(projectId));

/**
 * Bumps a project's config version, alone: this waits for every batch that evaluates with the definitions of
 * before, and batches that come later wait for this commit and see the new ones. What is read after this call
 * therefore has everything of the former and nothing of the latter.
 */
export const changeConfig = async (work: Work, projectId: string): Promise<void> => {
  awaitConfigTurn(work, projectId);
  const { db } = work;
  const key = keyOf(projectId);
  await unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACE}::int, ${key}::int)`,
  );
  await sql`update projects set config_version = config_version + 1 where id = ${projectId}`.execute(db);
};
