import { z } from "zod";
import { ADMINS, type Caller, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { invalid, notFound } from "../../domain/kernel/errors.ts";
import { isId } from "../../domain/kernel/ids.ts";
import {
  answerInvite,
  checkPasscode,
  LOBBY_COMMANDS,
  type LobbyCommand,
  type LobbyCommandName,
} from "../../domain/social/lobbies/commands.ts";
import { Data, MEMBER_DATA_MAX_BYTES, PASSCODE_MAX, PlayerText } from "../../domain/social/lobbies/fields.ts";
import {
  findLobbyId,
  listLobbies,
  LOBBY_ORDERS,
  lobbyFor,
  readLobby,
} from "../../domain/social/lobbies/edit.ts";
import type { LobbyRef } from "../../domain/social/lobbies/state.ts";
import {
  LOBBY_STATUSES,
  LOBBY_VISIBILITIES,
  type LobbyActor,
  LobbyView,
} from "../../domain/kernel/events/social-views.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { type AnyRoute, group, Reply } from "../route.ts";
import { LIMITS } from "../../domain/accounts/rate-limits/limiter.ts";
import {
  createLobby,
  hashPasscode,
  joinLobby,
  Mode,
  NewLobby,
  Quickplay,
  quickplay,
} from "../../domain/social/lobbies/create.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { refuseHostile } from "../../domain/kernel/hostile-json.ts";
import { Flag, pageReply, sortedBy } from "./bodies.ts";

const ACTING = "Acts with the rights of this player; without it, of the server";
export const Acting = PlayerText.optional().meta({ description: ACTING });

const common = group({ tag: "Lobbies", project: "caller" });
const readsLobbies = common.with({ access: { scope: "lobbies:read", roles: EVERY_ROLE } });
const writesLobbies = common.with({
  access: { scope: "lobbies:write", roles: ADMINS },
  response: LobbyView,
});

/** Parses the reference to a lobby; an invalid id is treated as unknown. @throws DomainError NOT_FOUND */
const lobbyRef = (projectId: string, lobbyId: string): LobbyRef => {
  if (!isId(lobbyId)) throw notFound("lobby");
  return { projectId, lobbyId };
};

/** Returns the actor: the named player, otherwise the server or the console. @throws DomainError NOT_FOUND */
const lobbyActor = async (
  work: Work,
  { caller, projectId }: { caller: Caller; projectId: string },
  playerId: string | undefined,
): Promise<LobbyActor> => {
  if (playerId !== undefined) {
    const { id } = await getPlayer(work, projectId, playerId);
    return { kind: "PLAYER", playerId: id };
  }
  return caller.kind === "user" ? { kind: "ADMIN", userId: caller.userId } : { kind: "SERVER" };
};

type Commanding = {
  caller: Caller;
  projectId: string;
  params: { lobbyId: string };
  /** The acting player's id. */
  acting: string | undefined;
};

/** Executes a command that REST and rooms share. */
export const runCommand = async <B extends z.ZodType>(
  work: Work,
  command: LobbyCommand<B>,
  { caller, projectId, params, acting }: Commanding,
  body: z.output<B>,
): Promise<LobbyView> => {
  const ref = lobbyRef(projectId, params.lobbyId);
  const actor = await lobbyActor(work, { caller, projectId }, acting);
  return lobbyFor((await command.run(work, ref, actor, body)).lobby, actor);
};

const PASSCODES_A_MINUTE = LIMITS.lobbyPasscode.points;
const META_MAX = 10;
const META_KEY = /^meta\.([A-Za-z0-9_-]{1,64})$/;

const ListQuery = z.looseObject({
  ...PageQuery.shape,
  mode: Mode.optional(),
  status: z.enum(LOBBY_STATUSES).default("OPEN"),
  visibility: z.enum(LOBBY_VISIBILITIES).optional(),
  hasSpace: Flag,
  ...sortedBy(LOBBY_ORDERS),
  playerId: Acting,
  projectId: z.uuid().optional(),
});

/** Returns the `meta.…` parameters of a query by key; other unknown parameters are refused. */
const metaOf = (query: Record<string, unknown>): Record<string, string> => {
  const rest = Object.entries(query).filter(([name]) => !(name in ListQuery.shape));
  if (rest.length > META_MAX) throw invalid("meta", `at most ${META_MAX} may be asked for`);
  return Object.fromEntries(
    rest.map(([name, value]) => {
      const key = META_KEY.exec(name)?.[1];
      if (key === undefined) throw invalid(name, "is not a parameter of this operation");
      if (typeof value !== "string" || value.length > 255)
        throw invalid(name, "must be a single text of at most 255 characters");
      refuseHostile(name, value);
      return [key, value];
    }),
  );
};

const Reading = z.object({ playerId: Acting });

export const lobbyRoutes = [
  readsLobbies.get("/lobbies", "listLobbies", {
    summary: "List lobbies",
    description:
      "Without privateData. Servers and the console see all; with `playerId`, what that player sees: public " +
      "ones. `meta.region=eu` finds lobbies whose metadata has region eu; 10 of them at most.",
    query: ListQuery,
    response: pageBody(LobbyView),
    run: async (work, { caller, projectId, query: { playerId, projectId: _projectId, ...query } }) => {
      const meta = metaOf(query);
      const actor = await lobbyActor(work, { caller, projectId }, playerId);
      return pageReply(await listLobbies(work, projectId, actor, { ...query, meta }), "lobbies", query);
    },
  }),
  writesLobbies.post("/lobbies", "createLobby", {
    summary: "Open a lobby",
    description:
      "Its host takes the first seat. A lobby without a host is the server's: nobody else starts it, " +
      "unless it starts by itself or the server names a host.",
    body: NewLobby.extend({
      hostPlayerId: PlayerText.optional(),
      playerId: PlayerText.optional().meta({ description: "As hostPlayerId: the player opens it" }),
    }),
    example: { mode: "duel", hostPlayerId: "ext:ada", maxPlayers: 4, visibility: "PUBLIC" },
    status: 201,
    prepare: (app, { body }) => hashPasscode(app.passwords, body),
    run: async (work, { projectId, prepared: { hostPlayerId, playerId, ...input } }) => {
      const host = playerId ?? hostPlayerId;
      if (hostPlayerId !== undefined && host !== hostPlayerId)
        throw invalid("hostPlayerId", "a player opens lobbies of their own");
      const via = playerId === undefined ? "API" : "PLAYER";
      const id = host === undefined ? undefined : (await getPlayer(work, projectId, host)).id;
      return (await createLobby(work, projectId, input, { hostPlayerId: id, via })).lobby;
    },
  }),
  writesLobbies.post("/lobbies/quickplay", "quickplayLobby", {
    summary: "Seat a player in the fullest lobby",
    description:
      "Of the public lobbies of the mode that have room, no passcode and the metadata; 201 when there was " +
      "none and one was made.",
    body: Quickplay.extend({ playerId: PlayerText }),
    example: { mode: "duel", playerId: "ext:ada" },
    otherStatus: 201,
    response: z.object({ lobby: LobbyView, created: z.boolean() }),
    run: async (work, { projectId, body: { playerId, ...wish } }) => {
      const { id } = await getPlayer(work, projectId, playerId);
      const { lobby, created } = await quickplay(work, projectId, id, wish);
      return new Reply(created ? 201 : 200, { lobby, created });
    },
  }),
  readsLobbies.get("/lobbies/by-code/{code}", "getLobbyByCode", {
    summary: "Find a lobby by its code",
    description: "Also a private one. A lobby that is closed has no code any more.",
    params: z.object({ code: z.string().regex(/^[A-Za-z0-9]{1,16}$/, "must be letters and digits") }),
    query: Reading,
    response: LobbyView,
    run: async (work, { caller, projectId, params: { code }, query: { playerId } }) => {
      const actor = await lobbyActor(work, { caller, projectId }, playerId);
      const lobbyId = await findLobbyId(work, projectId, code);
      return readLobby(work, { projectId, lobbyId }, actor);
    },
  }),
  readsLobbies.get("/lobbies/{lobbyId}", "getLobby", {
    summary: "Get a lobby",
    description: "privateData is for servers, the console, and members.",
    query: Reading,
    response: LobbyView,
    run: async (work, { caller, projectId, params: { lobbyId }, query: { playerId } }) => {
      const actor = await lobbyActor(work, { caller, projectId }, playerId);
      return readLobby(work, lobbyRef(projectId, lobbyId), actor);
    },
  }),
  writesLobbies.post("/lobbies/{lobbyId}/join", "joinLobby", {
    summary: "Join a lobby",
    description: `A member keeps the existing seat. ${PASSCODES_A_MINUTE} passcodes a minute may be tried.`,
    body: z.object({
      playerId: PlayerText,
      passcode: z.string().max(PASSCODE_MAX).optional(),
      asSpectator: z.boolean().optional(),
      data: Data(MEMBER_DATA_MAX_BYTES).optional(),
    }),
    example: { playerId: "ext:ada", passcode: "sesame" },
    prepare: async (app, { projectId, params: { lobbyId }, body: { playerId, passcode } }) => {
      const ref = lobbyRef(projectId, lobbyId);
      const { id } = await app.transact((work) => getPlayer(work, projectId, playerId));
      const verifiedHash = await checkPasscode(app, ref, { playerId: id, passcode });
      return { ref, playerId: id, verifiedHash };
    },
    run: async (work, { body: { asSpectator, data }, prepared: { ref, playerId, verifiedHash } }) => {
      const { lobby } = await joinLobby(work, ref, { playerId, asSpectator, data, verifiedHash });
      return lobbyFor(lobby, { kind: "PLAYER", playerId });
    },
  }),
];

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
