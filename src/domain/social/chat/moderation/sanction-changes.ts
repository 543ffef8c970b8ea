import { sql } from "kysely";
import { conflict, invalid, notFound } from "../../../kernel/errors.ts";
import { isId, newId } from "../../../kernel/ids.ts";
import { getPlayer } from "../../../progression/players/players.ts";
import type { Work } from "../../../kernel/work.ts";
import { isPrivate } from "../access.ts";
import type { Channel } from "../channel-row.ts";
import type { SanctionKind } from "../../../kernel/events/chat-views.ts";
import { actorName, auditModerator } from "./moderator.ts";
import { getSanction } from "./sanction-list.ts";
import { isActiveAt, type AppealStatus, type Sanction, type SanctionRow } from "./show-sanction.ts";

/** Maximum number of a player's concurrent sanctions: each send reads them. */
export const SANCTIONS_MAX = 20;
/** Ten years, in seconds; anything longer must be permanent. */
export const SANCTION_SECONDS_MAX = 10 * 366 * 86_400;
export const SANCTION_REASON_MAX = 500;
/** Maximum characters of an appeal. */
export const APPEAL_MAX = 1_000;

export type NewSanction = {
  /** A UUID, or `ext:` and the externalUserId. */
  playerId: string;
  kind: SanctionKind;
  /** Absent: in all channels of the project. */
  channelId?: string | undefined;
  reason: string;
  /** Absent: permanent. */
  durationSeconds?: number | undefined;
  isAutomatic?: true;
};

/** Whether the channel of a sanction is private. @throws DomainError VALIDATION_ERROR for an unknown one */
const isChannelPrivate = async ({ db }: Work, projectId: string, channelId: string): Promise<boolean> => {
  if (!isId(channelId)) throw invalid("channelId", "there is no such channel");
  const { rows } = await sql<Pick<Channel, "kind">>`
    select kind from chat_channels where project_id = ${projectId} and id = ${channelId}`.execute(db);
  if (!rows[0]) throw invalid("channelId", "there is no such channel");
  return isPrivate(rows[0]);
};

type Counted = { held: string | number };

/** Locks the player, so that two concurrent calls cannot exceed the limit together. */
const checkRoom = async ({ db, now }: Work, projectId: string, playerId: string): Promise<void> => {
  await sql`
    select 1 from players where project_id = ${projectId} and id = ${playerId}
    for no key update`.execute(db);
  const { rows } = await sql<Counted>`
    select count(*) as held from chat_sanctions
    where project_id = ${projectId} and player_id = ${playerId} and revoked_at is null
      and (expires_at is null or expires_at > ${now.toISOString()}::timestamptz)`.execute(db);
  if (Number(rows[0]!.held) >= SANCTIONS_MAX)
    throw conflict("LIMIT_REACHED", `the player already has ${SANCTIONS_MAX} sanctions in force`);
};

/**
 * Mutes, bans or shadow-mutes a player from now on. Emits `chat.player_sanctioned`; the player's sockets are
 * notified of a MUTE or BAN.
 * @throws DomainError NOT_FOUND for an unknown player, VALIDATION_ERROR for an unknown channel, CONFLICT
 * LIMIT_REACHED
 */
export const addSanction = async (
  work: Work,
  projectId: string,
  { playerId: ref, kind, channelId, reason, durationSeconds, isAutomatic }: NewSanction,
): Promise<Sanction> => {
  const player = await getPlayer(work, projectId, ref);
  const isInPrivate = channelId !== undefined && (await isChannelPrivate(work, projectId, channelId));
  if (isAutomatic === undefined) await checkRoom(work, projectId, player.id);
  const id = newId();
  const expiresAt =
    durationSeconds === undefined ? null : new Date(work.now.getTime() + durationSeconds * 1_000);
  const event = { id, player, kind, channelId: channelId ?? null, isInPrivate, reason, expiresAt };
  await insert(work, projectId, event, isAutomatic ?? false);
  emitSanction(work, projectId, event);
  const data = { kind, playerId: player.id, channelId: event.channelId };
  if (isAutomatic === undefined)
    await auditModerator(work, { action: "chat_sanction.created", projectId, id, data });
  return getSanction(work, projectId, id);
};

const insert = async (
  work: Work,
  projectId: string,
  event: SanctionEvent,
  isAutomatic: boolean,
): Promise<void> => {
  const { id, player, kind, channelId, reason, expiresAt } = event;
  await sql`
    insert into chat_sanctions
      (project_id, id, player_id, channel_id, kind, reason, is_automatic, expires_at, created_by, created_at)
    values (${projectId}, ${id}, ${player.id}, ${channelId}::uuid, ${kind}, ${reason}, ${isAutomatic},
      ${expiresAt?.toISOString() ?? null}::timestamptz, ${isAutomatic ? "system" : actorName(work)},
      ${work.now.toISOString()}::timestamptz)`.execute(work.db);
};

