import { z } from "zod";
import {
  answerInvite,
  LOBBY_COMMANDS,
  type LobbyCommand,
  type LobbyCommandName,
} from "../../domain/social/lobbies/commands.ts";
import { PlayerText } from "../../domain/social/lobbies/fields.ts";
import { readLobby } from "../../domain/social/lobbies/edit.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import type { AnyRoute } from "../route.ts";
import { Acting, lobbyRef, runCommand, writesLobbies } from "./lobbies.ts";

/** `acting`: what names the acting player; by default it is optional. */
type Described = Pick<AnyRoute, "path" | "id" | "summary" | "description" | "example"> & {
  acting?: z.ZodType<string | undefined, string | undefined>;
};

/** A command, whose body names the acting player too: as `playerId`, unless that is the affected player. */
const commandRoute = (name: LobbyCommandName, { path, acting: schema = Acting, ...described }: Described) => {
  const command = LOBBY_COMMANDS[name] as unknown as LobbyCommand<z.ZodObject>;
  const field = "playerId" in command.body.shape ? "actingPlayerId" : "playerId";
  return writesLobbies.post(`/lobbies/{lobbyId}/${path}`, described.id, {
    ...described,
    body: command.body.extend({ [field]: schema }),
    run: (work, { caller, projectId, params, body }) => {
      const { [field]: acting, ...rest } = body as Record<typeof field, string | undefined>;
      return runCommand(work, command, { caller, projectId, params, acting }, rest as never);
    },
  });
};

export const lobbyCommandRoutes = [
  writesLobbies.patch("/lobbies/{lobbyId}", "updateLobby", {
    summary: "Change a lobby",
    description:
      "By the host or a server. settings and maxPlayers change while it is OPEN. passcode null takes it away.",
    body: LOBBY_COMMANDS["lobby.update"].body.extend({ playerId: Acting }),
    example: { version: 1, name: "Ada's table", metadata: { region: "eu" } },
    prepare: (app, { body }) => LOBBY_COMMANDS["lobby.update"].prepare!(app.passwords, body),
    run: (work, { caller, projectId, params, body: { playerId: acting }, prepared }) =>
      runCommand(work, LOBBY_COMMANDS["lobby.update"], { caller, projectId, params, acting }, prepared),
  }),
  writesLobbies.patch("/lobbies/{lobbyId}/members/{playerId}", "updateLobbyMember", {
    summary: "Change a member's team, slot or data",
    description: "By the member, the host or a server. Teams are chosen where assignment is MANUAL.",
    params: z.object({ lobbyId: z.string().max(64), playerId: PlayerText }),
    body: LOBBY_COMMANDS["lobby.member"].body.omit({ playerId: true }).extend({ actingPlayerId: Acting }),
    example: { team: 1, data: { colour: "red" } },
    run: (work, { caller, projectId, params, body: { actingPlayerId: acting, ...body } }) => {
      const { playerId } = params;
      const commanding = { caller, projectId, params, acting };
      return runCommand(work, LOBBY_COMMANDS["lobby.member"], commanding, { ...body, playerId });
    },
  }),
  commandRoute("lobby.leave", {
    acting: PlayerText,
    path: "leave",
    id: "leaveLobby",
    example: { playerId: "ext:ada" },
    summary: "Leave a lobby",
    description: "In a game the seat is kept for inGameGraceSeconds, unless `final`.",
  }),
  commandRoute("lobby.ready", {
    acting: PlayerText,
    path: "ready",
    id: "readyLobby",
    example: { playerId: "ext:ada", ready: true },
    summary: "Be ready, or no longer",
  }),
  commandRoute("lobby.heartbeat", {
    acting: PlayerText,
    path: "heartbeat",
    id: "beatLobby",
    example: { playerId: "ext:ada" },
    summary: "Say that a member is there",
    description:
      "For members without a socket, every 30 s: one who has sent a heartbeat counts as away 60 s after " +
      "the last. Nothing is expected of members who have never sent one.",
  }),
  commandRoute("lobby.start", {
    path: "start",
    id: "startLobby",
    example: { playerId: "ext:ada", countdownSeconds: 5 },
    summary: "Start the countdown",
    description: "By the host or a server. 409 LOBBY_NOT_READY explains what is missing.",
  }),
  commandRoute("lobby.cancel_start", {
    path: "cancel-start",
    id: "cancelLobbyStart",
    example: { playerId: "ext:ada" },
    summary: "Stop the countdown",
  }),
  commandRoute("lobby.close", {
    path: "close",
    id: "closeLobby",
    example: { playerId: "ext:ada" },
    summary: "Close a lobby",
  }),
  commandRoute("lobby.end", {
    path: "end",
    id: "endLobbyGame",
    example: {
      matchId: "0197c2a0-0000-7000-8000-000000000001",
      results: [{ playerId: "ext:ada", outcome: "WIN", score: 11 }],
    },
    summary: "End a game with its results",
    description:
      "One result for each player of the match. Each becomes an event `lobby.result` of that player, " +
      "which can trigger rules. The results of a match are taken once; a second end " +
      "answers the lobby as it is.",
  }),
  commandRoute("lobby.kick", {
    path: "kick",
    id: "kickFromLobby",
    example: { playerId: "ext:ada", reason: "Rude" },
    summary: "Put a member out",
    description: "The host may, until the game begins; servers always.",
  }),
  commandRoute("lobby.host", {
    path: "host",
    id: "setLobbyHost",
    example: { playerId: "ext:ada" },
    summary: "Make another player the host",
  }),
  commandRoute("lobby.invite", {
    path: "invites",
    id: "inviteToLobby",
    example: { playerIds: ["ext:ada"] },
    summary: "Invite players",
    description: "By a member or a server. Each gets `lobby.invited` and has 10 minutes to answer.",
  }),
  writesLobbies.post("/lobbies/{lobbyId}/invites/respond", "answerLobbyInvite", {
    summary: "Accept or decline an invitation",
    description:
      "Whoever accepts joins without a passcode. 404 without an invitation of the last 10 minutes.",
    body: z.object({ playerId: PlayerText, accept: z.boolean() }),
    example: { playerId: "ext:ada", accept: true },
    run: async (work, { projectId, params, body: { playerId, accept } }) => {
      const ref = lobbyRef(projectId, params.lobbyId);
      const { id } = await getPlayer(work, projectId, playerId);
      const joined = await answerInvite(work, ref, id, accept);
      return joined?.lobby ?? readLobby(work, ref, { kind: "PLAYER", playerId: id });
    },
  }),
];
