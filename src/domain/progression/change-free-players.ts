import { sql } from "kysely";
import { shareConfig } from "../kernel/config-lock.ts";
import type { Work } from "../kernel/work.ts";
import { changePlayers, type ChangeInput } from "./change.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";

export type PlayersOf = { projectId: string; playerIds: readonly string[] };

type Preparing<P> = {
  /** Runs once the players are locked, before they are read. */
  prepare?: (playerIds: readonly string[]) => Promise<P>;
  /** Returns what is locked for what the change may give. */
  locksOf?: (plan: ProjectPlan, prepared: P) => Pick<ChangeInput, "gives" | "counters">;
};

/**
 * Changes those of a project's players that no other transaction has locked, as a sweep does for all players
 * with something due. Players passed over are found by the next sweep. What `prepare` returns is passed on.
 */
export const changeFreePlayers = async <P = undefined>(
  work: Work,
  { projectId, playerIds }: PlayersOf,
  { prepare, locksOf }: Preparing<P>,
  change: (turn: PlanTurn, prepared: P) => void,
): Promise<void> => {
  // In the lock order of batches.
  await shareConfig(work, [projectId]);
  const free = await lockFree(work, projectId, playerIds);
  if (free.length === 0) return;
  const prepared = (await prepare?.(free)) as P;
  const locks = locksOf && ((plan: ProjectPlan) => locksOf(plan, prepared));
  await changePlayers(work, projectId, { playerIds: free, locksOf: locks }, (turn) => change(turn, prepared));
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
