import type { Json } from "./events/events.ts";
import { clipped } from "./errors.ts";

/**
 * Returns JSON texts of about `maxLength` characters each, which together have all `rows` of a table in their
 * order, and at least one text.
 */
export const tableTexts = (rows: readonly unknown[], maxLength: number): string[] => {
  const texts: string[] = [];
  let [pieces, length]: [string[], number] = [[], 0];
  for (const row of rows) {
    const piece = JSON.stringify(row);
    if (length > 0 && length + piece.length > maxLength) {
      texts.push(`[${pieces.join(",")}]`);
      [pieces, length] = [[], 0];
    }
    pieces.push(piece);
    length += piece.length;
  }
  return [...texts, `[${pieces.join(",")}]`];
};

/** Names in one warning, and characters of each: a warning is short however many fields there are. */
const NAMED_MAX = 5;
const NAME_MAX = 40;

/** Returns the names of an object's fields that are none of `known`, in order; none of anything else. */
export const ignoredFields = (value: unknown, known: ReadonlySet<string>): string[] =>
  isJsonObject(value) ? Object.keys(value).filter((name) => !known.has(name)) : [];

/**
 * Returns the warnings about ignored fields: one that names the first few, or none.
 * @param of what the fields were given for, such as `an event`
 */
export const ignoredWarnings = (names: readonly string[], of: string): string[] => {
  if (names.length === 0) return [];
  const shown = names.slice(0, NAMED_MAX).map((name) => clipped(name, NAME_MAX));
  const more = names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : "";
  return [`${shown.join(", ")}${more}: not a field of ${of}, and ignored`];
};

type Shown<V> = V extends Date ? string : V extends undefined ? null : V;

const shownOf = (value: unknown): unknown => (value instanceof Date ? value.toISOString() : (value ?? null));

/** Returns fields as the API shows them: times as text, and null for what is not set. */
export const shown = <T extends object, F extends keyof T>(
  from: T,
  fields: readonly F[],
): { [K in F]: Shown<T[K]> } =>
  Object.fromEntries(fields.map((field) => [field, shownOf(from[field])])) as never;

/** As `shown`, without fields that are not set. */
export const shownIfSet = <T extends object, F extends keyof T>(
  from: T,
  fields: readonly F[],
): { [K in F]?: Shown<NonNullable<T[K]>> } =>
  shown(
    from,
    fields.filter((field) => from[field] != null),
  ) as never;

/** The row that a statement returns for a T: times, which have names such as `createdAt`, are Dates. */
export type RowOf<T> = { [K in keyof T]: K extends `${string}At` ? Date | Extract<T[K], null> : T[K] };

/** Returns all fields of a row as the API shows them: each column that is selected is in the answer. */
export const shownRow = <T extends object>(row: RowOf<T>): T =>
  shown(row, Object.keys(row) as (keyof T)[]) as never;

/** Returns an object without the fields that are undefined. */
export const definedOf = <T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;

/** Returns whether a value is a JSON object: not a list, and not null. */
export const isJsonObject = (value: unknown): value is Json =>
  value !== null && typeof value === "object" && !Array.isArray(value);
