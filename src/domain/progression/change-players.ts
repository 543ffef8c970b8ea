import { sql } from "kysely";
import type { Work } from "../work.ts";
import { lockPlayersById } from "./load.ts";
import { PLAYER_PARTS } from "./parts/parts.ts";
import { takePlayers } from "./several.ts";
import type { PlayerState, Turn } from "./turn.ts";

export type PlayersOf = { projectId: string; playerIds: readonly string[] };

/**
 * Changes the players of a project whom no other transaction has at hand, in one transaction, on the same path
 * as events: what a sweep does to all for whom something is due. Whoever is left out is found by the next one.
 * @param prepare runs once the players are locked, before they are read; `change` is given what it answers
 */
export const changePlayers = async <P>(
  work: Work,
  { projectId, playerIds }: PlayersOf,
  prepare: (playerIds: readonly string[]) => Promise<P>,
  change: (turn: Turn, prepared: P) => void,
): Promise<void> => {
  let prepared: P | undefined;
  const players: PlayerState[] = [];
  const { open, settle, save } = await takePlayers(work, {
    projectId,
    parts: PLAYER_PARTS,
    lock: async () => {
      const free = await lockFree(work, projectId, playerIds);
      if (free.length === 0) return players;
      prepared = await prepare(free);
      players.push(...(await lockPlayersById(work, projectId, free)).values());
      return players;
    },
  });
  for (const player of players) {
    const turn = open(player);
    change(turn, prepared as P);
    settle(turn);
  }
  if (players.length > 0) await save();
};

/** In the order in which batches lock, passing over those whom they have. */
const lockFree = async ({ db }: Work, projectId: string, playerIds: readonly string[]): Promise<string[]> => {
  const locked = await sql<{ id: string }>`
    select id from players
    where project_id = ${projectId} and id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and merged_into is null
    order by id for update skip locked`.execute(db);
  return locked.rows.map(({ id }) => id);
};
