import assert from "node:assert/strict";
import type { AnyRoute } from "./route.ts";
import { fieldsOf } from "./validate.ts";

const PARAMETER = /\{(\w+)\}/g;

/** Converts `/players/{playerId}` to Express's form: `/players/:playerId`. */
export const expressPath = (path: string): string => path.replace(PARAMETER, ":$1");

/** Builds a pattern for addresses of the template, without a prefix. */
export const pathPattern = (path: string): RegExp =>
  new RegExp(`^${path.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(PARAMETER, "[^/]+")}/?$`);

const parametersOf = (path: string): string[] => [...path.matchAll(PARAMETER)].map(([, name = ""]) => name);

/** One digit per segment: 0 for a name, 1 for a parameter. */
const shapeOf = (path: string): string =>
  path
    .split("/")
    .map((part) => (part.startsWith("{") ? "1" : "0"))
    .join("");

/** Sorts `/players/import` before `/players/{playerId}`, so that a list may be in any order. */
export const bySpecificity = (a: AnyRoute, b: AnyRoute): number => {
  const [left, right] = [shapeOf(a.path), shapeOf(b.path)];
  return left < right ? -1 : Number(left > right);
};

const checkRoute = (route: AnyRoute): void => {
  const { path, params, access, project, id } = route;
  assert.match(path, /^(\/([\w-]+|\{\w+\}))+$/, `${id}: the path ${path} is malformed`);
  const inPath = parametersOf(path);
  assert.deepEqual(
    fieldsOf(params).toSorted(),
    inPath.toSorted(),
    `${id}: params do not match the path ${path}`,
  );
  assert(access !== "public" || project === "none", `${id}: a public operation has no project`);
  assert(project !== "path" || inPath.includes("projectId"), `${id}: the path ${path} lacks {projectId}`);
};

/** @throws AssertionError for inconsistent or conflicting routes: a programming error */
export const checkRoutes = (routes: readonly AnyRoute[]): void => {
  const seen = new Set<string>();
  for (const route of routes) {
    checkRoute(route);
    for (const name of [route.id, `${route.method} ${route.path.replace(PARAMETER, "{}")}`]) {
      assert(!seen.has(name), `two routes are ${name}`);
      seen.add(name);
    }
  }
};
