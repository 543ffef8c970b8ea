import { z } from "zod";
import type { Passwords } from "../../accounts/auth/passwords.ts";
import { conflict, forbidden } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { closeLobby } from "./close.ts";
import { handOver, HandOver, Kick, kickMember } from "./expel.ts";
import { endGame, GameEnd } from "./game.ts";
import { Invitation, invitePlayers } from "./invites.ts";
import { removeMember, setAway, setPresent, setReady } from "./membership.ts";
import { hashPasscode } from "./passcodes.ts";
import { actingMember, isHost, requireHost } from "./rights.ts";
import type { LobbyRef, LobbyState } from "./state.ts";
import { cancelCountdown, startCountdown } from "./start.ts";
import { changeLobby, type LobbyEdit } from "./edit.ts";
import { LobbyPatch, MemberPatch, updateLobby, updateMember } from "./update.ts";
import type { LobbyActor, LobbyChange } from "../../kernel/events/lobby-views.ts";

export type { LobbyRef } from "./state.ts";
export { createLobby, NewLobby } from "./create.ts";
export { joinLobby } from "./join.ts";
export { checkPasscode } from "./passcodes.ts";
export { type Door, readDoor } from "./door.ts";
export { connectMember, disconnectMember, enterMember } from "./presence.ts";
export { answerInvite } from "./invites.ts";
export { quickplay, Quickplay } from "./quickplay.ts";
export { readLobby, readLobbyVersions } from "./read.ts";
export { advanceLobby } from "./timers.ts";

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
  prepare: (passwords, body) => hashPasscode(passwords, body),
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
