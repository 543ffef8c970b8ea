import { unique } from "../operations/bodies.ts";

type Tree = Record<string, unknown>;
const isTree = (value: unknown): value is Tree => value !== null && typeof value === "object";

/** The paths of every value inside a body, and of the fields that the schema knows and the body lacks. */
export const placesIn = (body: unknown, known: readonly string[]): string[][] => {
  const places: string[][] = known.map((name) => [name]);
  const walk = (value: unknown, path: string[]): void => {
    if (path.length > 0) places.push(path);
    if (isTree(value)) for (const name of Object.keys(value)) walk(value[name], [...path, name]);
  };
  walk(body, []);
  return [...new Map(places.map((path) => [path.join("\0"), path])).values()];
};

/** The body with another value at `path`; a key of its own, else a second one would be refused for that. */
export const withValue = (body: unknown, path: readonly string[], value: unknown): Tree => {
  const copy = structuredClone(isTree(body) ? body : {});
  if ("key" in copy) copy["key"] = unique("swept");
  const parent = path.slice(0, -1).reduce((at, name) => at[name] as Tree, copy);
  const name = path.at(-1)!;
  Object.defineProperty(parent, name, { value, enumerable: true, configurable: true, writable: true });
  return copy;
};
