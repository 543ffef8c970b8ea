import { type AuthContext, matchMaker } from "@colyseus/core";
import type { z } from "zod";
import type { App } from "../app.ts";
import { requireMember } from "../domain/player-lifecycle/ws-tokens.ts";
import { RateLimited } from "../domain/accounts/rate-limits/limiter.ts";
import { type DomainError, forbidden, notFound, unauthorized } from "../domain/kernel/errors.ts";
import { grouped } from "../domain/kernel/grouped.ts";
import type { StreamRef } from "../domain/delivery/outbox/stream.ts";
import { readWithin } from "../domain/kernel/read.ts";
import type { PlayerStatus } from "../domain/players/player.ts";
import { readStatuses } from "../domain/players/statuses.ts";
import { checkOrigin } from "../domain/accounts/projects/origins.ts";
import { findKnownProject } from "../domain/accounts/projects/resolve.ts";
import type { Work } from "../domain/kernel/work.ts";
import { parse } from "./errors.ts";

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

/** Maximum number of joins of one player (or console user) per window, over all processes and rooms. */
export const JOINS_MAX = 20;
export const JOINS_WINDOW_SECONDS = 10;

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

const countJoin = async ({ peers }: App, key: string): Promise<number> => {
  if (peers) return peers.countJoin(key, JOINS_WINDOW_SECONDS);
  const joins = await matchMaker.presence.incr(key);
  if (joins === 1) await matchMaker.presence.expire(key, JOINS_WINDOW_SECONDS);
  return joins;
};

const throttle = async (app: App, { projectId, subject }: Principal): Promise<void> => {
  const windowMs = JOINS_WINDOW_SECONDS * 1_000;
  const nowMs = app.clock().getTime();
  const joins = await countJoin(app, `joins:${projectId}:${subject}:${Math.floor(nowMs / windowMs)}`);
  if (joins <= JOINS_MAX) return;
  const state = {
    isAllowed: false,
    limit: JOINS_MAX,
    remaining: 0,
    windowSeconds: JOINS_WINDOW_SECONDS,
    resetAtMs: nowMs - (nowMs % windowMs) + windowMs,
  };
  throw new RateLimited(
    "JOIN_RATE",
    `more than ${JOINS_MAX} joins in ${JOINS_WINDOW_SECONDS} s`,
    state,
    nowMs,
  );
};

/**
 * Replaces the client's options by their validated part plus what the server knows. In place, because core
 * passes this very object on to the search for a room, to onCreate and to onJoin.
 */
export const pinOptions = <S extends z.ZodObject, P extends Record<string, unknown>>(
  options: object,
  schema: S,
  pinned: P,
): z.output<S> & P => {
  const parsed = { ...parse(schema, options), ...pinned };
  for (const key of Object.keys(options)) delete (options as Record<string, unknown>)[key];
  return Object.assign(options, parsed);
};
