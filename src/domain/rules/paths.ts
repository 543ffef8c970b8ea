/** Reads a value out of JSON; undefined where the path leads nowhere. */
export type Reader = (root: unknown) => unknown;

/** Own properties only: nothing of a prototype is ever seen by a rule. */
const own = (value: unknown, name: string): unknown =>
  value !== null && typeof value === "object" && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;

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
