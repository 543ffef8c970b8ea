import type { z } from "zod";
import { RuleDocument } from "../../evaluation/language/document.ts";
import type { FieldProblem } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { isJsonObject } from "../../kernel/json.ts";
import { PROBLEMS_MAX } from "../../kernel/limits.ts";

type Path = readonly PropertyKey[];

const fieldOf = (path: readonly PropertyKey[]): string =>
  path.length === 0 ? "rule" : path.map(String).join(".");

/** Returns each problem with the dotted path of its field. */
export const problemsOf = (error: z.ZodError): FieldProblem[] =>
  error.issues
    .flatMap((issue) =>
      issue.code === "unrecognized_keys"
        ? issue.keys.map((key) => ({
            field: fieldOf([...issue.path, key]),
            message: "there is no such field",
          }))
        : [{ field: fieldOf(issue.path), message: issue.message }],
    )
    .slice(0, PROBLEMS_MAX);

/** Harmless parts in place of those that are wrong, which name nothing. */
const ACTION = { type: "grant_xp", amount: 1 };
const TRIGGER = { kind: "EVENT", eventTypes: ["*"] };
const ALWAYS = { all: [] };
const PARTS: Readonly<Record<string, unknown>> = {
  key: "mended",
  name: "Mended",
  actions: [ACTION],
  triggers: [TRIGGER],
  conditions: ALWAYS,
};
const ITEMS: Readonly<Record<string, unknown>> = { actions: ACTION, triggers: TRIGGER };
/** Fields that parts need, whose names count although these are wrong. */
const FIELDS: Json = { amount: 1, op: "eq", score: 1, value: 0 };
const GROUPS: ReadonlySet<PropertyKey> = new Set(["all", "any", "none"]);

/** How often a rule is mended: a part of it, the whole action or condition, and what these have hidden. */
const TRIES = 6;

const begins = (path: Path, start: Path): boolean => start.every((name, i) => path[i] === name);

const holderOf = (document: Json, path: Path): unknown =>
  path.slice(0, -1).reduce<unknown>((at, name) => (at as Json | undefined)?.[name as string], document);

/** The action, trigger or condition that a path leads into, or the field of the rule. */
const partOf = (path: Path): { at: Path; by: unknown } => {
  const [field = "", index] = path;
  if (Object.hasOwn(ITEMS, field) && index !== undefined)
    return { at: path.slice(0, 2), by: ITEMS[field as string] };
  if (field !== "conditions") return { at: [field], by: PARTS[field as string] };
  const depth = path.findLastIndex((name, i) => typeof name === "number" && GROUPS.has(path[i - 1]!));
  return { at: path.slice(0, Math.max(1, depth + 1)), by: ALWAYS };
};

/** Puts a value where a path leads, or removes what is there. @returns whether there was something */
const put = (document: Json, path: Path, value: unknown): boolean => {
  const holder = holderOf(document, path);
  if (holder === null || typeof holder !== "object") return false;
  const name = path.at(-1) as string;
  const isThere = Object.hasOwn(holder, name);
  if (value === undefined) delete (holder as Json)[name];
  else (holder as Json)[name] = value;
  return isThere;
};

/** Mends the wrong value alone at first, and the part that it is in where that does not help. */
const mend = (document: Json, path: Path, mended: Path[]): void => {
  const isField = !Array.isArray(holderOf(document, path)) && path.length > 1;
  if (isField && !mended.some((start) => begins(path, start))) {
    const instead = FIELDS[String(path.at(-1))];
    if (put(document, path, instead) || instead !== undefined) return void mended.push(path);
  }
  const { at, by } = partOf(path);
  put(document, at, structuredClone(by));
  mended.push(at);
};

const pathsOf = (issue: z.core.$ZodIssue): Path[] =>
  issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];

/**
 * Reads a rule that may be wrong in parts, so that one mistake does not hide the others.
 * @returns all problems, and the rule without the parts that have them; undefined where too little is left
 */
export const readMended = (given: unknown): { errors: FieldProblem[]; rule: RuleDocument | undefined } => {
  const document: unknown = structuredClone(given);
  const errors: FieldProblem[] = [];
  const mended: Path[] = [];
  for (let tries = 0; tries < TRIES; tries++) {
    const parsed = RuleDocument.safeParse(document);
    if (parsed.success) return { errors, rule: parsed.data };
    const { issues } = parsed.error;
    // What is found in a part that was mended may be the mending's fault.
    const found = issues.filter((issue) =>
      pathsOf(issue).every((path) => !mended.some((start) => begins(path, start) || begins(start, path))),
    );
    errors.push(...problemsOf({ issues: found } as z.ZodError));
    const paths = issues.flatMap(pathsOf);
    if (!isJsonObject(document) || paths.some((path) => path.length === 0)) break;
    for (const path of paths) mend(document, path, mended);
  }
  return { errors: errors.slice(0, PROBLEMS_MAX), rule: undefined };
};