type SanctionEvent = {
  id: string;
  player: { id: string; externalUserId: string };
  kind: SanctionKind;
  channelId: string | null;
  /** Whether the channel is private. */
  isInPrivate: boolean;
  reason: string;
  expiresAt: Date | null;
};

/**
 * Notifies integrators of a sanction, for a private channel without the channel and the moderator's reason;
 * the player's own sockets get both.
 */
const emitSanction = (work: Work, projectId: string, event: SanctionEvent): void => {
  const { id, player, kind, channelId, isInPrivate, reason } = event;
  const { id: playerId, externalUserId } = player;
  const expiresAt = event.expiresAt?.toISOString() ?? null;
  const where = isInPrivate ? { channelId: null, reason: null } : { channelId, reason };
  const data = { playerId, externalUserId, sanctionId: id, kind, isInPrivateChannel: isInPrivate, expiresAt };
  work.emit(projectId, "chat.player_sanctioned", { ...data, ...where }, { playerId });
  // A player who knows of a shadow mute would continue under another name.
  if (kind === "SHADOW_MUTE") return;
  const notice = { name: "chat.sanction", data: { kind, channelId, expiresAt, reason } } as const;
  work.emit(projectId, "player.notice", { playerId, notice }, { playerId });
};

const lockSanction = async ({ db }: Work, projectId: string, id: string): Promise<SanctionRow> => {
  if (!isId(id)) throw notFound("sanction");
  const { rows } = await sql<SanctionRow>`
    select * from chat_sanctions where project_id = ${projectId} and id = ${id} for update`.execute(db);
  if (!rows[0]) throw notFound("sanction");
  return rows[0];
};

/** Revokes a sanction. @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE when it is no longer in force */
export const revokeSanction = async (work: Work, projectId: string, id: string): Promise<Sanction> => {
  const row = await lockSanction(work, projectId, id);
  if (!isActiveAt(row, work.now)) throw conflict("INVALID_STATE", "the sanction is no longer in force");
  await endSanction(work, projectId, id);
  await auditModerator(work, { action: "chat_sanction.revoked", projectId, id });
  return getSanction(work, projectId, id);
};

const endSanction = async (work: Work, projectId: string, id: string): Promise<void> => {
  await sql`
    update chat_sanctions
    set revoked_at = ${work.now.toISOString()}::timestamptz, revoked_by = ${actorName(work)}
    where project_id = ${projectId} and id = ${id} and revoked_at is null`.execute(work.db);
};

export type Appeal = {
  /** The sanctioned player: a UUID, or `ext:` and the externalUserId. */
  playerId: string;
  text: string;
};

/**
 * Submits the player's appeal against a sanction, once. A shadow mute does not exist for its player.
 * @throws DomainError NOT_FOUND also for another's, CONFLICT INVALID_STATE, ALREADY_APPEALED
 */
export const appealSanction = async (
  work: Work,
  projectId: string,
  id: string,
  { playerId, text }: Appeal,
): Promise<Sanction> => {
  const player = await getPlayer(work, projectId, playerId);
  const row = await lockSanction(work, projectId, id);
  if (row.player_id !== player.id || row.kind === "SHADOW_MUTE") throw notFound("sanction");
  if (!isActiveAt(row, work.now)) throw conflict("INVALID_STATE", "the sanction is no longer in force");
  if (row.appeal_status !== null) throw conflict("ALREADY_APPEALED", "a sanction can be appealed only once");
  await sql`
    update chat_sanctions set appeal = ${text}, appeal_status = 'OPEN',
      appealed_at = ${work.now.toISOString()}::timestamptz
    where project_id = ${projectId} and id = ${id}`.execute(work.db);
  return getSanction(work, projectId, id);
};

/**
 * Answers an appeal; accepting it revokes the sanction.
 * @throws DomainError NOT_FOUND, CONFLICT INVALID_STATE without an open appeal
 */
export const answerAppeal = async (
  work: Work,
  projectId: string,
  id: string,
  status: Exclude<AppealStatus, "OPEN">,
): Promise<Sanction> => {
  const row = await lockSanction(work, projectId, id);
  if (row.appeal_status !== "OPEN") throw conflict("INVALID_STATE", "there is no open appeal");
  await sql`
    update chat_sanctions set appeal_status = ${status}
    where project_id = ${projectId} and id = ${id}`.execute(work.db);
  if (status === "ACCEPTED") await endSanction(work, projectId, id);
  const action = status === "ACCEPTED" ? "chat_sanction.appeal_accepted" : "chat_sanction.appeal_rejected";
  await auditModerator(work, { action, projectId, id });
  return getSanction(work, projectId, id);
};
