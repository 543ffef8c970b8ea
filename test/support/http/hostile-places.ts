import { unique } from "../operations/bodies.ts";
import { HOSTILE_TEXTS, HOSTILE_VALUES } from "./hostile.ts";

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

/** The hostile values, parsed. */
export const VALUES: readonly unknown[] = HOSTILE_VALUES.map((text) => JSON.parse(text) as unknown);
/** What a parameter is once it is decoded; undefined for what is refused before that. */
const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
};
/** Hostile texts as they stand in an address, and what is read of them. */
export const TEXTS = HOSTILE_TEXTS.map((text) => [text, decoded(text)] as const).filter(
  (pair): pair is [string, string] => pair[1] !== undefined && !pair[1].includes("\0"),
);

/** What a column of the database, or who reads it, may trip over. */
export const HARMFUL = VALUES.filter(
  (value) =>
    (typeof value === "number" && (Math.abs(value) > 2 ** 30 || !Number.isSafeInteger(value * 1e9))) ||
    (typeof value === "string" && !["", " "].includes(value)) ||
    (typeof value === "object" && value !== null && Object.keys(value).length > 0),
);

let turn = 0;
/** A few of them, others each time. */
export const some = <T>(all: readonly T[], count: number): T[] => {
  turn++;
  return Array.from({ length: Math.min(count, all.length) }, (_, i) => all[(turn + i) % all.length]!);
};
