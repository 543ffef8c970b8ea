/** Variables by name; an empty one counts as unset. */
export type Env = Readonly<Record<string, string | undefined>>;

/** A dependency between variables; checked on their text, so that one bad value hides no other problem. */
export type Rule = { name: string; breaks: (env: Env) => boolean; message: string };
