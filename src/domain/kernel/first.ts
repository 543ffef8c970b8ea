/** Returns the first result of `check` that is one; the items after it are not looked at. */
export const firstOf = <T, R>(items: Iterable<T>, check: (item: T) => R | undefined): R | undefined => {
  for (const item of items) {
    const found = check(item);
    if (found !== undefined) return found;
  }
  return undefined;
};
