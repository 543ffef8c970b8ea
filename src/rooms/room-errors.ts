import { CloseCode, ErrorCode as CoreCode, ServerError } from "@colyseus/core";
import { SeatReservationError } from "@colyseus/core/errors/SeatReservationError";
import { DomainError, ERROR_STATUS, type ErrorCode, type FieldProblem } from "../domain/kernel/errors.ts";
import { outageError } from "../domain/kernel/outages.ts";

/** The error object of a rejected request or a refused join. */
type ErrorObject = { code: ErrorCode; message: string; details: FieldProblem[]; reason?: string };

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
