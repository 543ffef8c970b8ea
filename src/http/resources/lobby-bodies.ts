import { z } from "zod";
import type { App } from "../../app.ts";
import { ADMINS, type Caller, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { notFound } from "../../domain/kernel/errors.ts";
import { isId } from "../../domain/kernel/ids.ts";
import type { LobbyCommand } from "../../domain/social/lobbies/commands.ts";
import { PlayerText } from "../../domain/social/lobbies/fields.ts";
import { lobbyFor } from "../../domain/social/lobbies/edit.ts";
import type { LobbyRef } from "../../domain/social/lobbies/state.ts";
import {
  LOBBY_STATUSES,
  LOBBY_VISIBILITIES,
  type LobbyActor,
  type LobbyView,
  MEMBER_STATUSES,
  OUTCOMES,
} from "../../domain/kernel/events/chat-views.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { group } from "../route.ts";

const Data = z.record(z.string(), z.unknown());
const Team = z.int().nullable().meta({ description: "From 1" });

const Settings = z.object({
  countdownSeconds: z.int(),
  readyPolicy: z.enum(["ALL", "MAJORITY", "HOST"]),
  autoStart: z.boolean(),
  allowLateJoin: z.boolean(),
  allowSpectators: z.boolean(),
  allowRematch: z.boolean(),
  hostMigration: z.enum(["OLDEST", "RANDOM", "CLOSE"]),
  graceSeconds: z.int(),
  inGameGraceSeconds: z.int(),
  maxGameSeconds: z.int(),
  idleSeconds: z.int(),
  endAuthority: z.enum(["SERVER", "HOST"]),
  teams: z
    .object({
      count: z.int(),
      size: z.int(),
      assignment: z.enum(["MANUAL", "BALANCED", "RANDOM"]),
      balanceBy: z.string().optional(),
    })
    .optional(),
});

const MemberBody = z
  .object({
    playerId: z.uuid(),
    externalUserId: z.string(),
    displayName: z.string().nullable(),
    status: z.enum(MEMBER_STATUSES),
    isHost: z.boolean(),
    role: z.enum(["PLAYER", "SPECTATOR"]),
    team: Team,
    slot: z.int().nullable().meta({ description: "From 1, in the team if there are teams" }),
    data: Data,
    joinedAt: z.iso.datetime(),
  })
  .meta({ id: "LobbyMember" });

const ResultBody = z
  .object({
    playerId: z.uuid(),
    externalUserId: z.string(),
    team: Team,
    rank: z.int().nullable(),
    outcome: z.enum(OUTCOMES),
    score: z.number().nullable(),
    stats: Data.optional(),
  })
  .meta({ id: "LobbyResult" });

const REASONS = ["COMPLETED", "HOST_CLOSED", "HOST_LEFT", "EMPTY", "EXPIRED", "ABORTED", "ADMIN"] as const;

export const LobbyBody = z
  .object({
    id: z.uuid(),
    code: z.string().meta({ example: "K7QXM2" }),
    name: z.string(),
    mode: z.string(),
    visibility: z.enum(LOBBY_VISIBILITIES),
    hasPasscode: z.boolean(),
    status: z.enum(LOBBY_STATUSES),
    hostPlayerId: z.uuid().nullable(),
    minPlayers: z.int(),
    maxPlayers: z.int(),
    memberCount: z.int().meta({ description: "Members with a seat; spectators have none" }),
    settings: Settings,
    metadata: Data,
    privateData: Data.optional().meta({ description: "For members and servers; never in lists" }),
    version: z.int(),
    channelId: z.uuid().nullable(),
    matchId: z.uuid().nullable(),
    startsAt: z.iso.datetime().nullable(),
    startedAt: z.iso.datetime().nullable(),
    endedAt: z.iso.datetime().nullable(),
    closeReason: z.enum(REASONS).nullable(),
    results: z.array(ResultBody).nullable().meta({ description: "Of the last game" }),
    members: z.array(MemberBody).meta({ description: "Members of the lobby, by joinedAt" }),
    expiresAt: z.iso.datetime(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Lobby" });

const ACTING = "Acts with the rights of this player; without it, of the server";
export const Acting = PlayerText.optional().meta({ description: ACTING });

const common = group({ tag: "Lobbies", project: "caller" });
export const readsLobbies = common.with({ access: { scope: "lobbies:read", roles: EVERY_ROLE } });
export const writesLobbies = common.with({ access: { scope: "lobbies:write", roles: ADMINS } });

/** Parses the reference to a lobby; an invalid id is treated as unknown. @throws DomainError NOT_FOUND */
export const lobbyRef = (projectId: string, lobbyId: string): LobbyRef => {
  if (!isId(lobbyId)) throw notFound("lobby");
  return { projectId, lobbyId };
};

/** Returns the actor: the named player, otherwise the server or the console. @throws DomainError NOT_FOUND */
export const lobbyActor = async (
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

export type Commanding = {
  caller: Caller;
  projectId: string;
  params: { lobbyId: string };
  /** The acting player's id. */
  acting: string | undefined;
};

/** Executes a command that REST and rooms share. */
export const runCommand = <B extends z.ZodType>(
  app: App,
  command: LobbyCommand<B>,
  { caller, projectId, params, acting }: Commanding,
  body: z.output<B>,
): Promise<LobbyView> =>
  app.transact(async (work) => {
    const ref = lobbyRef(projectId, params.lobbyId);
    const actor = await lobbyActor(work, { caller, projectId }, acting);
    return lobbyFor((await command.run(work, ref, actor, body)).lobby, actor);
  });
