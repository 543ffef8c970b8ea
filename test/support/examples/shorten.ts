/** How long an example may be, in characters of JSON. */
export const EXAMPLE_MAX = 1_500;

type Change = (value: unknown, depth: number) => unknown;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Applies a change to a value and to all that is left inside it. */
const throughout = (value: unknown, change: Change, depth = 0): unknown => {
  const changed = change(value, depth);
  if (Array.isArray(changed)) return changed.map((one) => throughout(one, change, depth + 1));
  if (!isObject(changed)) return changed;
  return Object.fromEntries(
    Object.entries(changed).map(([name, one]) => [name, throughout(one, change, depth + 1)]),
  );
};

const lists =
  (length: number): Change =>
  (value) =>
    Array.isArray(value) ? value.slice(0, length) : value;
const objects =
  (size: number, minDepth: number): Change =>
  (value, depth) =>
    isObject(value) && depth >= minDepth ? Object.fromEntries(Object.entries(value).slice(0, size)) : value;
const texts =
  (length: number): Change =>
  (value) =>
    typeof value === "string" && value.length > length ? `${value.slice(0, length - 1)}…` : value;

const sizeOf = (value: unknown): number => JSON.stringify(value).length;

/** Empties the lists that take most room. */
const longLists: Change = (value) => (Array.isArray(value) && sizeOf(value) > 200 ? [] : value);

/** From what is hardly missed to what is. */
const CUTS: readonly Change[] = [
  lists(3),
  lists(2),
  lists(1),
  ...[6, 5, 4, 3].map((depth) => objects(2, depth)),
  longLists,
  ...[5, 4, 3, 2].map((depth) => objects(0, depth)),
  texts(60),
];

/** Cuts lists, and what is deep inside, until an example is short enough, as far as it stays `isValid`. */
export const shorten = (answer: unknown, isValid: (answer: unknown) => boolean): unknown => {
  let short = answer;
  for (const cut of CUTS) {
    if (sizeOf(short) <= EXAMPLE_MAX) break;
    const shorter = throughout(short, cut);
    if (isValid(shorter)) short = shorter;
  }
  return short;
};

/** How much an answer tells: values that are there, of a few items of every list. */
export const tells = (value: unknown): number => {
  if (Array.isArray(value)) return value.slice(0, 2).reduce<number>((sum, one) => sum + tells(one), 0);
  if (isObject(value)) return Object.values(value).reduce<number>((sum, one) => sum + tells(one), 0);
  return value === null || value === "" ? 0 : 1;
};
