import { Unprepared } from "./work.ts";
import { codeOf, DomainError } from "./errors.ts";

/** Delays before failed work is attempted again, in ms; after the last one it is FAILED. */
export const RETRY_DELAYS_MS = [1_000, 10_000, 60_000];

/** The subset of the logger used here. */
type Warns = { warn(fields: object, message: string): void };

/** Minimum interval between warnings of one kind, in ms. */
const INTERVAL_MS = 5_000;

export type ThrottledWarning = (err: unknown, message: string) => void;

/**
 * Throttles warnings about repeated failures, each kind by itself: logs the first one at once, then one per
 * interval with the number of those suppressed in between. The message is the kind, so there must be few.
 */
export const throttledWarnings = (log: Warns): ThrottledWarning => {
  const kinds = new Map<string, { nextAtMs: number; leftOut: number }>();
  return (err, message) => {
    const nowMs = performance.now();
    const kind = kinds.get(message);
    if (kind && nowMs < kind.nextAtMs) {
      kind.leftOut++;
      return;
    }
    log.warn(kind && kind.leftOut > 0 ? { err, leftOut: kind.leftOut } : { err }, message);
    kinds.set(message, { nextAtMs: nowMs + INTERVAL_MS, leftOut: 0 });
  };
};

/**
 * The origin of an error that the operation itself did not cause. "busy": the database works, but the
 * operation conflicted with others (a deadlock, a lock or a statement that took too long). "database" and
 * "redis": the service, or the connection to it, does not work. "service": a part of Laurel that depends on
 * one.
 */
export type Outage = "busy" | "database" | "redis" | "service";

/** Reason of errors after waiting for others for too long. */
export const BUSY = "BUSY";

/**
 * Deadlocks and serialization failures, lock timeouts, cancelled statements, and transactions that PostgreSQL
 * ended because they took too long.
 */
const BUSY_CODES = /^(40...|55P03|57014|25P03|25P04)$/;
const CANCELLED = /^57014$/;
const LOCK_TIMEOUT = /^55P03$/;
/** Or a deadlock. */
const LOCK_CONFLICT = /^(55P03|40P01)$/;
/**
 * No connection, insufficient resources (disk, memory, connections), operator intervention or restart, I/O
 * error, standby.
 */
const NO_DATABASE = /^(08...|53...|57...|58...|25006)$/;
/** With these severities PostgreSQL ends or refuses a whole session, whatever the code. */
const NO_SESSION = /^(FATAL|PANIC)$/;
/** Errors of sockets and name resolution, whatever the service. */
const NO_SOCKET =
  /^(ECONN(REFUSED|RESET|ABORTED)|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|EHOSTUNREACH|ENET(UNREACH|DOWN))$/;
/** Messages without a code of the PostgreSQL driver and its pool. */
const NO_CONNECTION =
  /^(Connection terminated|timeout ex(pir|ceed)ed|Client (has encountered|was closed)|Query read timeout)/;
/** Messages without a code of the Redis client. */
const NO_REDIS =
  /^(Connection is closed|Command timed out|Stream isn't writeable|Reached the max retries per request)/;
/** First words of Redis errors: no memory, a replica, loading, a cluster without its master, no access. */
const REDIS_REFUSES =
  /^(OOM|READONLY|MISCONF|LOADING|NOAUTH|WRONGPASS|NOPERM|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|BUSY) /;
/** Parts of messages: connections closed during a command, or refused for their number. */
const REDIS_ENDED = /to connection close|max number of clients reached/;

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
 * Classifies an error, by itself or by its cause; undefined where the operation is to blame. An outage uses
 * up no attempt: the work is rolled back and retried.
 */
export const outageOf = (error: unknown): Outage | undefined => {
  if (!(error instanceof Error)) return undefined;
  return outageOfOne(error) ?? outageOf(error.cause);
};

/** Rethrows an error that is an outage; for callers that handle everything else. */
export const throwOutage = (error: unknown): void => {
  if (outageOf(error) !== undefined) throw error;
};

/**
 * Rethrows an error that no single one of many is to blame for, so that all of the work is done again: an
 * outage, a lock that others hold, or something that must be prepared first.
 */
export const throwUnlessOwn = (error: unknown): void => {
  if (error instanceof Unprepared) throw error;
  throwOutage(error);
};

/** Seconds after which a request refused by an outage may be retried. */
const RETRY_SECONDS = 1;

/** Returns whether an error or one of its causes has one of these codes. */
export const isOf = (error: unknown, codes: RegExp): boolean =>
  error instanceof Error && (codes.test(codeOf(error)) || isOf(error.cause, codes));

/**
 * Returns whether a statement took too long or was ended by an operator, not necessarily because of a
 * conflict.
 */
export const isCancelled = (error: unknown): boolean => isOf(error, CANCELLED);

/** Returns whether a wait for a lock timed out. */
export const isLockTimeout = (error: unknown): boolean => isOf(error, LOCK_TIMEOUT);

/** Returns whether a wait for a lock timed out or was a deadlock. */
export const isLockConflict = (error: unknown): boolean => isOf(error, LOCK_CONFLICT);

/** The error that a caller gets for each outage. */
const RESPONSES: Readonly<Record<Outage, { message: string; reason: string }>> = {
  busy: { message: "Other requests are changing the same data right now: try again", reason: BUSY },
  database: {
    message: "The database is not responding right now: try again",
    reason: "DATABASE_UNAVAILABLE",
  },
  redis: { message: "A part of the service is not responding right now: try again", reason: "NOT_READY" },
  service: { message: "A part of the service is not responding right now: try again", reason: "NOT_READY" },
};

/**
 * Converts an outage to the error for the caller: SERVICE_UNAVAILABLE with a retry delay; undefined for all
 * other errors.
 */
export const outageError = (error: unknown): DomainError | undefined => {
  const outage = outageOf(error);
  if (outage === undefined || error instanceof DomainError) return undefined;
  const { message, reason } = RESPONSES[isCancelled(error) ? "database" : outage];
  return new DomainError("SERVICE_UNAVAILABLE", message, { reason, retryAfterSeconds: RETRY_SECONDS });
};
