import type { z } from "zod";
import { DomainError } from "../domain/kernel/errors.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { problemsOf } from "../domain/kernel/zod-problems.ts";

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
