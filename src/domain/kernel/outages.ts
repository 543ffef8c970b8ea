import { DomainError } from "./errors.ts";

/**
 * Whose fault an error is when it is not that of what was to be done. "busy": the database works, and the
 * work met other work (a deadlock, a wait for a lock or a statement that took too long). "database" and
 * "redis": the service, or the way to it, does not work. "service": a part of Laurel that depends on one.
 */
export type Outage = "busy" | "database" | "redis" | "service";

/** Reason of a refusal of what has met other work for too long. */
export const BUSY = "BUSY";

/**
 * Deadlocks and failed serializations, waits for locks, cancelled statements, and transactions that
 * PostgreSQL has ended because they took too long.
 */
const BUSY_CODES = /^(40...|55P03|57014|25P03|25P04)$/;
const CANCELLED = "57014";
const LOCK_TIMEOUT = "55P03";
const DEADLOCK = "40P01";
/** No connection, resources (disk, memory, connections), the operator or a restart, I/O, a standby. */
const NO_DATABASE = /^(08...|53...|57...|58...|25006)$/;
/** With these PostgreSQL ends or refuses a whole session, whatever its code says of why. */
const NO_SESSION = /^(FATAL|PANIC)$/;
/** Of sockets and of looking up names, whatever they lead to. */
const NO_SOCKET =
  /^(ECONN(REFUSED|RESET|ABORTED)|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|EHOSTUNREACH|ENET(UNREACH|DOWN))$/;
/** Messages of the PostgreSQL driver and its pool that have no code. */
const NO_CONNECTION =
  /^(Connection terminated|timeout ex(pir|ceed)ed|Client (has encountered|was closed)|Query read timeout)/;
/** Messages of the Redis client that have no code. */
const NO_REDIS =
  /^(Connection is closed|Command timed out|Stream isn't writeable|Reached the max retries per request)/;
/** First words of Redis' refusals: no memory, a replica, loading, a cluster without its master, no access. */
const REDIS_REFUSES =
  /^(OOM|READONLY|MISCONF|LOADING|NOAUTH|WRONGPASS|NOPERM|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|BUSY) /;
/** Within messages: connections that ended beneath a command, or were refused for their number. */
const REDIS_ENDED = /to connection close|max number of clients reached/;

const codeOf = (error: Error): string =>
  "code" in error && typeof error.code === "string" ? error.code : "";

const severityOf = (error: Error): string =>
  "severity" in error && typeof error.severity === "string" ? error.severity : "";

const isDatabase = (error: Error): boolean =>
  NO_DATABASE.test(codeOf(error)) ||
  NO_SOCKET.test(codeOf(error)) ||
  NO_SESSION.test(severityOf(error)) ||
  NO_CONNECTION.test(error.message);

const isRedis = ({ name, message }: Error): boolean =>
  name === "MaxRetriesPerRequestError" ||
  [NO_REDIS, REDIS_REFUSES, REDIS_ENDED].some((pattern) => pattern.test(message));

const outageOfOne = (error: Error): Outage | undefined => {
  if (error instanceof DomainError) return error.code === "SERVICE_UNAVAILABLE" ? "service" : undefined;
  if (BUSY_CODES.test(codeOf(error))) return "busy";
  if (isDatabase(error)) return "database";
  return isRedis(error) ? "redis" : undefined;
};

/**
 * The one judge of errors: which outage `error` tells of, by itself or by its cause; undefined where what was
 * to be done is to blame. An outage uses up no attempt of anything: the work is undone and done again.
 */
export const outageOf = (error: unknown): Outage | undefined => {
  if (!(error instanceof Error)) return undefined;
  return outageOfOne(error) ?? outageOf(error.cause);
};

/** Throws an error on that tells of an outage; for where everything else is dealt with. */
export const throwOutage = (error: unknown): void => {
  if (outageOf(error) !== undefined) throw error;
};

/** Seconds after which what an outage refused is tried again. */
const RETRY_SECONDS = 1;

/** A statement that has taken too long, or that an operator has ended: it need not have met other work. */
const isCancelled = (error: unknown): boolean =>
  error instanceof Error && (codeOf(error) === CANCELLED || isCancelled(error.cause));

/** Whether a lock was waited for as long as may be. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof Error && (codeOf(error) === LOCK_TIMEOUT || isLockTimeout(error.cause));

/** Whether a lock was waited for as long as may be, or by others that held what they waited for in turn. */
export const isLockConflict = (error: unknown): boolean =>
  isLockTimeout(error) ||
  (error instanceof Error && (codeOf(error) === DEADLOCK || isLockConflict(error.cause)));

/** What a caller is told of each outage. */
const TOLD: Readonly<Record<Outage, { message: string; reason: string }>> = {
  busy: { message: "Others are at work on the same right now, try again", reason: BUSY },
  database: { message: "The database does not answer right now, try again", reason: "DATABASE_UNAVAILABLE" },
  redis: { message: "A part of the service does not answer right now, try again", reason: "NOT_READY" },
  service: { message: "A part of the service does not answer right now, try again", reason: "NOT_READY" },
};

/**
 * What a caller is told of an error that tells of an outage: SERVICE_UNAVAILABLE with a time to come back;
 * undefined for all others.
 */
export const outageError = (error: unknown): DomainError | undefined => {
  const outage = outageOf(error);
  if (outage === undefined || error instanceof DomainError) return undefined;
  const { message, reason } = TOLD[isCancelled(error) ? "database" : outage];
  return new DomainError("SERVICE_UNAVAILABLE", message, { reason, retryAfterSeconds: RETRY_SECONDS });
};
