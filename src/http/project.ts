import type { Request } from "express";
import type { App } from "../app.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { DomainError, invalid } from "../domain/kernel/errors.ts";
import { checkOriginOf } from "../domain/accounts/projects/origins.ts";
import { resolvePathProject, resolveProject } from "../domain/accounts/projects/resolve.ts";
import type { ProjectSource } from "./route.ts";

const one = (value: unknown): string | undefined => {
  if (Array.isArray(value)) throw invalid("projectId", "must be given once");
  return typeof value === "string" && value !== "" ? value : undefined;
};

/**
 * Determines the project of a request, checked to be the caller's own; "" for an operation without one. It
 * comes from the path, `X-Project-ID`, `projectId` in the query, or is the caller's only one.
 * @throws DomainError NOT_FOUND, VALIDATION_ERROR when it cannot be determined, FORBIDDEN PROJECT_MISMATCH or
 * ORIGIN_NOT_ALLOWED for a key
 */
export const projectOf = async (
  app: App,
  source: ProjectSource,
  caller: Caller,
  request: Request,
): Promise<string> => {
  // For every operation: a key in a page of a foreign origin was stolen from its owner.
  if (caller.kind === "key") await checkOriginOf(app.transact, caller.projectId, request.get("origin"));
  if (source === "none") return "";
  const header = one(request.get("x-project-id"));
  if (source !== "path") {
    const wish = header ?? one(request.query["projectId"]);
    const resolved = await resolveIfNamed(app, caller, wish);
    if (!(resolved instanceof DomainError)) return resolved;
    if (source === "caller") throw resolved;
    return "";
  }
  const inPath = one(request.params["projectId"]) ?? "";
  const { projectId } = await resolvePathProject(app.transact, caller, inPath);
  // A key that names another project in the header is refused even where the path decides.
  if (caller.kind === "key" && header !== undefined) await resolveProject(app.transact, caller, header);
  return projectId;
};

/** As `resolveProject`, but returns the error of a console user who did not name the project. */
const resolveIfNamed = async (
  app: App,
  caller: Caller,
  wish: string | undefined,
): Promise<string | DomainError> => {
  try {
    return (await resolveProject(app.transact, caller, wish)).projectId;
  } catch (error) {
    if (error instanceof DomainError && error.reason === "PROJECT_REQUIRED") return error;
    throw error;
  }
};
