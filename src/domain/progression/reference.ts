import { hash } from "node:crypto";
import { sql } from "kysely";
import { shareConfig } from "../kernel/config-lock.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import { newId } from "../kernel/ids.ts";
import { lockPlayer } from "./load.ts";
import type { Work } from "../kernel/work.ts";

export type PlayerKey = { projectId: string; id: string };

/**
 * The ledger key of a change that somebody asks for under a reference, an order's number, say. Keys are part
 * of the chain and stay when a player is erased, so the text, which may tell of a person, is not in it.
 */
export const referenceKey = (reference: string): string => `api:ref:${hash("sha256", reference, "hex")}`;

/**
 * Whether a player, or one who was merged into that player, has a line or a hold by this reference. Only a
 * locked player's answer lasts.
 */
export const isReferenceUsed = async (
  { db }: Work,
  { projectId, playerId, reference }: { projectId: string; playerId: string; reference: string },
): Promise<boolean> => {
  // The second is how keys were written at first.
  const keys = [referenceKey(reference), `api:ref:${reference}`];
  const { rows } = await sql`
    with own as (
      select id from players
      where project_id = ${projectId} and (id = ${playerId} or merged_into = ${playerId}))
    select 1 from own join ledger_entries l
      on l.project_id = ${projectId} and l.player_id = own.id and l.idempotency_key in (${sql.join(keys)})
    union all select 1 from own join currency_holds h
      on h.project_id = ${projectId} and h.player_id = own.id and h.reference = ${reference}
    limit 1`.execute(db);
  return rows.length > 0;
};

/**
 * Locks a player, or whom it was merged into, in the order in which batches lock: the project's definitions
 * first, or a change of them could wait in a ring with us. @throws DomainError NOT_FOUND
 */
export const lockPlayerRow = async (work: Work, { projectId, id }: PlayerKey): Promise<PlayerKey> => {
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
  const { projectId, id: playerId } = await lockPlayerRow(work, player);
  if (await isReferenceUsed(work, { projectId, playerId, reference }))
    throw conflict("REFERENCE_USED", `reference ${reference} was used for this player before`);
  return referenceKey(reference);
};
