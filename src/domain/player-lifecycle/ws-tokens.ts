import { type Caller, tenantOf } from "../kernel/caller.ts";
import { forbidden, invalid, notFound, unauthorized } from "../kernel/errors.ts";
import type { Player } from "../players/player.ts";
import { readChanged } from "../progression/players/show.ts";
import { findPlayer, identifyPlayer } from "../progression/players/players.ts";
import { findKnownProject, resolveProject } from "../accounts/projects/project.ts";
import { type CountingParts, countUse, LIMITS } from "../accounts/rate-limits/limiter.ts";
import type { Transact, Work } from "../kernel/work.ts";
import type { SignedToken, Tokens } from "../accounts/auth/tokens.ts";
import { User } from "../accounts/auth/user.ts";

export type WsTokenRequest = {
  /** A player's UUID or `ext:` and the integrator's id. */
  playerId?: string | undefined;
  externalUserId?: string | undefined;
  projectId?: string | undefined;
};

export type WsToken = SignedToken & { playerId?: string };

type WsTokenParts = CountingParts & { transact: Transact; tokens: Tokens };

/**
 * Issues a token for the rooms: an API key requests it for one of its players, a console user for a project.
 * An unknown externalUserId creates the player where the project creates players automatically.
 * @throws NOT_FOUND, FORBIDDEN PLAYER_BANNED, PROJECT_MISMATCH, VALIDATION_ERROR; RateLimited USER_RATE past
 * 60 a minute for one player or console user
 */
export const issueWsToken = async (
  parts: WsTokenParts,
  caller: Caller,
  request: WsTokenRequest,
): Promise<WsToken> => {
  const { transact, tokens } = parts;
  const { projectId } = await resolveProject(transact, caller, request.projectId);
  if (caller.kind === "user") {
    if (request.playerId !== undefined || request.externalUserId !== undefined) {
      const field = request.playerId === undefined ? "externalUserId" : "playerId";
      throw invalid(field, "only an API key may ask for a player's token; a console token is for a project");
    }
    await countToken(parts, projectId, caller.userId);
    return tokens.signWs({ sub: caller.userId, pid: projectId, tid: caller.tenantId, kind: "console" });
  }
  const project = await findKnownProject(transact, projectId);
  if (!project) throw notFound("Project");
  const mayCreate = project.settings.autoCreatePlayers;
  const player = await transact((work) => requestedPlayer(work, { ...request, projectId, mayCreate }));
  if (player.status === "BANNED") throw forbidden("PLAYER_BANNED", "The player is banned");
  await countToken(parts, projectId, player.id);
  const signed = await tokens.signWs({
    sub: player.id,
    pid: projectId,
    tid: tenantOf(caller),
    kind: "player",
    externalUserId: player.externalUserId,
  });
  return { ...signed, playerId: player.id };
};

const countToken = (parts: WsTokenParts, projectId: string, id: string): Promise<void> => {
  const message = "Too many tokens for one player; a token is good for 15 minutes";
  return countUse(parts, { bucket: LIMITS.wsToken, key: `${projectId}:${id}` }, "USER_RATE", message);
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
  // A merged player's token would show nothing; an erased one no longer exists.
  if (player?.status === "MERGED" || player?.status === "ERASED") throw notFound("Player");
  if (player) return player;
  if (externalUserId === undefined || !request.mayCreate) throw notFound("Player");
  return readChanged(work, (await identifyPlayer(work, projectId, { externalUserId })).player);
};

/** Returns those of some users who are members still. */
export const readActiveMembers = async (
  transact: Transact,
  userIds: readonly string[],
): Promise<Set<string>> => {
  const users = await transact(({ em }) =>
    em.find(User, { id: { $in: [...userIds] }, status: "ACTIVE", disabledAt: null }, { fields: ["id"] }),
  );
  return new Set(users.map(({ id }) => id));
};

/** A console user's token stays valid after changes to its user. @throws UNAUTHORIZED SESSION_REVOKED */
export const requireMember = async (transact: Transact, userId: string): Promise<void> => {
  const user = await transact(({ em }) =>
    em.findOne(User, { id: userId, status: "ACTIVE", disabledAt: null }),
  );
  if (!user) throw unauthorized("SESSION_REVOKED", "The user of this token may no longer be here");
};
