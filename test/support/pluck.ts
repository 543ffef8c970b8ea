/** One field of each item or, of several fields, a row for each item. */
export const pluck = <K extends string>(
  items: Iterable<{ readonly [P in K]?: unknown }>,
  ...names: readonly [K, ...K[]]
): unknown[] =>
  [...items].map((item) => (names.length === 1 ? item[names[0]] : names.map((name) => item[name])));
