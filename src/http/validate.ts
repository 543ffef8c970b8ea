import type { IncomingMessage } from "node:http";
import { DriverException, UniqueConstraintViolationException } from "@mikro-orm/core";
import type { Response } from "express";
import { z } from "zod";
import { limitHeaders, RateLimited } from "../domain/accounts/rate-limits/limiter.ts";
import { clipped, codeOf, conflict, DomainError, MESSAGE_MAX } from "../domain/kernel/errors.ts";
import { outageError } from "../domain/kernel/outages.ts";
import { problemsOf } from "../domain/kernel/zod-problems.ts";
import type { ErrorSchema } from "./openapi-components.ts";
import type { AnyRoute } from "./route.ts";

/** Characters reserved in a message for the number of further problems. */
const MORE_MAX = 30;

export const errorBody = (
  error: DomainError,
  requestId: string,
  now: Date,
): z.output<typeof ErrorSchema> => ({
  error: {
    code: error.code,
    message: error.message,
    details: error.details,
    ...(error.reason === undefined ? {} : { reason: error.reason }),
    ...(error.challenge === undefined ? {} : { challenge: error.challenge }),
    requestId,
    timestamp: now.toISOString(),
  },
});

/**
 * Builds one 400 for all problems of a value, each with the dotted path of its field; `root` names the value
 * itself.
 */
const validationError = (error: z.ZodError, root: string): DomainError => {
  const details = problemsOf(error, root);
  const first = details[0] ?? { field: root, message: "is not valid" };
  const more = error.issues.length > 1 ? ` (and ${error.issues.length - 1} more)` : "";
  const what = clipped(`${first.field}: ${first.message}`, MESSAGE_MAX - MORE_MAX);
  return new DomainError("VALIDATION_ERROR", what + more, { details });
};

const UNIQUE_VIOLATION = "23505";
/** PostgreSQL's errors for NUL and for text outside the database's encoding. */
const BAD_TEXT = new Set(["22021", "22P05"]);

const fromDatabase = (error: Error): DomainError | undefined => {
  const code = codeOf(error);
  if (error instanceof UniqueConstraintViolationException || code === UNIQUE_VIOLATION) {
    return conflict("ALREADY_EXISTS", "A record with these values already exists");
  }
  if (BAD_TEXT.has(code))
    return new DomainError("VALIDATION_ERROR", "A text holds a character that cannot be stored");
  return error instanceof DriverException && error.cause instanceof Error
    ? fromDatabase(error.cause)
    : undefined;
};

/** Errors of Express carry a status and are about the request. */
const fromExpress = (error: Error): DomainError | undefined => {
  const { status } = error as { status?: unknown };
  if (status === 400)
    return new DomainError("VALIDATION_ERROR", "The request is malformed", { reason: "MALFORMED" });
  return undefined;
};

/** Converts an error to what the caller may see; undefined for a bug, which answers 500 and is logged. */
export const asDomainError = (error: unknown): DomainError | undefined => {
  if (error instanceof DomainError) return error;
  if (error instanceof z.ZodError) return validationError(error, "body");
  if (!(error instanceof Error)) return undefined;
  return fromDatabase(error) ?? outageError(error) ?? fromExpress(error);
};

export const internalError = (): DomainError => new DomainError("INTERNAL_ERROR", "Internal error");

/** Nobody reads an answer to a client that has gone, and it must not be recorded as given. */
export const hasGone = ({ socket, destroyed, complete }: IncomingMessage): boolean =>
  socket.destroyed || (destroyed && !complete);

/** Answers with `error`, or ends the connection when a response has already begun. */
export const sendError = (response: Response, error: DomainError, now: Date): void => {
  if (response.headersSent || hasGone(response.req)) {
    response.destroy();
    return;
  }
  if (error.retryAfterSeconds !== undefined) {
    response.setHeader("Retry-After", String(Math.max(1, Math.ceil(error.retryAfterSeconds))));
  }
  if (error instanceof RateLimited) response.set(limitHeaders(error.state));
  response.status(error.status).json(errorBody(error, String(response.locals["requestId"]), now));
};

