import type { IncomingMessage } from "node:http";
import { DriverException, UniqueConstraintViolationException } from "@mikro-orm/core";
import type { Response } from "express";
import { z } from "zod";
import { limitHeaders, RateLimited } from "../domain/accounts/rate-limits/limiter.ts";
import { clipped, conflict, DomainError, MESSAGE_MAX } from "../domain/kernel/errors.ts";
import { outageError } from "../domain/kernel/outages.ts";
import { firstProblem, problemsOf } from "../domain/kernel/zod-problems.ts";
import type { ErrorSchema } from "./openapi-components.ts";
import type { AnyRoute } from "./route.ts";
import { isLongJson, refuseHostile } from "../domain/kernel/hostile-json.ts";
import { ignoredFields } from "../domain/kernel/json.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import { type BatchScore, type ScoreSubmission, unreadable } from "../domain/leaderboards/record-scores.ts";
import type { PlayerInput } from "../domain/progression/players/players.ts";
import { NewPlayer } from "./resources/player-bodies.ts";
import { SubmittedScore } from "./resources/leaderboards.ts";

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
const codeOf = (error: Error): string =>
  "code" in error && typeof error.code === "string" ? error.code : "";

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

/** One player of a batch, or why it is invalid. */
export type ReadItem =
  | { externalUserId: string; player: PlayerInput; ignored: string[] }
  | { externalUserId: string | null; problem: string };

/** Parses the players of a batch one by one, so that an invalid one is refused individually. */
export const readPlayerItems = (items: readonly unknown[]): Promise<ReadItem[]> =>
  mapInSlices(items, readItem);

const FIELDS: ReadonlySet<string> = new Set(Object.keys(NewPlayer.shape));

const readItem = (item: unknown): ReadItem => {
  const hostile = hostileProblem(item);
  if (hostile !== undefined) return { externalUserId: null, problem: hostile };
  const read = NewPlayer.safeParse(item);
  if (read.success) {
    const { tags, ...profile } = read.data;
    const player = { ...profile, ...(tags ? { addTags: tags } : {}) };
    return { externalUserId: player.externalUserId, player, ignored: ignoredFields(item, FIELDS) };
  }
  return { externalUserId: fitId(item), problem: firstProblem(read.error) };
};

const hostileProblem = (item: unknown): string | undefined => {
  try {
    refuseHostile("", item);
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error.message;
    throw error;
  }
};

const fitId = (item: unknown): string | null => {
  const id = NewPlayer.shape.externalUserId.safeParse(
    (item as { externalUserId?: unknown } | null)?.externalUserId,
  );
  return id.success ? id.data : null;
};

/** One score of a batch, or why it is invalid. */
type ScoreItem = { submission: ScoreSubmission } | { problem: string };

/** Parses the scores of a batch one by one, so that an invalid one is refused individually. */
export const readScoreItems = (items: readonly unknown[]): Promise<ScoreItem[]> =>
  mapInSlices(items, readScoreItem);

const readScoreItem = (item: unknown): ScoreItem => {
  const hostile = hostileProblem(item);
  if (hostile !== undefined) return { problem: hostile };
  const read = SubmittedScore.safeParse(item);
  return read.success ? { submission: submissionOf(read.data) } : { problem: firstProblem(read.error) };
};

/** Returns a score as it is recorded. */
export const submissionOf = ({ occurredAt, ...given }: z.output<typeof SubmittedScore>): ScoreSubmission => ({
  ...given,
  occurredAt: occurredAt === undefined ? undefined : new Date(occurredAt),
});

/** Returns one result per item, in order; valid items get the result of their submission. */
export const resultsInOrder = (items: readonly ScoreItem[], results: readonly BatchScore[]): BatchScore[] => {
  let next = 0;
  return items.map((item) => ("problem" in item ? unreadable(item.problem) : results[next++]!));
};

/** Number of refused items per request that get an explanation, however short they are. */
export const SHORT_REFUSALS_EXPLAINED = 20;
/** An item with this many characters of JSON always gets an explanation. */
export const LONG_ITEM_CHARS = 32;

/**
 * Returns the results of a batch's items in order, with refusals abbreviated where explanations would make
 * the response many times as long as the request: those of short items, after the first few.
 */
export const explainedInPart = <T, B>(
  items: readonly unknown[],
  results: readonly T[],
  isRefused: (result: T) => boolean,
  brief: (result: T) => B,
): (T | B)[] => {
  let explained = 0;
  return results.map((result, place) => {
    if (!isRefused(result) || isLongJson(items[place], LONG_ITEM_CHARS)) return result;
    explained += 1;
    return explained <= SHORT_REFUSALS_EXPLAINED ? result : brief(result);
  });
};
