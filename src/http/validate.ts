import { z } from "zod";
import { DomainError } from "../domain/kernel/errors.ts";
import { findOversize } from "../domain/kernel/oversize.ts";
import { validationError } from "./errors.ts";
import type { AnyRoute } from "./route.ts";

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
  const oversize = findOversize(schema, value);
  if (oversize) throw validationError(new z.ZodError([oversize]), root);
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

/** @throws DomainError VALIDATION_ERROR for a parameter that was given more than once and takes one value */
const refuseRepeated = (schema: z.ZodType | undefined, query: Record<string, unknown>): void => {
  const shape = (schema?._zod.def as Def | undefined)?.shape as Record<string, z.ZodType> | undefined;
  const repeated = Object.keys(query).filter(
    (name) => Array.isArray(query[name]) && !takesList(ownOf(shape, name)),
  );
  const [first] = repeated;
  if (first === undefined) return;
  const details = repeated.map((field) => ({ field, message: "must be given once" }));
  throw new DomainError("VALIDATION_ERROR", `${first}: must be given once`, { details });
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
    refuseRepeated(route.query, query);
    if (isLoose(route.query)) return parse(route.query, query, "query");
    const unknown = Object.keys(query).filter((name) => !known.has(name) && name !== tolerated);
    if (unknown.length > 0) {
      const details = unknown.map((field) => ({ field, message: "is not a parameter of this operation" }));
      throw new DomainError("VALIDATION_ERROR", `${unknown[0]}: is not a parameter of this operation`, {
        details,
      });
    }
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
