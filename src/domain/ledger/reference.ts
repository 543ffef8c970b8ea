import { sql } from "kysely";
import { shareConfig } from "../config-lock.ts";
import { conflict, notFound } from "../errors.ts";
import { newId } from "../ids.ts";
import { lockPlayer } from "../progression/load.ts";
import type { Work } from "../work.ts";

export type PlayerKey = { projectId: string; id: string };

/** The ledger key of a change that somebody asks for under a reference, an order's number, say. */
export const referenceKey = (reference: string): string => `api:ref:${reference}`;

/**
 * Whether a player, or one who was merged into that player, has a line or a hold by this key. Only a locked
 * player's answer lasts.
 */
export const isKeyUsed = async (
  { db }: Work,
  { projectId, playerId, key }: { projectId: string; playerId: string; key: string },
): Promise<boolean> => {
  const reference = key.startsWith(referenceKey("")) ? key.slice(referenceKey("").length) : null;
  const { rows } = await sql`
    with own as (
      select id from players where project_id = ${projectId} and (id = ${playerId} or merged_into = ${playerId}))
    select 1 from own join ledger_entries l
      on l.project_id = ${projectId} and l.player_id = own.id and l.idempotency_key = ${key}
    union all select 1 from own join currency_holds h
      on h.project_id = ${projectId} and h.player_id = own.id and h.reference = ${reference}
    limit 1`.execute(db);
  return rows.length > 0;
};

/**
 * Locks a player, or whom it was merged into, in the order in which batches lock: the project's definitions
 * first, or a change of them could wait in a ring with us. @throws DomainError NOT_FOUND
 */
export const lockOwner = async (work: Work, { projectId, id }: PlayerKey): Promise<PlayerKey> => {
  await shareConfig(work, [projectId]);
  const player = await lockPlayer(work, projectId, id);
  if (!player) throw notFound("player");
  return { projectId, id: player.id };
};

/**
 * The ledger key of a change that somebody asks for. A reference serves a player once, whatever it is given
 * for: of two at once, the second looks when the first is done.
 * @throws DomainError CONFLICT REFERENCE_USED
 */
export const keyOfReference = async (
  work: Work,
  player: PlayerKey,
  reference: string | undefined,
): Promise<string> => {
  if (reference === undefined) return `api:${newId()}`;
  const key = referenceKey(reference);
  const { projectId, id: playerId } = await lockOwner(work, player);
  if (await isKeyUsed(work, { projectId, playerId, key }))
    throw conflict("REFERENCE_USED", `reference ${reference} was used for this player before`);
  return key;
};
