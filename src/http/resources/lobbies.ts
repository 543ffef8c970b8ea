import { z } from "zod";
import { invalid } from "../../domain/kernel/errors.ts";
import { LIMITS } from "../../domain/accounts/rate-limits/limiter.ts";
import { checkPasscode } from "../../domain/social/lobbies/commands.ts";
import {
  createLobby,
  hashPasscode,
  joinLobby,
  Mode,
  NewLobby,
  Quickplay,
  quickplay,
} from "../../domain/social/lobbies/create.ts";
import { Data, MEMBER_DATA_MAX_BYTES, PASSCODE_MAX, PlayerText } from "../../domain/social/lobbies/fields.ts";
import {
  findLobbyId,
  listLobbies,
  LOBBY_SORTS,
  lobbyFor,
  readLobby,
} from "../../domain/social/lobbies/edit.ts";
import { LOBBY_STATUSES, LOBBY_VISIBILITIES } from "../../domain/kernel/events/chat-views.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { refuseHostile } from "../../domain/kernel/hostile-json.ts";
import { Reply } from "../route.ts";
import { Flag, Order, pageReply } from "./list-bodies.ts";
import { Acting, LobbyBody, lobbyActor, lobbyRef, readsLobbies, writesLobbies } from "./lobby-bodies.ts";

const PASSCODES_A_MINUTE = LIMITS.lobbyPasscode.points;
const META_MAX = 10;
const META_KEY = /^meta\.([A-Za-z0-9_-]{1,64})$/;

const ListQuery = z.looseObject({
  ...PageQuery.shape,
  mode: Mode.optional(),
  status: z.enum(LOBBY_STATUSES).default("OPEN"),
  visibility: z.enum(LOBBY_VISIBILITIES).optional(),
  hasSpace: Flag,
  sort: z.enum(LOBBY_SORTS).default("createdAt"),
  order: Order,
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

const list = readsLobbies.get("/lobbies", "listLobbies", {
  summary: "List lobbies",
  description:
    "Without privateData. Servers and the console see all; with `playerId`, what that player sees: public " +
    "ones. `meta.region=eu` finds lobbies whose metadata has region eu; 10 of them at most.",
  query: ListQuery,
  response: pageBody(LobbyBody),
  run: async (work, { caller, projectId, query: { playerId, projectId: _projectId, ...query } }) => {
    const meta = metaOf(query);
    const actor = await lobbyActor(work, { caller, projectId }, playerId);
    const { lobbies, ...total } = await listLobbies(work, projectId, actor, { ...query, meta });
    return pageReply(lobbies, total, query);
  },
});

const create = writesLobbies.post("/lobbies", "createLobby", {
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
  response: LobbyBody,
  prepare: (app, { body }) => hashPasscode(app.passwords, body),
  run: async (work, { projectId, prepared: { hostPlayerId, playerId, ...input } }) => {
    const host = playerId ?? hostPlayerId;
    if (hostPlayerId !== undefined && host !== hostPlayerId)
      throw invalid("hostPlayerId", "a player opens lobbies of their own");
    const via = playerId === undefined ? "API" : "PLAYER";
    const id = host === undefined ? undefined : (await getPlayer(work, projectId, host)).id;
    return (await createLobby(work, projectId, input, { hostPlayerId: id, via })).lobby;
  },
});

const play = writesLobbies.post("/lobbies/quickplay", "quickplayLobby", {
  summary: "Seat a player in the fullest lobby",
  description:
    "Of the public lobbies of the mode that have room, no passcode and the metadata; 201 when there was " +
    "none and one was made.",
  body: Quickplay.extend({ playerId: PlayerText }),
  example: { mode: "duel", playerId: "ext:ada" },
  otherStatus: 201,
  response: z.object({ lobby: LobbyBody, created: z.boolean() }),
  run: async (work, { projectId, body: { playerId, ...wish } }) => {
    const { id } = await getPlayer(work, projectId, playerId);
    const { lobby, created } = await quickplay(work, projectId, id, wish);
    return new Reply(created ? 201 : 200, { lobby, created });
  },
});

const Reading = z.object({ playerId: Acting });

const byCode = readsLobbies.get("/lobbies/by-code/{code}", "getLobbyByCode", {
  summary: "Find a lobby by its code",
  description: "Also a private one. A lobby that is closed has no code any more.",
  params: z.object({ code: z.string().regex(/^[A-Za-z0-9]{1,16}$/, "must be letters and digits") }),
  query: Reading,
  response: LobbyBody,
  run: async (work, { caller, projectId, params: { code }, query: { playerId } }) => {
    const actor = await lobbyActor(work, { caller, projectId }, playerId);
    const lobbyId = await findLobbyId(work, projectId, code);
    return readLobby(work, { projectId, lobbyId }, actor);
  },
});

const get = readsLobbies.get("/lobbies/{lobbyId}", "getLobby", {
  summary: "Get a lobby",
  description: "privateData is for servers, the console, and members.",
  query: Reading,
  response: LobbyBody,
  run: async (work, { caller, projectId, params: { lobbyId }, query: { playerId } }) => {
    const actor = await lobbyActor(work, { caller, projectId }, playerId);
    return readLobby(work, lobbyRef(projectId, lobbyId), actor);
  },
});

const join = writesLobbies.post("/lobbies/{lobbyId}/join", "joinLobby", {
  summary: "Join a lobby",
  description: `A member keeps the existing seat. ${PASSCODES_A_MINUTE} passcodes a minute may be tried.`,
  body: z.object({
    playerId: PlayerText,
    passcode: z.string().max(PASSCODE_MAX).optional(),
    asSpectator: z.boolean().optional(),
    data: Data(MEMBER_DATA_MAX_BYTES).optional(),
  }),
  example: { playerId: "ext:ada", passcode: "sesame" },
  response: LobbyBody,
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
});

export const lobbyRoutes = [list, create, play, byCode, get, join];
