import { sql } from "kysely";
import { z } from "zod";
import { conflict } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { PlayerText } from "./fields.ts";
import { setHost } from "./host.ts";
import { removeMember } from "./membership.ts";
import { notInLobby, requireHost } from "./rights.ts";
import { findMember, type LobbyState } from "./state.ts";
import type { LobbyEdit } from "./edit.ts";
import type { LobbyActor } from "../../kernel/events/lobby-views.ts";

export const Kick = z.object({
  playerId: PlayerText,
  ban: z.boolean().default(false).meta({ description: "The player cannot join this lobby again" }),
  reason: z.string().min(1).max(255).optional(),
});

const banFrom = async (
  { db, now }: Work,
  { projectId, id }: LobbyState,
  { playerId, reason }: { playerId: string; reason: string | null },
): Promise<void> => {
  await sql`
    insert into lobby_bans (project_id, lobby_id, player_id, reason, created_at)
    values (${projectId}, ${id}, ${playerId}, ${reason}, ${now.toISOString()}::timestamptz)
    on conflict (project_id, lobby_id, player_id) do nothing`.execute(db);
};

/**
 * Removes a member, who is notified. The host may do so until the game begins.
 * @throws DomainError FORBIDDEN NOT_HOST; CONFLICT: NOT_IN_LOBBY, INVALID_STATE
 */
export const kickMember = async (
  edit: LobbyEdit,
  actor: LobbyActor,
  {
    playerId: ref,
    ban,
    reason = null,
  }: Omit<z.output<typeof Kick>, "reason"> & { reason?: string | null | undefined },
): Promise<void> => {
  const { lobby, work } = edit;
  requireHost(lobby, actor);
  const member = findMember(lobby, ref);
  if (!member) throw notInLobby();
  const { playerId } = member;
  if (actor.kind === "PLAYER" && lobby.status === "IN_GAME")
    throw conflict("INVALID_STATE", "during a game only the server may remove a player");
  if (actor.kind === "PLAYER" && actor.playerId === playerId)
    throw conflict("INVALID_STATE", "the host cannot be kicked: leave the lobby instead");
  if (ban) await banFrom(work, lobby, { playerId, reason });
  const data = { lobbyId: lobby.id, reason, banned: ban };
  const notice = { name: "lobby.kicked", data } as const;
  work.emit(lobby.projectId, "player.notice", { playerId, notice }, { playerId });
  removeMember(edit, member, "KICKED");
};

export const HandOver = z.object({ playerId: PlayerText });

/** Makes another player the host. @throws DomainError FORBIDDEN NOT_HOST; CONFLICT NOT_IN_LOBBY */
export const handOver = (edit: LobbyEdit, actor: LobbyActor, ref: string): void => {
  const { lobby } = edit;
  requireHost(lobby, actor);
  const member = findMember(lobby, ref);
  if (member?.role !== "PLAYER") throw notInLobby();
  if (lobby.hostPlayerId !== member.playerId) setHost(edit, member);
};