/** Returns the field names of an object schema, seen through refinements, transforms and `lazy`. */
export const fieldsOf = (schema: z.ZodType | undefined): string[] => {
  const def = schema?._zod.def as
    | { type: string; shape?: object; in?: z.ZodType; getter?: () => z.ZodType }
    | undefined;
  if (def?.type === "object") return Object.keys(def.shape ?? {});
  if (def?.type === "pipe") return fieldsOf(def.in);
  if (def?.type === "lazy") return fieldsOf(def.getter?.());
  return [];
};

const parse = async (schema: z.ZodType | undefined, value: unknown, root: string): Promise<unknown> => {
  if (schema === undefined) return undefined;
  const result = await schema.safeParseAsync(value);
  if (!result.success) throw validationError(result.error, root);
  return result.data;
};

type Def = { type: string; innerType?: z.ZodType; in?: z.ZodType; options?: z.ZodType[]; shape?: object };

/** Whether a parameter's schema accepts a list, seen through its wrappers. */
const takesList = (schema: z.ZodType | undefined): boolean => {
  if (schema === undefined) return false;
  const { type, innerType, in: given, options = [] } = schema._zod.def as Def;
  return type === "array" || takesList(innerType ?? given) || options.some(takesList);
};

/** A parameter may be called as something that every object inherits, such as `__proto__`. */
const ownOf = (shape: Record<string, z.ZodType> | undefined, name: string): z.ZodType | undefined =>
  shape !== undefined && Object.hasOwn(shape, name) ? shape[name] : undefined;

/** Whether a parameter is a number, seen through its wrappers. */
const isNumber = (schema: z.ZodType | undefined): boolean => {
  if (schema === undefined) return false;
  const { type, innerType, in: given } = schema._zod.def as Def;
  return type === "number" || isNumber(innerType ?? given);
};

/** @throws DomainError VALIDATION_ERROR where there are any */
const refuse = (parameters: readonly string[], message: string): void => {
  if (parameters.length === 0) return;
  const details = parameters.map((field) => ({ field, message }));
  throw new DomainError("VALIDATION_ERROR", `${parameters[0]}: ${message}`, { details });
};

/**
 * @throws DomainError VALIDATION_ERROR for a parameter that was given more than once and takes one value, and
 * for an empty number, which would be read as 0
 */
const refuseMisgiven = (schema: z.ZodType | undefined, query: Record<string, unknown>): void => {
  const shape = (schema?._zod.def as Def | undefined)?.shape as Record<string, z.ZodType> | undefined;
  const given = Object.entries(query).map(([name, value]) => ({ name, value, schema: ownOf(shape, name) }));
  const named = (those: typeof given) => those.map(({ name }) => name);
  const repeated = given.filter(({ value, schema: own }) => Array.isArray(value) && !takesList(own));
  refuse(named(repeated), "must be given once");
  const isBlank = (value: unknown) => typeof value === "string" && value.trim() === "";
  refuse(
    named(given.filter(({ value, schema: own }) => isBlank(value) && isNumber(own))),
    "must be a number",
  );
};

const isLoose = (schema: z.ZodType | undefined): boolean =>
  schema !== undefined && (schema._zod.def as { catchall?: unknown }).catchall !== undefined;

/**
 * Creates the checker of a route's query: unlike unknown fields of a body, unknown parameters are refused,
 * unless the schema is a loose object.
 */
export const queryChecker = (route: AnyRoute) => {
  const known = new Set(fieldsOf(route.query));
  // Selects the project of a caller that has several; read before this check.
  const selectsProject = route.project === "caller" || route.project === "optional";
  const tolerated = selectsProject && !known.has("projectId") ? "projectId" : undefined;
  return async (query: Record<string, unknown>): Promise<unknown> => {
    refuseMisgiven(route.query, query);
    if (isLoose(route.query)) return parse(route.query, query, "query");
    const unknown = Object.keys(query).filter((name) => !known.has(name) && name !== tolerated);
    refuse(unknown, "is not a parameter of this operation");
    return parse(route.query, query, "query");
  };
};

export const parseParams = (route: AnyRoute, params: unknown): Promise<unknown> =>
  parse(route.params, params, "path");

export const parseBody = async (route: AnyRoute, body: unknown): Promise<unknown> => {
  if (!route.readBody) return parse(route.body, body, "body");
  try {
    return await route.readBody(body);
  } catch (error) {
    if (error instanceof z.ZodError) throw validationError(error, "body");
    throw error;
  }
};
