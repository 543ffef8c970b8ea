import { z } from "zod";
import type { App } from "../app.ts";
import { forbidden, notFound } from "../domain/kernel/errors.ts";
import {
  checkPasscode,
  createLobby,
  type Door,
  joinLobby,
  NewLobby,
  Quickplay,
  quickplay,
  readDoor,
} from "../domain/social/lobbies/commands.ts";
import { Data } from "../domain/social/lobbies/fields.ts";
import { MEMBER_DATA_MAX_BYTES, PASSCODE_MAX } from "../domain/social/lobbies/limits.ts";
import { hashPasscode } from "../domain/social/lobbies/passcodes.ts";
import type { LobbyChange } from "../domain/kernel/events/lobby-views.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { type Principal, refusalOf } from "./authenticate.ts";
import { parse } from "./errors.ts";
import type { LobbiesHere } from "./lobbies-here.ts";
import { readIn, transactIn } from "./project-transact.ts";

/** Selects the lobby: exactly one of `lobbyId`, `code`, `create` and `quickplay`. */
const Entry = z
  .object({
    lobbyId: z.uuid().toLowerCase().optional(),
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

type Entering = { app: App; here: LobbiesHere; projectId: string; playerId: string };

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
export const enterLobby = async (
  app: App,
  principal: Principal,
  { entry, here }: { entry: Entry; here: LobbiesHere },
): Promise<string> => {
  const { projectId, playerId } = principal;
  if (playerId === null) return (await find(app, principal, entry)).lobbyId;
  const entering = { app, here, projectId, playerId };
  if (entry.create) return create(entering, entry.create);
  if (!entry.quickplay) return joinOne(entering, principal, entry);
  const wish = entry.quickplay;
  const change = await transactIn(app, projectId)((work) => quickplay(work, projectId, playerId, wish));
  return shown(entering, change);
};

const shown = ({ here, projectId }: Entering, change: LobbyChange): string => {
  const { id: lobbyId } = change.lobby;
  here.show({ projectId, lobbyId }, change);
  return lobbyId;
};

const create = async ({ app, projectId, playerId }: Entering, body: NewLobby): Promise<string> => {
  const input = await hashPasscode(app.passwords, body);
  const creation = { hostPlayerId: playerId, via: "PLAYER" } as const;
  const { lobby } = await transactIn(app, projectId)((work) => createLobby(work, projectId, input, creation));
  return lobby.id;
};

/** Makes the player a member; for a player who is one already, the join only adds a socket. */
const joinOne = async (entering: Entering, principal: Principal, entry: Entry): Promise<string> => {
  const { app, here, projectId, playerId } = entering;
  const named = entry.lobbyId?.toLowerCase();
  if (named !== undefined && here.hasMember({ projectId, lobbyId: named }, playerId)) return named;
  const { lobbyId, isMember, hasPasscode } = await find(app, principal, entry);
  if (isMember) return lobbyId;
  const { passcode, asSpectator, data } = entry;
  const ref = { projectId, lobbyId };
  const transact = transactIn(app, projectId);
  const { passwords, limiter, clock } = app;
  // Outside the joining transaction, because hashing is slow.
  const verifiedHash = hasPasscode
    ? await checkPasscode({ transact, passwords, limiter, clock }, ref, { playerId, passcode })
    : null;
  const joining = { playerId, asSpectator, data, verifiedHash };
  return shown(entering, await transact((work) => joinLobby(work, ref, joining)));
};

/** Finds the lobby, and who the player is to it, by one statement. */
const find = async (
  app: App,
  { projectId, playerId }: Principal,
  { lobbyId, code }: Entry,
): Promise<Door & { lobbyId: string }> => {
  if (lobbyId === undefined && code === undefined)
    throw forbidden(
      "PLAYER_TOKEN_REQUIRED",
      "only players can create or search lobbies: use a player's token",
    );
  const door = await readDoor(readIn(app, projectId), { projectId, playerId, lobbyId, code });
  const refused = playerId === null ? undefined : refusalOf(door.playerStatus ?? undefined);
  if (refused) throw refused;
  if (door.lobbyId === null) throw notFound("lobby");
  return { ...door, lobbyId: door.lobbyId };
};
