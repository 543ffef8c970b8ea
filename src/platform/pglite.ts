import { createPostgreSqlTypeParsers } from "@mikro-orm/sql";

/** Returns the options of a database in memory. @param cluster what it begins as, in place of an empty one */
export const inMemory = async (cluster?: Blob) => ({
  loadDataDir: cloneable(cluster ?? (await emptyCluster())),
});

/** Creates an empty cluster as `initdb` does, which takes PGlite seconds of computing. */
export const emptyCluster = async (): Promise<Blob> =>
  (await import("@electric-sql/pglite-prepopulatedfs")).dataDir();

/**
 * Returns the archive as PGlite needs it: the ORM copies its options field by field, which no Blob survives.
 */
const cloneable = (blob: Blob) => ({ type: blob.type, arrayBuffer: () => blob.arrayBuffer() });

/** Types of arrays in results: bool, bytea, int2, 4, 8, text, varchar, float8, dates, numeric, JSON, UUID. */
const ARRAY_TYPES = [1000, 1001, 1005, 1007, 1016, 1009, 1015, 1022, 1182, 1185, 1231, 199, 3807, 2951];

/**
 * Removes unused parsers. PGlite copies all its parsers for every result, including one per array type and
 * table row type: most of the time of a small query. The ORM's own and those for used array types stay; for
 * other types PGlite uses a table that it does not copy.
 */
export const keepFewParsers = (parsers: object): void => {
  const own = createPostgreSqlTypeParsers((text) => [text]);
  const kept = new Set([...Object.keys(own), ...ARRAY_TYPES.map(String)]);
  for (const type of Object.keys(parsers)) if (!kept.has(type)) Reflect.deleteProperty(parsers, type);
};
