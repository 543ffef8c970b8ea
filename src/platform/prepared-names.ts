/** Maximum number of prepared statements; further ones are planned each time. */
const KEPT_MAX = 200;

const names = new Map<string, string>();

/** Returns the prepared statement's name for this text; undefined when there are too many. */
export const nameOf = (text: string): string | undefined => {
  const known = names.get(text);
  if (known !== undefined || names.size >= KEPT_MAX) return known;
  const name = `kept_${names.size}`;
  names.set(text, name);
  return name;
};
