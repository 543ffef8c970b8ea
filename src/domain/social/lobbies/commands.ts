import { sql } from "kysely";
import { z } from "zod";
import type { Passwords } from "../../accounts/auth/passwords.ts";
import { conflict, forbidden, notFound } from "../../kernel/errors.ts";
import type { LobbyActor, LobbyChange } from "../../kernel/events/social-views.ts";
import { isId } from "../../kernel/ids.ts";
import type { Read } from "../../kernel/read.ts";
import type { Work } from "../../kernel/work.ts";
import type { PlayerStatus } from "../../players/player.ts";
import { hashPasscode, joinLobby } from "./create.ts";
import {
  actingMember,
  changeLobby,
  changeMember,
  isHost,
  type LobbyEdit,
  notInLobby,
  playerRef,
  requireHost,
  saveIfChanged,
  takeLobby,
} from "./edit.ts";
import { INVITE_MS, INVITES_AT_ONCE, INVITES_OPEN_MAX, PlayerText } from "./fields.ts";
import { endGame, GameEnd, LobbyPatch, MemberPatch, updateLobby, updateMember } from "./game.ts";
import {
  cancelCountdown,
  closeLobby,
  removeMember,
  setAway,
  setHost,
  setPresent,
  setReady,
  startCountdown,
} from "./membership.ts";
import { findMember, type LobbyRef, type LobbyState, memberOf } from "./state.ts";

/** A lobby by its id or code, and who stands before it; null for a console user. */
type Approach = {
  projectId: string;
  playerId: string | null;
  lobbyId: string | undefined;
  code: string | undefined;
};

/** What decides how somebody enters a lobby. */
export type Door = {
  /** Of the player; null for one that does not exist. */
  playerStatus: PlayerStatus | null;
  /** Null for a lobby that does not exist; a code is that of an open lobby. */
  lobbyId: string | null;
  hasPasscode: boolean;
  /** Whether the player has a seat there, or watches. */
  isMember: boolean;
};

const DOOR = `
  select (select status from players where project_id = $1 and id = $2 limit 1) as "playerStatus",
    l.id as "lobbyId", l.passcode_hash is not null as "hasPasscode",
    exists (select from lobby_members m
      where m.project_id = $1 and m.lobby_id = l.id and m.player_id = $2
        and m.status in ('JOINED', 'READY', 'DISCONNECTED') and l.status <> 'CLOSED') as "isMember"
  from (select 1) one left join lateral (
    select id, passcode_hash, status from lobbies where project_id = $1 and id = $3
    union all
    select id, passcode_hash, status from lobbies
    where project_id = $1 and code = $4 and status <> 'CLOSED'
    limit 1) l on true`;

/** Reads with one statement what decides about a join. */
export const readDoor = async (
  read: Read,
  { projectId, playerId, lobbyId, code }: Approach,
): Promise<Door> => {
  const values = [projectId, playerId, lobbyId ?? null, code?.toUpperCase() ?? null];
  const [door] = await read<Door>({ text: DOOR, values });
  return door!;
};

