import { z } from "zod";
import type { App } from "../app.ts";
import { forbidden } from "../domain/kernel/errors.ts";
import {
  checkPasscode,
  createLobby,
  findLobbyId,
  joinLobby,
  NewLobby,
  Quickplay,
  quickplay,
  readLobby,
} from "../domain/social/lobbies/commands.ts";
import { Data } from "../domain/social/lobbies/fields.ts";
import { MEMBER_DATA_MAX_BYTES, PASSCODE_MAX } from "../domain/social/lobbies/limits.ts";
import { hashPasscode } from "../domain/social/lobbies/passcodes.ts";
import type { LobbyActor, LobbyView } from "../domain/kernel/events/lobby-views.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import type { Principal } from "./authenticate.ts";
import { parse } from "./errors.ts";
import { transactIn } from "./project-transact.ts";

/** Selects the lobby: exactly one of `lobbyId`, `code`, `create` and `quickplay`. */
const Entry = z
  .object({
    lobbyId: z.uuid().optional(),
    code: z.string().min(1).max(16).optional(),
    passcode: z.string().max(PASSCODE_MAX).optional(),
    asSpectator: z.boolean().optional(),
    data: Data(MEMBER_DATA_MAX_BYTES).optional(),
    create: NewLobby.optional(),
    quickplay: Quickplay.optional(),
  })
  .refine(
    ({ lobbyId, code, create, quickplay: wish }) =>
      [lobbyId, code, create, wish].filter((given) => given !== undefined).length === 1,
    { path: ["lobbyId"], error: "give one of lobbyId, code, create and quickplay" },
  );
export type Entry = z.output<typeof Entry>;

type Entering = { app: App; projectId: string; playerId: string };

/** Reads the requested entry from a client's join options. @throws DomainError VALIDATION_ERROR */
export const readEntry = (options: object): Entry => {
  refuseHostile("", options);
  return parse(Entry, options);
};

/**
 * Executes a join's request unless that has been done: creates a lobby, finds one, or makes the player a
 * member.
 * @returns the lobby's id
 * @throws DomainError as the same operation of the API does; FORBIDDEN PLAYER_TOKEN_REQUIRED for a console
 * user who wants more than to watch
 */
export const enterLobby = async (app: App, principal: Principal, entry: Entry): Promise<string> => {
  const { projectId, playerId, userId } = principal;
  if (playerId === null) return (await find(app, projectId, { kind: "ADMIN", userId }, entry)).id;
  const entering = { app, projectId, playerId };
  if (entry.create) return create(entering, entry.create);
  if (!entry.quickplay) return joinOne(entering, entry);
  const wish = entry.quickplay;
  const { lobby } = await transactIn(app, projectId)((work) => quickplay(work, projectId, playerId, wish));
  return lobby.id;
};

const create = async ({ app, projectId, playerId }: Entering, body: NewLobby): Promise<string> => {
  const input = await hashPasscode(app.passwords, body);
  const creation = { hostPlayerId: playerId, via: "PLAYER" } as const;
  const { lobby } = await transactIn(app, projectId)((work) => createLobby(work, projectId, input, creation));
  return lobby.id;
};

/** Makes the player a member; for a player who is one already, the join only adds a socket. */
const joinOne = async ({ app, projectId, playerId }: Entering, entry: Entry): Promise<string> => {
  const { id: lobbyId, members, hasPasscode } = await find(app, projectId, { kind: "SERVER" }, entry);
  if (members.some((member) => member.playerId === playerId)) return lobbyId;
  const { passcode, asSpectator, data } = entry;
  const ref = { projectId, lobbyId };
  const transact = transactIn(app, projectId);
  const { passwords, limiter, clock } = app;
  // Outside the joining transaction, because hashing is slow.
  const verifiedHash = hasPasscode
    ? await checkPasscode({ transact, passwords, limiter, clock }, ref, { playerId, passcode })
    : null;
  await transact((work) => joinLobby(work, ref, { playerId, asSpectator, data, verifiedHash }));
  return lobbyId;
};

const find = (app: App, projectId: string, actor: LobbyActor, entry: Entry): Promise<LobbyView> =>
  transactIn(
    app,
    projectId,
  )(async (work) => {
    const { lobbyId, code } = entry;
    if (lobbyId === undefined && code === undefined)
      throw forbidden(
        "PLAYER_TOKEN_REQUIRED",
        "only players can create or search lobbies: use a player's token",
      );
    const id = lobbyId ?? (await findLobbyId(work, projectId, code!));
    return readLobby(work, { projectId, lobbyId: id }, actor);
  });
