import type { AuthContext } from "@colyseus/core";
import type { App } from "../app.ts";
import { checkOrigin, findKnownProject } from "../domain/accounts/projects/project.ts";
import { countUse, LIMITS } from "../domain/accounts/rate-limits/limiter.ts";
import type { StreamRef } from "../domain/delivery/outbox/stream.ts";
import { type DomainError, forbidden, notFound, unauthorized } from "../domain/kernel/errors.ts";
import { grouped } from "../domain/kernel/flights.ts";
import { readWithin } from "../domain/kernel/read.ts";
import type { Work } from "../domain/kernel/work.ts";
import { requireMember } from "../domain/player-lifecycle/ws-tokens.ts";
import { type PlayerStatus, readStatuses } from "../domain/players/player.ts";

/**
 * The identity that a socket's token proves. Plain JSON, because it crosses processes with the seat; it must
 * never have a key named `sessionId`, which core would take as the id of the session.
 */
export type Principal = {
  /** Set for a player's token; null for console users, who may watch whatever belongs to the project. */
  playerId: string | null;
  /** Set for a console user's token; otherwise "". */
  userId: string;
  /** One key for all sessions of a player or user. */
  subject: string;
  projectId: string;
  tenantId: string;
  /** Expiry time of the token, in ms. */
  expiresAtMs: number;
};

export const verifyToken = async (app: App, token: string | undefined): Promise<Principal> => {
  if (!token)
    throw unauthorized("TOKEN_MISSING", "the socket needs a token of POST /auth/ws-token as auth.token");
  const { sub, pid, tid, kind, exp } = await app.tokens.verifyWs(token);
  const isPlayer = kind === "player";
  return {
    playerId: isPlayer ? sub : null,
    userId: isPlayer ? "" : sub,
    subject: `${kind}:${sub}`,
    projectId: pid,
    tenantId: tid,
    expiresAtMs: exp * 1_000,
  };
};

/**
 * First half of every join: verifies the token, counts the attempt, and checks that the project still exists
 * and allows the page's origin. The console's own pages are exempt from the project's allow-list.
 * @throws DomainError UNAUTHORIZED for a token that is missing, expired, of another kind or of a deleted
 * user; RateLimited JOIN_RATE; NOT_FOUND; FORBIDDEN TENANT_SUSPENDED, ORIGIN_NOT_ALLOWED
 */
export const authenticate = async (
  app: App,
  token: string | undefined,
  { headers }: Pick<AuthContext, "headers">,
): Promise<Principal> => {
  const principal = await verifyToken(app, token);
  await throttle(app, principal);
  const project = await findKnownProject(app.transact, principal.projectId);
  if (!project) throw notFound("Project");
  if (project.isSuspended) throw forbidden("TENANT_SUSPENDED", "The tenant is suspended");
  if (principal.playerId === null)
    await requireMember(app.transactAs({ role: "accounts" }), principal.userId);
  else checkOrigin(project, headers.get("origin") ?? undefined);
  return principal;
};

/** Returns the reason why a player with this status is refused; undefined if the player may join. */
export const refusalOf = (status: PlayerStatus | undefined): DomainError | undefined => {
  if (status === "BANNED") return forbidden("PLAYER_BANNED", "the player is banned");
  return status === "ACTIVE" || status === "SUSPENDED" ? undefined : notFound("player");
};

type Status = PlayerStatus | undefined;

/**
 * Checks the player of a join, for rooms that do not read the player: a token stays valid after its player
 * was banned or deleted. Simultaneous joins share one read.
 * @throws DomainError FORBIDDEN for a banned player, NOT_FOUND for a deleted one
 */
export const createPlayerCheck = (app: App): ((principal: Principal) => Promise<void>) => {
  const read = grouped<StreamRef, Status>({ run: (refs) => readStatuses(app.read, refs) });
  return async ({ projectId, playerId }) => {
    if (playerId === null) return;
    const refused = refusalOf(await read({ projectId, playerId }));
    if (refused) throw refused;
  };
};

/** `authenticate` for rooms that do not read the player, with the check of the player. */
export const createPlayerAuthentication = (app: App) => {
  const requirePlayer = createPlayerCheck(app);
  return async (...proof: [token: string, context: AuthContext]): Promise<Principal> => {
    const principal = await authenticate(app, ...proof);
    await requirePlayer(principal);
    return principal;
  };
};

/** As `createPlayerCheck`, in a transaction in progress. */
export const checkPlayer = async (work: Work, { projectId, playerId }: Principal): Promise<void> => {
  if (playerId === null) return;
  const [status] = await readStatuses(readWithin(work), [{ projectId, playerId }]);
  const refused = refusalOf(status);
  if (refused) throw refused;
};

const throttle = (app: App, { projectId, subject }: Principal): Promise<void> => {
  const { points, seconds } = LIMITS.joins;
  const message = `more than ${points} joins in ${seconds} s`;
  return countUse(app, { bucket: LIMITS.joins, key: `${projectId}:${subject}` }, "JOIN_RATE", message);
};
