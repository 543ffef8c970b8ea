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
