import { sql } from "kysely";
import { z } from "zod";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { PlayerText } from "./fields.ts";
import { joinLobby } from "./join.ts";
import { INVITE_MS, INVITES_AT_ONCE, INVITES_OPEN_MAX } from "./limits.ts";
import { actingMember } from "./rights.ts";
import { playerRef } from "./show.ts";
import type { LobbyRef, LobbyState } from "./state.ts";
import type { LobbyEdit } from "./edit.ts";
import type { LobbyActor, LobbyChange } from "../../kernel/events/lobby-views.ts";

export const Invitation = z.object({ playerIds: z.array(PlayerText).min(1).max(INVITES_AT_ONCE) });

/** Returns the ids of players who can be invited. @throws DomainError NOT_FOUND unless each is one */
const findInvited = async ({ db }: Work, projectId: string, refs: readonly string[]): Promise<string[]> => {
  const ids = refs.filter(isId);
  const names = refs.filter((ref) => ref.startsWith("ext:")).map((ref) => ref.slice(4));
  const { rows } = await sql<{ id: string; name: string }>`
    select id, external_user_id as name from players
    where project_id = ${projectId} and status = 'ACTIVE'
      and (id = any(${JSON.stringify(ids).replace("[", "{").replace("]", "}")}::uuid[])
        or external_user_id in (select json_array_elements_text(${JSON.stringify(names)}::json)))`.execute(
    db,
  );
  const known = new Set(rows.flatMap(({ id, name }) => [id, `ext:${name}`]));
  const unknown = refs.findIndex((ref) => !known.has(ref.startsWith("ext:") ? ref : ref.toLowerCase()));
  if (unknown >= 0) throw notFound(`playerIds.${unknown}`);
  return [...new Set(rows.map(({ id }) => id))];
};

/** Invitations that are repeated count once. @throws DomainError CONFLICT INVITE_LIMIT */
const refuseTooMany = async (
  { db, now }: Work,
  { projectId, id }: LobbyState,
  invited: readonly string[],
): Promise<void> => {
  const { rows } = await sql<{ n: string | number }>`
    select count(*) as n from lobby_invites
    where project_id = ${projectId} and lobby_id = ${id} and status = 'PENDING'
      and expires_at > ${now.toISOString()}::timestamptz
      and player_id <> all(${`{${invited.join(",")}}`}::uuid[])`.execute(db);
  if (Number(rows[0]!.n) + invited.length > INVITES_OPEN_MAX)
    throw conflict("INVITE_LIMIT", `a lobby has at most ${INVITES_OPEN_MAX} open invitations`);
};

/**
 * Invites players, each of whom is notified on their stream; a repeated invitation restarts its full
 * duration.
 * @throws DomainError NOT_FOUND; CONFLICT: LOBBY_NOT_OPEN, NOT_IN_LOBBY, INVITE_LIMIT
 */
export const invitePlayers = async (
  { work, lobby }: LobbyEdit,
  actor: LobbyActor,
  { playerIds }: z.output<typeof Invitation>,
): Promise<void> => {
  if (lobby.status === "CLOSED") throw conflict("LOBBY_NOT_OPEN", "the lobby is CLOSED");
  const from = actor.kind === "PLAYER" ? playerRef(actingMember(lobby, actor)) : null;
  const invited = await findInvited(work, lobby.projectId, playerIds);
  await refuseTooMany(work, lobby, invited);
  const at = work.now.toISOString();
  const expiresAt = new Date(work.now.getTime() + INVITE_MS).toISOString();
  await sql`
    insert into lobby_invites (project_id, lobby_id, player_id, invited_by, status, expires_at, created_at)
    select ${lobby.projectId}::uuid, ${lobby.id}::uuid, p, ${from?.playerId ?? null}::uuid, 'PENDING',
      ${expiresAt}::timestamptz, ${at}::timestamptz
    from unnest(${`{${invited.join(",")}}`}::uuid[]) as x(p)
    on conflict (project_id, lobby_id, player_id) do update set status = 'PENDING',
      invited_by = excluded.invited_by, expires_at = excluded.expires_at`.execute(work.db);
  const data = { lobbyId: lobby.id, code: lobby.code, from, expiresAt };
  for (const playerId of invited) {
    const notice = { name: "lobby.invited", data } as const;
    work.emit(lobby.projectId, "player.notice", { playerId, notice }, { playerId });
  }
};

/**
 * Answers an invitation; accepting it joins without a passcode.
 * @returns undefined for a refusal
 * @throws DomainError NOT_FOUND without an open invitation; otherwise as joinLobby
 */
export const answerInvite = async (
  work: Work,
  ref: LobbyRef,
  playerId: string,
  accept: boolean,
): Promise<LobbyChange | undefined> => {
  const joined = accept ? await joinLobby(work, ref, { playerId, isInvited: true }) : undefined;
  const { rows } = await sql`
    update lobby_invites set status = ${accept ? "ACCEPTED" : "DECLINED"}
    where project_id = ${ref.projectId} and lobby_id = ${ref.lobbyId} and player_id = ${playerId}
      and status = 'PENDING' and expires_at > ${work.now.toISOString()}::timestamptz
    returning 1`.execute(work.db);
  if (rows.length === 0) throw notFound("invitation");
  return joined;
};
