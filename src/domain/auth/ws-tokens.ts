import type { Caller } from "../caller.ts";
import { forbidden, invalid, notFound } from "../errors.ts";
import type { Player } from "../players/player.ts";
import { findPlayer, identifyPlayer } from "../players/players.ts";
import { findKnownProject, resolveProject, tenantOf } from "../projects/resolve.ts";
import type { Transact, Work } from "../work.ts";
import type { SignedToken, Tokens } from "./tokens.ts";

export type WsTokenRequest = {
  /** A player's UUID or `ext:` and the integrator's id. */
  playerId?: string | undefined;
  externalUserId?: string | undefined;
  projectId?: string | undefined;
};

export type WsToken = SignedToken & { playerId?: string };

type WsTokenParts = { transact: Transact; tokens: Tokens };

/**
 * A token for the rooms: an API key asks for one of its players, a console user for a project. An unknown
 * externalUserId makes the player where the project creates players by itself.
 *
 * @throws NOT_FOUND, FORBIDDEN PLAYER_BANNED, PROJECT_MISMATCH, VALIDATION_ERROR
 */
export const issueWsToken = async (
  { transact, tokens }: WsTokenParts,
  caller: Caller,
  request: WsTokenRequest,
): Promise<WsToken> => {
  const { projectId } = await resolveProject(transact, caller, request.projectId);
  if (caller.kind === "user") {
    if (request.playerId !== undefined || request.externalUserId !== undefined) {
      const field = request.playerId === undefined ? "externalUserId" : "playerId";
      throw invalid(field, "only an API key may ask for a player's token; a console token is for a project");
    }
    return tokens.signWs({ sub: caller.userId, pid: projectId, tid: caller.tenantId, kind: "console" });
  }
  const project = await findKnownProject(transact, projectId);
  if (!project) throw notFound("Project");
  const mayCreate = project.settings.autoCreatePlayers;
  const player = await transact((work) => requestedPlayer(work, { ...request, projectId, mayCreate }));
  if (player.status === "BANNED") throw forbidden("PLAYER_BANNED", "The player is banned");
  const signed = await tokens.signWs({
    sub: player.id,
    pid: projectId,
    tid: tenantOf(caller),
    kind: "player",
    externalUserId: player.externalUserId,
  });
  return { ...signed, playerId: player.id };
};

const requestedPlayer = async (
  work: Work,
  request: WsTokenRequest & { projectId: string; mayCreate: boolean },
): Promise<Player> => {
  const { projectId, playerId, externalUserId } = request;
  if ((playerId === undefined) === (externalUserId === undefined)) {
    throw invalid("playerId", "give playerId or externalUserId, one of the two");
  }
  const player = await findPlayer(work, projectId, playerId ?? `ext:${externalUserId}`);
  // A merged player's token would show nobody; an erased one is gone.
  if (player?.status === "MERGED" || player?.status === "ERASED") throw notFound("Player");
  if (player) return player;
  if (externalUserId === undefined || !request.mayCreate) throw notFound("Player");
  return (await identifyPlayer(work, projectId, { externalUserId })).player;
};