const Kick = z.object({
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
const kickMember = async (
  edit: LobbyEdit,
  actor: LobbyActor,
  { playerId: ref, ban, reason: given }: z.output<typeof Kick>,
): Promise<void> => {
  const { lobby, work } = edit;
  requireHost(lobby, actor);
  const member = findMember(lobby, ref);
  if (!member) throw notInLobby();
  const { playerId } = member;
  const reason = given ?? null;
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

const HandOver = z.object({ playerId: PlayerText });

/** Makes another player the host. @throws DomainError FORBIDDEN NOT_HOST; CONFLICT NOT_IN_LOBBY */
const handOver = (edit: LobbyEdit, actor: LobbyActor, ref: string): void => {
  const { lobby } = edit;
  requireHost(lobby, actor);
  const member = findMember(lobby, ref);
  if (member?.role !== "PLAYER") throw notInLobby();
  if (lobby.hostPlayerId !== member.playerId) setHost(edit, member);
};

const Invitation = z.object({ playerIds: z.array(PlayerText).min(1).max(INVITES_AT_ONCE) });

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
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from lobby_invites
    where project_id = ${projectId} and lobby_id = ${id} and status = 'PENDING'
      and expires_at > ${now.toISOString()}::timestamptz
      and player_id <> all(${`{${invited.join(",")}}`}::uuid[])`.execute(db);
  if (rows[0]!.n + invited.length > INVITES_OPEN_MAX)
    throw conflict("INVITE_LIMIT", `a lobby has at most ${INVITES_OPEN_MAX} open invitations`);
};

/**
 * Invites players, each of whom is notified on their stream; a repeated invitation restarts its full
 * duration.
 * @throws DomainError NOT_FOUND; CONFLICT: LOBBY_NOT_OPEN, NOT_IN_LOBBY, INVITE_LIMIT
 */
const invitePlayers = async (
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

/**
 * Handles a member's first socket: from now on sockets determine the member's presence. Publishes nothing
 * when the member was not away, and does nothing at all for a non-member.
 */
export const connectMember = (
  work: Work,
  ref: LobbyRef,
  playerId: string,
): Promise<LobbyChange | undefined> =>
  changeMember(work, ref, playerId, (edit, member) => setPresent(edit, member, "SOCKET"));

/**
 * As `connectMember`, for somebody whom a room takes for a member; in a lobby that is closed nobody is one.
 * @throws DomainError FORBIDDEN NOT_A_MEMBER
 */
export const enterMember = async (
  work: Work,
  { playerId, ...ref }: LobbyRef & { playerId: string },
): Promise<LobbyChange | undefined> => {
  const edit = await takeLobby(work, ref);
  if (!edit) return undefined;
  const member = memberOf(edit.lobby, playerId);
  if (!member) throw forbidden("NOT_A_MEMBER", "the player is not in the lobby");
  if (edit.lobby.status === "CLOSED") return undefined;
  return saveIfChanged(edit, () => setPresent(edit, member, "SOCKET"));
};

/**
 * Handles the end of a member's last socket without a leave: the grace period begins. Does nothing for a
 * player who has had no socket, or is away already, or is no member.
 */
export const disconnectMember = (
  work: Work,
  ref: LobbyRef,
  playerId: string,
): Promise<LobbyChange | undefined> =>
  changeMember(work, ref, playerId, (edit, member) => {
    if (member.presence === "SOCKET" && member.status !== "DISCONNECTED") setAway(edit, member);
  });

export type { LobbyRef } from "./state.ts";
export { createLobby, NewLobby } from "./create.ts";
export { joinLobby } from "./create.ts";
export { checkPasscode } from "./create.ts";

export { quickplay, Quickplay } from "./create.ts";
export { readLobby, readLobbyVersions } from "./edit.ts";
export { advanceLobby } from "./game.ts";

/** A change of one lobby, the same by REST and by room. Throws DomainError if it is not allowed. */
export type LobbyCommand<B extends z.ZodType = z.ZodType> = {
  body: B;
  /**
   * Runs before the transaction of `run`, which receives its result as the body: hashing. The body was
   * checked for hostile values (`refuseHostile`) and by the schema before.
   */
  prepare?(passwords: Passwords, body: z.output<B>): Promise<z.output<B>>;
  /** The result's `lobby` includes `privateData`: see `lobbyFor` for who may see that. */
  run(work: Work, ref: LobbyRef, actor: LobbyActor, body: z.output<B>): Promise<LobbyChange>;
};

type Act<B extends z.ZodType> = (
  edit: LobbyEdit,
  actor: LobbyActor,
  body: z.output<B>,
) => Promise<void> | void;

const command = <B extends z.ZodType>(body: B, act: Act<B>): LobbyCommand<B> => ({
  body,
  run: (work, ref, actor, given) => changeLobby(work, ref, (edit) => act(edit, actor, given)),
});

const Nothing = z.object({});

const notStarting = ({ status }: LobbyState) => conflict("INVALID_STATE", `the lobby is ${status}`);

const leave = command(
  z.object({ final: z.boolean().default(false) }).meta({ description: "final: no seat is kept in a game" }),
  (edit, actor, { final }) => {
    const member = actingMember(edit.lobby, actor);
    const keepsSeat = edit.lobby.status === "IN_GAME" && member.role === "PLAYER" && !final;
    if (!keepsSeat) return removeMember(edit, member, "LEFT");
    if (member.status !== "DISCONNECTED") setAway(edit, member);
  },
);

const ready = command(z.object({ ready: z.boolean() }), (edit, actor, body) => {
  const { lobby } = edit;
  const member = actingMember(lobby, actor);
  if (lobby.status !== "OPEN" && lobby.status !== "STARTING") throw notStarting(lobby);
  if (member.role === "SPECTATOR") throw conflict("INVALID_STATE", "spectators are never ready");
  setReady(edit, member, body.ready);
});

const start = command(
  z.object({ countdownSeconds: z.int().min(0).max(300).optional() }),
  (edit, actor, { countdownSeconds }) => {
    requireHost(edit.lobby, actor);
    startCountdown(edit, countdownSeconds);
  },
);

const cancelStart = command(Nothing, (edit, actor) => {
  requireHost(edit.lobby, actor);
  if (edit.lobby.status !== "STARTING") throw notStarting(edit.lobby);
  cancelCountdown(edit, "HOST");
});

const close = command(Nothing, (edit, actor) => {
  requireHost(edit.lobby, actor);
  if (edit.lobby.status === "CLOSED") return;
  closeLobby(edit, isHost(edit.lobby, actor) ? "HOST_CLOSED" : "ADMIN");
});

const end = command(GameEnd, async (edit, actor, body) => {
  const { lobby } = edit;
  if (actor.kind === "PLAYER" && lobby.settings.endAuthority === "SERVER")
    throw forbidden("NOT_SERVER", "only the server may end games of this lobby");
  requireHost(lobby, actor);
  await endGame(edit, body);
});

const heartbeat = command(Nothing, (edit, actor) => {
  const member = actingMember(edit.lobby, actor);
  // A connected socket takes precedence.
  if (member.presence === "API" || member.status === "DISCONNECTED") setPresent(edit, member, "API");
});

const update: LobbyCommand<typeof LobbyPatch> = {
  ...command(LobbyPatch, updateLobby),
  prepare: hashPasscode,
};

/** Every command by its message name. */
export const LOBBY_COMMANDS = {
  "lobby.leave": leave,
  "lobby.ready": ready,
  "lobby.start": start,
  "lobby.cancel_start": cancelStart,
  "lobby.update": update,
  "lobby.member": command(MemberPatch, updateMember),
  "lobby.kick": command(Kick, kickMember),
  "lobby.host": command(HandOver, (edit, actor, { playerId }) => handOver(edit, actor, playerId)),
  "lobby.end": end,
  "lobby.close": close,
  "lobby.heartbeat": heartbeat,
  "lobby.invite": command(Invitation, invitePlayers),
} as const satisfies Readonly<Record<string, LobbyCommand>>;

export type LobbyCommandName = keyof typeof LOBBY_COMMANDS;
