import { sql } from "kysely";
import { shareConfig } from "../kernel/config-lock.ts";
import { notFound } from "../kernel/errors.ts";
import type { Cause } from "../kernel/events/events.ts";
import { newId } from "../kernel/ids.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { openGroupChange } from "../progression/group-change.ts";
import type { Work } from "../kernel/work.ts";
import { mergePlayers } from "./merge.ts";
import { lockMerges } from "./merge-lock.ts";
import { DEFAULT_STRATEGY } from "../kernel/events/merge-plan.ts";
import type { Player } from "../players/player.ts";
import { findPlayer, identifyPlayer, lockKnown, refreshPlayer } from "../progression/players/players.ts";

export type Alias = { anonymousId: string; externalUserId: string; cause: Cause };

export type Aliased = { player: Player; merged: boolean; linked: boolean };

/**
 * Identifies the player of `anonymousId` as `externalUserId`: assigns that id to the player if it is new,
 * otherwise merges the player into the one who has it. Both ids refer to the player from then on. Idempotent.
 * Somebody who is identified already is neither renamed nor merged: on a device that several people use, the
 * next one gets a player of their own, and `linked` is false.
 * @throws DomainError NOT_FOUND for an unknown anonymousId; CONFLICT PLAYER_INACTIVE
 */
export const aliasPlayer = async (
  work: Work,
  projectId: string,
  { anonymousId, externalUserId, cause }: Alias,
): Promise<Aliased> => {
  await lockMerges(work, projectId);
  // In the locking order of batches: the definitions before the players.
  await shareConfig(work, [projectId]);
  const source = await findPlayer(work, projectId, `ext:${anonymousId}`);
  if (!source) throw notFound("player");
  const known = await findPlayer(work, projectId, `ext:${externalUserId}`);
  if (known?.id === source.id)
    return { player: await refreshPlayer(work, projectId, source.id), merged: false, linked: true };
  if (await isIdentified(work, source, anonymousId)) {
    const player = known ?? (await identifyPlayer(work, projectId, { externalUserId }, cause)).player;
    return { player: await refreshPlayer(work, projectId, player.id), merged: false, linked: false };
  }
  return link(work, source, { externalUserId, known, cause });
};

type Link = Omit<Alias, "anonymousId"> & { known: Player | undefined };

const link = async (work: Work, source: Player, { externalUserId, known, cause }: Link): Promise<Aliased> => {
  const { projectId } = source;
  if (!known) {
    // Before the name, because batches lock the players they know before they create others.
    await lockKnown(work, projectId, source.id);
    const isReserved = await reserveName(work, projectId, externalUserId);
    if (isReserved)
      return { player: await rename(work, source, { externalUserId, cause }), merged: false, linked: true };
  }
  const target = known ?? (await findPlayer(work, projectId, `ext:${externalUserId}`));
  if (!target) throw notFound("player");
  const { actor } = cause;
  const { targetId } = await mergePlayers(work, {
    projectId,
    targetId: target.id,
    sourceId: source.id,
    strategy: DEFAULT_STRATEGY,
    cause: actor === undefined ? {} : { actor },
  });
  return { player: await refreshPlayer(work, projectId, targetId), merged: true, linked: true };
};

/** Whether a player has another id than `name`, which an alias or a merge has given. */
const isIdentified = async (
  { db }: Work,
  { projectId, id, externalUserId }: Player,
  name: string,
): Promise<boolean> => {
  if (externalUserId !== name) return true;
  const others = await sql`
    select 1 from players where project_id = ${projectId} and merged_into = ${id} limit 1`.execute(db);
  return others.rows.length > 0;
};

/**
 * Reserves a name until commit, as the row of a merged player without a target yet; false when it is taken.
 */
const reserveName = async (
  { db, now }: Work,
  projectId: string,
  externalUserId: string,
): Promise<boolean> => {
  const made = await sql`
    insert into players (project_id, id, external_user_id, status, created_at, updated_at)
    values (${projectId}, ${newId()}, ${externalUserId}, 'MERGED', ${now.toISOString()}::timestamptz,
      ${now.toISOString()}::timestamptz)
    on conflict do nothing returning 1`.execute(db);
  return made.rows.length > 0;
};

/** Swaps the names of both rows, so that the reserving row keeps the old name and refers to the player. */
const rename = async (
  work: Work,
  { projectId, id: asked }: Player,
  { externalUserId, cause }: Omit<Alias, "anonymousId">,
): Promise<Player> => {
  let state: PlayerState | undefined;
  const { open, settle, save } = await openGroupChange(work, {
    projectId,
    lock: async () => [(state = await lockKnown(work, projectId, asked))],
  });
  const player = state!;
  const { id, externalUserId: before } = player;
  const turn = open(player);
  player.externalUserId = externalUserId;
  const changed = ["externalUserId"];
  const difference = { before: { externalUserId: before }, after: { externalUserId } };
  turn.emit("player.updated", { playerId: id, externalUserId, changed, ...difference, cause });
  await settle(turn);
  await save();
  await swapNames(work, { projectId, id, from: before, to: externalUserId });
  return refreshPlayer(work, projectId, id);
};

type Swap = { projectId: string; id: string; from: string; to: string };

/** In three steps, since a name must be unique at any moment. */
const swapNames = async ({ db }: Work, { projectId, id, from, to }: Swap): Promise<void> => {
  const between = `renaming:${id}`;
  await sql`
    update players set external_user_id = ${between}, merged_into = ${id}
    where project_id = ${projectId} and external_user_id = ${to}`.execute(db);
  await sql`
    update players set external_user_id = ${to} where project_id = ${projectId} and id = ${id}`.execute(db);
  await sql`
    update players set external_user_id = ${from}
    where project_id = ${projectId} and external_user_id = ${between}`.execute(db);
};
