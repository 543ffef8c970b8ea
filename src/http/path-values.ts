import { z } from "zod";

const id = z.string().max(64);
const text = z.string();

/** What names in paths stand for; others are ids of at most 64 characters. */
const PATH_VALUES = {
  sessionId: text,
};

type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Names<Rest>
  : never;

/** What a path's names stand for. */
export type PathValues<Path extends string> = {
  [Name in Names<Path>]: Name extends keyof typeof PATH_VALUES
    ? z.output<(typeof PATH_VALUES)[Name]>
    : string;
};

/** Returns the schema of what a path names; undefined for one that names nothing. */
export const pathParams = (path: string): z.ZodObject | undefined => {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  if (names.length === 0) return undefined;
  const known: Readonly<Record<string, z.ZodType>> = PATH_VALUES;
  return z.object(Object.fromEntries(names.map((name) => [name, known[name] ?? id])));
};
