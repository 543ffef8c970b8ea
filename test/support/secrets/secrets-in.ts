const NAME = /password|token$|secret$|signature|recoverycodes/i;
const TEXT = /^(svc_|whsec_)\w{20}/;
/** Shorter texts may stand anywhere by chance. */
const LENGTH_MIN = 12;

/** Texts of a body that nobody may read later, by the names that they stand under and by how they begin. */
export const secretsIn = (value: unknown, name = ""): string[] => {
  if (typeof value === "string")
    return value.length >= LENGTH_MIN && (NAME.test(name) || TEXT.test(value)) ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((item) => secretsIn(item, name));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([field, item]) => secretsIn(item, field));
};
