/** Reads a value from JSON; undefined where the path leads nowhere. */
export type Reader = (root: unknown) => unknown;

/** Only what JSON contains: own properties, none of a prototype, and not the length of a list. */
const own = (value: unknown, name: string): unknown =>
  value !== null && typeof value === "object" && Object.hasOwn(value, name) && !isLength(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;

const isLength = (value: object, name: string): boolean => name === "length" && Array.isArray(value);

/** Splits `path` once; one-segment paths, the common case, skip the loop. */
export const compilePath = (path: string): Reader => {
  const segments = path.split(".");
  const [first, ...rest] = segments as [string, ...string[]];
  if (rest.length === 0) return (root) => own(root, first);
  return (root) => {
    let value = own(root, first);
    for (const name of rest) value = own(value, name);
    return value;
  };
};
