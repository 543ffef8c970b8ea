import {
  type AuthContext,
  type Client,
  ClientState,
  CloseCode,
  ErrorCode as CoreCode,
  ServerError,
} from "@colyseus/core";
import { SeatReservationError } from "@colyseus/core/errors/SeatReservationError";
import type { z } from "zod";
import type { App } from "../app.ts";
import { checkOrigin, findKnownProject } from "../domain/accounts/projects/project.ts";
import { countUse, LIMITS } from "../domain/accounts/rate-limits/limiter.ts";
import type { StreamRef } from "../domain/delivery/outbox/stream.ts";
import {
  DomainError,
  ERROR_STATUS,
  type ErrorCode,
  type FieldProblem,
  forbidden,
  notFound,
  unauthorized,
} from "../domain/kernel/errors.ts";
import { grouped } from "../domain/kernel/flights.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { outageError } from "../domain/kernel/outages.ts";
import { readWithin } from "../domain/kernel/read.ts";
import type { Work } from "../domain/kernel/work.ts";
import { problemsOf } from "../domain/kernel/zod-problems.ts";
import { requireMember } from "../domain/player-lifecycle/ws-tokens.ts";
import { type PlayerStatus, readStatuses } from "../domain/players/player.ts";

/** The error object of a rejected request or a refused join. */
type ErrorObject = { code: ErrorCode; message: string; details: FieldProblem[]; reason?: string };

/**
 * Parses client input; rejects first what the database cannot store or an object must not have.
 * @throws DomainError VALIDATION_ERROR with the paths of all problems
 */
export const parse = <S extends z.ZodType>(schema: S, value: unknown): z.output<S> => {
  refuseHostile("", value);
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const details = problemsOf(result.error, "body");
  const [first] = details;
  throw new DomainError("VALIDATION_ERROR", first ? `${first.field}: ${first.message}` : "invalid", {
    details,
  });
};

const isErrorCode = (code: unknown): code is ErrorCode =>
  typeof code === "string" && Object.hasOwn(ERROR_STATUS, code);

/** Core's own refusals, by its numeric code. */
const CORE_ERRORS: ReadonlyMap<number, ErrorCode> = new Map<number, ErrorCode>([
  [CoreCode.MATCHMAKE_NO_HANDLER, "NOT_FOUND"],
  [CoreCode.MATCHMAKE_INVALID_CRITERIA, "NOT_FOUND"],
  [CoreCode.MATCHMAKE_INVALID_ROOM_ID, "GONE"],
  [CoreCode.MATCHMAKE_EXPIRED, "GONE"],
]);

const MESSAGES: Partial<Record<ErrorCode, string>> = {
  NOT_FOUND: "room not found",
  GONE: "the seat has expired, join again",
};

/**
 * Returns the error code of a refusal by core: a numeric code of its own, or that of the DomainError that a
 * room threw.
 */
const coreErrorCode = (error: Error): ErrorCode | undefined => {
  const code: unknown = "code" in error ? error.code : undefined;
  if (typeof code === "number") return CORE_ERRORS.get(code);
  return error instanceof ServerError && isErrorCode(code) ? code : undefined;
};

/**
 * Converts an error to the object that a client receives; undefined for a bug, of which clients learn
 * nothing. Core wraps what a room throws and keeps only `code` and `message`, so a DomainError is recognised
 * by its code too, and its reason by `refuseCreation`.
 */
export const errorObject = (error: unknown): ErrorObject | undefined => {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof DomainError) {
    const { code, message, reason, details } = error;
    return { code, message, details, ...(reason === undefined ? {} : { reason }) };
  }
  if (error instanceof SeatReservationError) {
    return { code: "SERVICE_UNAVAILABLE", message: "no seat in this room just now, try again", details: [] };
  }
  const code = coreErrorCode(error);
  if (!code) return errorObject(outageError(error));
  const isOwn = typeof (error as ServerError).code === "number";
  const told = isOwn ? { message: MESSAGES[code] ?? error.message } : readReason(error.message);
  return { code, details: [], ...told };
};

const readReason = (text: string): Pick<ErrorObject, "message" | "reason"> => {
  const [, reason, message = text] = /^([A-Z_]+): (.+)$/s.exec(text) ?? [];
  return { message, ...(reason === undefined ? {} : { reason }) };
};

/** The message of an error that has no place for the reason, which `readReason` finds. */
export const withReason = ({ reason, message }: { reason?: string | undefined; message: string }): string =>
  reason === undefined ? message : `${reason}: ${message}`;

export const INTERNAL_ERROR: ErrorObject = { code: "INTERNAL_ERROR", message: "internal error", details: [] };

/**
 * Converts an error for transport over a socket: a numeric code (a string code would throw where core encodes
 * it) and a message that reveals nothing of a bug.
 */
export const socketError = (error: unknown): ServerError => {
  if (error instanceof ServerError && typeof error.code === "number") return error;
  const known = errorObject(error);
  return known
    ? new ServerError(ERROR_STATUS[known.code], known.message, { cause: error })
    : new ServerError(CloseCode.WITH_ERROR, INTERNAL_ERROR.message, { cause: error });
};

/**
 * Rethrows an error of a room's creation in the form that core treats as a refusal. Core logs any error but a
 * ServerError with its stack, so players could flood the log at will, and an outage would do so for every
 * join. Core keeps only code and message, which therefore has the reason.
 * @param report receives an outage
 */
export const refuseCreation = (error: unknown, report: (outage: unknown) => void): never => {
  const known = error instanceof DomainError ? error : outageError(error);
  if (!known) throw error;
  if (known !== error) report(error);
  throw new ServerError(known.code as unknown as number, withReason(known), { cause: error });
};

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

/** The base room's record of one socket. */
type Session = {
  sinceMs: number;
  /** Whether the join was confirmed to the client: from `sinceMs` on it has time to acknowledge that. */
  isJoinSent: boolean;
  isWarned: boolean;
  isClosing: boolean;
};

export type LiveClient = Client<{ auth: Principal; userData: Session; messages: Record<string, unknown> }>;

export const newSession = (nowMs: number): Session => ({
  sinceMs: nowMs,
  isJoinSent: false,
  isWarned: false,
  isClosing: false,
});

/** Core confirms a join after the client is welcomed, which takes long when many join at once. */
export const noteJoinSent = ({ userData }: LiveClient, nowMs: number): void =>
  void Object.assign(userData!, { sinceMs: nowMs, isJoinSent: true });

/** Data for a client that never acknowledges its join would be queued without end. */
export const isUnacknowledged = (
  { state, userData }: LiveClient,
  nowMs: number,
  patienceMs: number,
): boolean => state === ClientState.JOINING && userData!.isJoinSent && nowMs - userData!.sinceMs > patienceMs;
