import { hash } from "node:crypto";
import { sql } from "kysely";
import { shareConfig } from "../kernel/config-lock.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import { newId } from "../kernel/ids.ts";
import { lockPlayer } from "./load.ts";
import type { Work } from "../kernel/work.ts";

export type PlayerKey = { projectId: string; id: string };

/**
 * Returns the ledger key of a change requested under a reference, such as an order number. Keys are part of
 * the hash chain and stay when a player is erased, so the text, which may be personal data, is hashed.
 */
export const referenceKey = (reference: string): string => `api:ref:${hash("sha256", reference, "hex")}`;

/**
 * Returns whether a player, or one merged into it, has a ledger line or hold with this reference. The result
 * only holds while the player is locked.
 */
export const isReferenceUsed = async (
  { db }: Work,
  { projectId, playerId, reference }: { projectId: string; playerId: string; reference: string },
): Promise<boolean> => {
  // The second is the original format of keys.
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
 * Locks a player, or its merge target, in the lock order of batches: the project's definitions first, to
 * avoid deadlocks with a change of them. @throws DomainError NOT_FOUND
 */
export const lockPlayerRow = async (work: Work, { projectId, id }: PlayerKey): Promise<PlayerKey> => {
  await shareConfig(work, [projectId]);
  const player = await lockPlayer(work, projectId, id);
  if (!player) throw notFound("player");
  return { projectId, id: player.id };
};

/**
 * Returns the ledger key of a requested change. A reference can be used once per player, for any purpose: of
 * two concurrent uses, the second looks after the first is done.
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
