import { sql } from "kysely";
import { shareConfig } from "../kernel/config-lock.ts";
import type { Work } from "../kernel/work.ts";
import { changePlayers } from "./change.ts";
import type { PlanTurn } from "../evaluation/project-plan.ts";

export type PlayersOf = { projectId: string; playerIds: readonly string[] };

/**
 * Changes those of a project's players that no other transaction has locked, as a sweep does for all players
 * with something due. Players passed over are found by the next sweep.
 * @param prepare runs once the players are locked, before they are read; its result is passed to `change`
 */
export const changeFreePlayers = async <P>(
  work: Work,
  { projectId, playerIds }: PlayersOf,
  prepare: (playerIds: readonly string[]) => Promise<P>,
  change: (turn: PlanTurn, prepared: P) => void,
): Promise<void> => {
  // In the lock order of batches.
  await shareConfig(work, [projectId]);
  const free = await lockFree(work, projectId, playerIds);
  if (free.length === 0) return;
  const prepared = await prepare(free);
  await changePlayers(work, projectId, { playerIds: free }, (turn) => change(turn, prepared));
};

/** Locks players by id, skipping those locked by other transactions. */
const lockFree = async ({ db }: Work, projectId: string, playerIds: readonly string[]): Promise<string[]> => {
  const locked = await sql<{ id: string }>`
    select id from players
    where project_id = ${projectId} and id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and merged_into is null
    order by id for update skip locked`.execute(db);
  return locked.rows.map(({ id }) => id);
};
