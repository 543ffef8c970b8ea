import { sql } from "kysely";
import { shareConfig } from "../kernel/config-lock.ts";
import type { Work } from "../kernel/work.ts";
import { changePlayers } from "./change.ts";
import type { Turn } from "../evaluation/turn.ts";

export type PlayersOf = { projectId: string; playerIds: readonly string[] };

/**
 * Changes the players of a project whom no other transaction has at hand: what a sweep does to all for whom
 * something is due. Whoever is left out is found by the next one.
 * @param prepare runs once the players are locked, before they are read; `change` is given what it answers
 */
export const changeFreePlayers = async <P>(
  work: Work,
  { projectId, playerIds }: PlayersOf,
  prepare: (playerIds: readonly string[]) => Promise<P>,
  change: (turn: Turn, prepared: P) => void,
): Promise<void> => {
  // In the order in which batches lock.
  await shareConfig(work, [projectId]);
  const free = await lockFree(work, projectId, playerIds);
  if (free.length === 0) return;
  const prepared = await prepare(free);
  await changePlayers(work, projectId, { playerIds: free }, (turn) => change(turn, prepared));
};

/** Locks players by id, passing over those whom somebody else has. */
const lockFree = async ({ db }: Work, projectId: string, playerIds: readonly string[]): Promise<string[]> => {
  const locked = await sql<{ id: string }>`
    select id from players
    where project_id = ${projectId} and id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and merged_into is null
    order by id for update skip locked`.execute(db);
  return locked.rows.map(({ id }) => id);
};
